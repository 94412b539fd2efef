#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""deploy/uroce-mpi by itself: its key, and what it refuses. deploy_test.py runs jobs with it, in containers."""
import os
import subprocess
import tempfile

import harness


def uroce_mpi(*argv, **environment):
    """@return (exit code, all that it said)"""
    done = subprocess.run([f"{harness.ROOT}/deploy/uroce-mpi", *argv], env={**os.environ, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          check=False)
    return done.returncode, done.stdout


def keys(tally, folder):
    """What a call that was interrupted has left is made anew; a key that is there stays."""
    for name in ("key.new", "key.new.pub", "key.pub"):
        with open(f"{folder}/{name}", "w", encoding="ascii") as f:
            f.write("half a k")
    code, out = uroce_mpi("key", folder)
    done = subprocess.run(["ssh-keygen", "-y", "-f", f"{folder}/key"], capture_output=True, text=True, check=False)
    with open(f"{folder}/key.pub", encoding="ascii") as f:
        public = f.read()
    tally.result("a key after an interruption", code == 0 and done.returncode == 0 and
                 done.stdout.split()[:2] == public.split()[:2] and sorted(os.listdir(folder)) == ["key", "key.pub"],
                 f"exit code {code}, {os.listdir(folder)}", out, done.stderr)
    code, out = uroce_mpi("key", folder)
    with open(f"{folder}/key.pub", encoding="ascii") as f:
        tally.result("a key that is there stays", code == 0 and f.read() == public, f"exit code {code}", out)


def refusals(tally, folder):
    """What cannot work is told at once, and nothing is left of it."""
    for name in ("two words", "a*", "a?b", "[a]"):
        os.mkdir(f"{folder}/{name}")
        for argv in (("run", f"{folder}/{name}", "one", "true"), ("serve", f"{folder}/{name}"),
                     ("key", f"{folder}/{name}")):
            code, out = uroce_mpi(*argv, UROCE_MPI_WAIT="0")
            tally.result(f"uroce-mpi {argv[0]} with a folder '{name}'", code == 1 and "blanks or wildcards" in out and
                         not os.listdir(f"{folder}/{name}"), f"exit code {code}", out)


def unreachable(tally, folder):
    """A host that does not answer: what ssh says is told, and no file stays."""
    for name in ("bin", "tmp", "job"):
        os.mkdir(f"{folder}/{name}")
    with open(f"{folder}/bin/ssh", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho no way to it >&2\nexit 255\n")
    os.chmod(f"{folder}/bin/ssh", 0o755)
    code, out = uroce_mpi("run", f"{folder}/job", "one,two", "true", UROCE_MPI_WAIT="1", TMPDIR=f"{folder}/tmp",
                          PATH=f"{folder}/bin:{os.environ['PATH']}")
    left = os.listdir(f"{folder}/tmp")
    tally.result("a host that does not answer", code == 1 and "two does not answer" in out and "no way to it" in out
                 and not left, f"exit code {code}, left: {left}", out)


def main():
    harness.options(__doc__)
    harness.need_programs("ssh-keygen")
    tally = harness.Tally("uroce_mpi")
    with tempfile.TemporaryDirectory() as folder:
        keys(tally, folder)
    with tempfile.TemporaryDirectory() as folder:
        refusals(tally, folder)
        unreachable(tally, folder)
    tally.finish()


if __name__ == "__main__":
    main()
