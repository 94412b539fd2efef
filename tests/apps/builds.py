# SPDX-License-Identifier: BSD-3-Clause
"""Builds packages for tests: with scripts/package, on this machine or in a tree of another release."""
import glob
import os
import re
import shutil
import subprocess

import harness


def release():
    """@return the name that scripts/distribution has for this machine's release; None: it has none"""
    done = subprocess.run([os.path.join(harness.ROOT, "scripts", "packages"), "release"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def run(*argv):
    """@return exit code, and all that the program wrote"""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


class Here:
    """Builds on this machine."""

    def __init__(self, work, _name):
        self.output = os.path.join(work, "packages")

    def package(self, sources, *options):
        return run(os.path.join(sources, "scripts", "package"), "--output", self.output, "--again", *options)

    def mpi_check(self):
        """@return the path of the program; skips without it"""
        path = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "mpi_check")
        return path if os.path.exists(path) else \
            harness.skip("mpi_check was not built: libopenmpi-dev was not installed then")


class There:
    """Builds in a tree of another release, a copy of the bare one, where scripts/distribution installs what that takes
    and which stays for the next time."""

    def __init__(self, work, name):
        self.name, self.tree = name, os.path.join(work, "builder")
        self.output = os.path.join(self.tree, "packages")
        if not os.path.exists(os.path.join(self.tree, "made")):
            subprocess.run(["rm", "-rf", "--one-file-system", self.tree], check=True)
            subprocess.run(["cp", "-a", bare_tree(work, name), self.tree], check=True)
        code, out = self.ask(harness.ROOT, "build package mpi", "true")
        if code:
            harness.skip(f"packages cannot be installed in a tree of {name} here: {out.strip()[-500:]}")

    def ask(self, sources, groups, *argv):
        return run(os.path.join(sources, "scripts", "distribution"), "--tree", self.tree, "--groups", groups, self.name,
                   *argv)

    def package(self, sources, *options):
        return self.ask(sources, "", "scripts/package", "--output", "/packages", "--again", *options)

    def mpi_check(self):
        code, out = self.ask(harness.ROOT, "", "sh", "-c", "{ [ -e /mpi/build.ninja ] || meson setup /mpi; } && "
                             "ninja -C /mpi tests/apps/mpi_check")
        if code:
            raise RuntimeError(f"mpi_check cannot be built: {out[-5000:]}")
        return os.path.join(self.tree, "mpi", "tests", "apps", "mpi_check")


def build(tally, builder, work, version=None, sources=harness.ROOT):
    """Build packages with scripts/package. @return {name: path}, copied to a folder of their own"""
    kept = os.path.join(work, version or "first")
    more = ["--version", version, "--no-lint"] if version else []
    code, out = builder.package(sources, *more)
    tally.result(f"scripts/package {' '.join(more)}", code == 0, f"exit code {code}", out)
    if code:
        tally.finish()
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept)
    return {os.path.basename(path).split("_")[0]: shutil.copy(path, kept)
            for path in glob.glob(os.path.join(builder.output, "*.deb"))}


def another_protocol(work):
    """@return a copy of the sources with the next version of the protocol between processes"""
    copy = os.path.join(work, "sources")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["bash", "-ec", '. "$0/scripts/lib.sh"; sources_copy "$1"', harness.ROOT, copy], check=True)
    with open(os.path.join(copy, "pmd", "proto", "proto.h"), encoding="utf-8") as f:
        number = int(re.search(r"#define PROTO_VERSION\s+(\d+)", f.read()).group(1))
    for name, pattern, text in (("pmd/proto/proto.h", r"(#define PROTO_VERSION\s+)\d+", rf"\g<1>{number + 1}"),
                                ("scripts/uroce_cmd/proto.py", r"(?m)^(MAGIC = 0x757200)\w\w",
                                 rf"\g<1>{number + 1:02x}")):
        with open(os.path.join(copy, name), "r+", encoding="utf-8") as f:
            changed, times = re.subn(pattern, text, f.read())
            if times != 1:
                raise RuntimeError(f"{name} has no version of the protocol")
            f.seek(0)
            f.write(changed)
            f.truncate()
    return copy


def rpms(tally, work):
    """scripts/uroce.spec: RPM packages come of it, with this machine's tools. What they need elsewhere is not tried."""
    if not shutil.which("rpmbuild") or not shutil.which("rpmlint"):
        print("SKIP scripts/uroce.spec: rpmbuild and rpmlint are not installed", flush=True)
        return
    done = subprocess.run([os.path.join(harness.ROOT, "scripts", "package"), "--rpm", "--output",
                           os.path.join(work, "rpms")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    tally.result("scripts/package --rpm", done.returncode == 0, f"exit code {done.returncode}", done.stdout)
    found = glob.glob(os.path.join(work, "rpms", "uroce-[0-9]*.rpm"))
    built = [path for path in found if not path.endswith(".src.rpm")]
    told = subprocess.run(["rpm", "-qp", "--provides", "--requires", *built], capture_output=True, text=True,
                          check=False).stdout if built else "libibverbs.so"
    tally.result("it neither stands for libibverbs nor needs libfabric",
                 not re.search(r"libibverbs\.so|libfabric", told), "it does", told)


def bare_tree(work, name):
    """@return the folder of a bare tree, which debootstrap has made now or earlier"""
    tree = os.path.join(work, name)
    if not os.path.exists(os.path.join(tree, "made")):
        shutil.rmtree(tree, ignore_errors=True)
        done = subprocess.run([os.path.join(harness.ROOT, "scripts", "distribution"), "--tree", tree, "--bare", name],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode:
            harness.skip(f"no bare tree of {name} can be made here: {done.stdout.strip()[-500:]}")
        with open(os.path.join(tree, "made"), "w", encoding="utf-8"):
            pass
    return tree
