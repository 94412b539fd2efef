#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `meson install` installs, run from where it has been put: a temporary folder, in each layout of libraries that
distributions have; then, in a layer above this machine's files, /usr, /usr/local and /opt. Nothing of the build or the
sources may be needed."""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile

import harness
import trees

# lib, as most distributions; Debian's folder of an architecture; Fedora's. In the last two another architecture's
# folder is beside it, which must not be taken.
LAYOUTS = ("lib", f"lib/{platform.machine()}-linux-gnu", "lib64")
FOREIGN = "lib/aaa-linux-gnu"
# Where users install, and the layout there; None: that of the build.
PREFIXES = {"/usr": None, "/usr/local": None, "/opt/uroce": "lib"}
USER = 1234


def version():
    with open(os.path.join(harness.ROOT, "meson.build"), encoding="utf-8") as f:
        return re.search(r"version: '(.*?)'", f.read()).group(1)


def options_of_build(build):
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        return {option["name"]: option["value"] for option in json.load(f)}


def install(build, tree):
    """@return what was wrong"""
    done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", tree], capture_output=True,
                          text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def arrange(prefix, libdir, layout):
    """Move the installed libraries to a layout's folder; another architecture's folder has files that cannot be
    loaded."""
    if libdir != layout:
        os.rename(os.path.join(prefix, libdir), os.path.join(prefix, "moved"))
        os.makedirs(os.path.dirname(os.path.join(prefix, layout)), exist_ok=True)
        os.rename(os.path.join(prefix, "moved"), os.path.join(prefix, layout))
    if layout != "lib":
        for name in ("uroce/libibverbs.so.1", "libfabric/liburoce-fi.so"):
            path = os.path.join(prefix, FOREIGN, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write("not this machine's\n")


class Tree:
    """An installed tree, and how to run its programs: with nothing of the build in the environment."""

    def __init__(self, prefix, lane):
        self.prefix = prefix
        self.address = harness.loopback_sides(lane)[0].address  # its own, not to meet the daemon of another tree
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("UROCE_", "LD_", "FI_"))}
        self.env["UROCE_DEVICES"] = self.address

    def run(self, *argv):
        """@return exit code, and all that the program wrote"""
        done = subprocess.run([os.path.join(self.prefix, "bin", argv[0]), *argv[1:]], env=self.env, cwd="/",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stdout


def programs(tally, tree, layout, provider):
    address = re.escape(tree.address)
    cases = [(["uroce", "run", "--", "ibv_devinfo", "-v"], rf"hca_id:\s+uroce0[^$]*::ffff:{address}, RoCE v2")]
    if provider and shutil.which("fi_info"):
        cases.append((["uroce", "run", "--", "fi_info", "-p", "uroce"], r"(?m)^provider: uroce$"))
    cases += [(["uroce", "run", "--preload", "--", "ibv_devices"], r"uroce0\s+[0-9a-f]{16}"),
              (["uroce", "run", "--", "sh", "-c", "cat /sys/class/infiniband/uroce0/ports/1/state"], r"4: ACTIVE")]
    cases += [([name, "--version"], rf"\A{name} {re.escape(version())}\n\Z")
              for name in ("uroce", "uroce-run", "uroced")]
    for argv, pattern in cases:
        code, out = tree.run(*argv)
        tally.result(f"{layout}: {' '.join(argv)}", code == 0 and re.search(pattern, out) is not None,
                     f"exit code {code}, expected {pattern}", out)


def daemon(tally, tree, layout):
    """The daemon that a program starts is the installed one next to its library."""
    wanted = os.path.realpath(os.path.join(tree.prefix, "bin", "uroced"))
    code, out = tree.run("uroce", "run", "--", "sh", "-c",
                         "ibv_devinfo >/dev/null; for p in /proc/[0-9]*/exe; do readlink $p; done; :")
    tally.result(f"{layout}: the installed daemon runs", code == 0 and wanted in out.split(), f"no {wanted}", out)
    code, out = tree.run("uroce", "up", tree.address)
    tally.result(f"{layout}: uroce up", code == 0, f"exit code {code}", out)
    code, out = tree.run("uroce", "down", tree.address)
    tally.result(f"{layout}: uroce down", code == 0, f"exit code {code}", out)


def files(tally, prefix):
    for path in ("share/man/man1/uroce.1*", "share/man/man1/uroce-run.1*", "share/man/man7/uroce.7*",
                 "share/man/man8/uroced.8*", "share/bash-completion/completions/uroce",
                 "share/bash-completion/completions/uroce-run", "share/zsh/site-functions/_uroce",
                 "share/uroce/uroce.lua", "share/uroce/grafana.json", "include/uroce/infiniband/verbs_exp.h"):
        found = glob.glob(os.path.join(prefix, path))
        tally.result(f"installed: {path}", len(found) == 1, f"found {found}")
    done = subprocess.run(["bash", "-c", '. "$0"; COMP_WORDS=(uroce sta) COMP_CWORD=1; _uroce; echo "${COMPREPLY[*]}"',
                           os.path.join(prefix, "share/bash-completion/completions/uroce")], text=True, check=False,
                          capture_output=True, env=dict(os.environ, PATH=f"{prefix}/bin:{os.environ['PATH']}"))
    tally.result("installed: completion", sorted(done.stdout.split()) == ["stat", "status"], done.stdout, done.stderr)


class Place:
    """An installed tree at its place, in a root file system of its own; and what it must do there for an ordinary
    user whose environment has nothing of uroce."""

    def __init__(self, tally, root, prefix):
        self.tally, self.root, self.prefix = tally, root, prefix

    def case(self, name, pattern, *argv, need=None, env=None, seconds=60):
        if need and not shutil.which(need):
            print(f"SKIP {self.prefix}: {name}: {need} is not installed", flush=True)
            return
        path = f"{self.prefix}/bin:{self.root.environment['PATH']}"
        code, out = self.root.run(*argv, env={"PATH": path, "HOME": "/tmp", **(env or {})}, user=USER, seconds=seconds)
        self.tally.result(f"{self.prefix}: {name}", code == 0 and re.search(pattern, out) is not None,
                          f"exit code {code}, expected {pattern}", out)

    def libfabric(self, has_mpi):
        """In /usr libfabric finds the provider by itself, elsewhere by `uroce run`."""
        run = [] if self.prefix == "/usr" else ["uroce", "run", "--"]
        self.case("fi_info", r"(?m)^provider: uroce$", *run, "fi_info", "-p", "uroce", need="fi_info")
        if not has_mpi:
            print(f"SKIP {self.prefix}: MPI: mpi_check was not built", flush=True)
            return
        self.case("MPI", r"\A(ok .*\n)+\Z", *run, "mpirun.openmpi", "--oversubscribe", "-np", "2", "--mca", "pml", "cm",
                  "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "uroce", "--mca", "oob_tcp_if_include",
                  "lo", "--mca", "mpi_yield_when_idle", "1", "/opt/mpi_check", "messages", need="mpirun.openmpi",
                  seconds=120)

    def all(self, provider, has_mpi):
        self.case("ibv_devinfo", r"hca_id:\s+uroce0", "uroce", "run", "--", "ibv_devinfo")
        self.case("the installed daemon runs", rf"(?m)^{self.prefix}/bin/uroced$", "uroce", "run", "--", "sh", "-c",
                  "ibv_devinfo >/dev/null; for p in /proc/[0-9]*/exe; do readlink $p; done; :")
        if provider:
            self.libfabric(has_mpi)
        # man finds the pages of programs in the folders of PATH.
        for page, section in (("uroce", 1), ("uroce-run", 1), ("uroce", 7), ("uroced", 8)):
            self.case(f"man {section} {page}", rf"(?i){page}\({section}\)[^$]*NAME", "man", str(section), page,
                      need="man", env={"MANPAGER": "cat"})
        completions = f"{self.prefix}/share/bash-completion/completions/uroce"
        self.case("completion in bash", r"\Astat\nstatus\n\Z", "bash", "-c", f". {completions}\n"
                  "COMP_WORDS=(uroce sta) COMP_CWORD=1; _uroce; printf '%s\\n' \"${COMPREPLY[@]}\" | sort")


def places(tally, build, built):
    """The same installation at the places that users choose."""
    if os.geteuid():
        print("SKIP /usr, /usr/local, /opt: needs root (namespaces)", flush=True)
        return
    mpi_check = os.path.join(build, "tests", "apps", "mpi_check")
    for prefix, layout in PREFIXES.items():
        with tempfile.TemporaryDirectory(prefix="uroce-install-") as image:
            os.chmod(image, 0o755)
            wrong = install(os.path.abspath(build), image)
            tally.result(f"{prefix}: meson install", not wrong, "it failed", wrong)
            tree = image + built["prefix"]
            provider = os.path.exists(os.path.join(tree, built["libdir"], "libfabric", "liburoce-fi.so"))
            if layout:
                os.rename(os.path.join(tree, built["libdir"]), os.path.join(tree, "moved"))
                shutil.rmtree(os.path.join(tree, "lib"), ignore_errors=True)
                os.rename(os.path.join(tree, "moved"), os.path.join(tree, layout))
            try:
                with trees.Root("/", binds=[(tree, "run/image")]) as root:
                    code, out = root.run("sh", "-c", f"mkdir -p {prefix} && cp -a /run/image/. {prefix}/")
                    tally.result(f"{prefix}: the files are there", code == 0, f"exit code {code}", out)
                    if os.path.exists(mpi_check):
                        root.put(mpi_check, "/opt/mpi_check")
                    Place(tally, root, prefix).all(provider, os.path.exists(mpi_check))
            except trees.Unavailable as why:
                print(f"SKIP {prefix}: no root file system can be made here: {why}", flush=True)


def main():
    build = harness.options(__doc__).build
    harness.need_programs("meson", "ibv_devinfo")
    tally = harness.Tally("install")
    built = options_of_build(build)
    prefix, libdir = built["prefix"], built["libdir"]
    if (built["bindir"], built["datadir"]) != ("bin", "share"):
        harness.skip("the build has other folders than bin and share")
    for lane, layout in enumerate(LAYOUTS):
        with tempfile.TemporaryDirectory(prefix="uroce-install-") as root:
            os.chmod(root, 0o755)
            wrong = install(os.path.abspath(build), root)
            tally.result(f"{layout}: meson install", not wrong, "it failed", wrong)
            if wrong:
                continue
            tree = Tree(root + prefix, lane)
            provider = os.path.exists(os.path.join(tree.prefix, libdir, "libfabric", "liburoce-fi.so"))
            arrange(tree.prefix, libdir, layout)
            programs(tally, tree, layout, provider)
            daemon(tally, tree, layout)
            if layout == LAYOUTS[-1]:  # the same in all layouts
                files(tally, tree.prefix)
    places(tally, build, built)
    tally.finish()


if __name__ == "__main__":
    main()
