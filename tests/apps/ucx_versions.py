# SPDX-License-Identifier: BSD-3-Clause
"""Which UCX the transport of ours joins: the versions that it is made for. It finds out the version of the UCX that the
program uses, even if another UCX is installed, and refuses any other version."""
import os
import re
import shutil
import subprocess
import tempfile

import harness

OTHER = "uroce: no UCX transport: it is made for UCX 1.13 and 1.18, and this is 1.15"
MISSING = "uroce: no UCX transport: libuct.so.0, libucs.so.0, or libucp.so.0 beside libuct.so.0 was not found"


def libuct(program):
    """@return the path of the installed libuct, which the program is linked with."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=30, check=True).stdout
    return re.search(r"libuct\.so\.0 => (\S+)", said).group(1)


def check(tally):
    folder = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps")
    program, stub = os.path.join(folder, "ucx_components"), os.path.join(folder, "ucx_other", "libucx_other.so")
    if not os.path.exists(program):
        print("SKIP: ucx_components: not built, because libucx-dev is not installed", flush=True)
        return
    with tempfile.TemporaryDirectory() as with_ucp, tempfile.TemporaryDirectory() as without:
        for private in (with_ucp, without):
            shutil.copy(libuct(program), os.path.join(private, "libuct.so.0"))
        shutil.copy(stub, os.path.join(with_ucp, "libucp.so.0"))
        for case, wanted, private, arguments, sentence in (
                ("the installed one", True, None, (), None),
                ("1.15, loaded by the program", True, None, (stub,), OTHER),
                ("1.15, beside libuct", True, with_ucp, (), OTHER),
                ("1.15, and UCX_TLS does not name the transport", False, with_ucp, (), ""),
                ("unknown, because there is no libucp beside libuct", True, without, (), MISSING)):
            env = {"UCX_TLS": "uroce" if wanted else "tcp", "UCX_WARN_UNUSED_ENV_VARS": "n"}
            if private:
                env["LD_PRELOAD"] = os.path.join(private, "libuct.so.0")  # the loader does not find its libucp
            process = harness.Process([program, *arguments], harness.one_device_sides(9)[0], env)
            code, said = process.wait(30), process.output()
            joined = "component uroce" in said.splitlines()
            told = [line for line in said.splitlines() if line.startswith("uroce: ")]
            tally.result(f"version of UCX: {case}", code == 0 and "component self" in said and
                         joined == (sentence is None) and told == ([sentence] if sentence else []),
                         f"exit code {code}", said)
