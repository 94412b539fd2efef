#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/packages: each distribution's table, what happens without one, and that no other file calls a package
manager. Programs that stand for the package managers say what they would install."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = os.path.join(ROOT, "scripts", "packages")
KNOWN = {"debian-12": ("debian", "12"), "debian-13": ("debian", "13"), "ubuntu-22.04": ("ubuntu", "22.04"),
         "ubuntu-24.04": ("ubuntu", "24.04"), "fedora": ("fedora", "42")}
TOOLS = "bash env sed awk tr mktemp rm tail cat grep sleep head mkdir".split()
NEEDS = ("cc meson ninja python3 ip ibv_devinfo ibv_rc_pingpong ib_write_lat rping fi_info tcpdump").split()
MANAGERS = re.compile(r"\b(apt-get|apt-cache|apt-config|dpkg|dpkg-query|dpkg-deb|dnf|rpm|debootstrap)\b")
CALLERS = ("scripts/packages", "scripts/distribution", "scripts/package", "tests/apps/package_test.py",
           "tests/apps/builds.py", "tests/apps/distribution_test.py", "tests/cross/sysroot",
           "tests/house/packages_test.py")
bad = 0


def check(good, what):
    global bad
    print(f"{'ok' if good else 'FAIL'}: {what}")
    bad += not good


class Machine:
    """A machine of a distribution, with these programs only."""

    def __init__(self, folder, os_release, programs, uid, managers=()):
        self.bin, self.os_release = os.path.join(folder, "bin"), os.path.join(folder, "os-release")
        shutil.rmtree(self.bin, ignore_errors=True)
        os.mkdir(self.bin)
        with open(self.os_release, "w") as f:
            f.write(os_release)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.bin, tool))
        self.program("id", f"echo {uid}")
        for name in programs:
            self.program(name, "exit 0")
        for name in managers:
            self.program(name, "exit 1" if name in ("rpm", "dpkg-query") else f'echo "{name} $*" >>"{folder}/called"')
        self.called = os.path.join(folder, "called")
        if os.path.exists(self.called):
            os.unlink(self.called)

    def program(self, name, body):
        with open(os.path.join(self.bin, name), "w") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(f.name, 0o755)

    def run(self, *arguments):
        """@return (exit code, stdout and stderr)"""
        done = subprocess.run([PACKAGES, *arguments], env={"PATH": self.bin, "UROCE_OS_RELEASE": self.os_release},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return done.returncode, done.stdout

    def calls(self):
        return open(self.called).read() if os.path.exists(self.called) else ""


def release(name, version, like=""):
    return f'ID={name}\nVERSION_ID="{version}"\nID_LIKE="{like}"\n'


def tables(folder):
    lines = re.findall(r'^PACKAGES_GROUPS\+?="(.*)"$', open(PACKAGES).read(), re.M)  # those of Debian end in a comment
    groups = " ".join(lines).split()
    names = {}
    for known, (name, version) in KNOWN.items():
        machine = Machine(folder, release(name, version), [], 1000)
        for group in groups:
            code, out = machine.run("list", group)
            names[known, group] = out.split()
            if code or not out.strip():
                check(False, f"{known} has no packages for {group}: {out!r}")
    check(len(names) == len(KNOWN) * len(groups), f"{len(KNOWN)} distributions have packages for {len(groups)} groups")
    check("dapl2-utils" in names["debian-12", "rdmacm"] and "dapl2-utils" not in names["debian-13", "rdmacm"],
          "Debian 13 has no DAPL")
    check("libdpdk-dev" in names["ubuntu-22.04", "build"] and "dpdk-devel" in names["fedora", "build"],
          "names are the distribution's")
    text = open(PACKAGES).read()
    listed = set(" ".join(re.findall(r'^PACKAGES_GROUPS\+?="(.*?)"', text, re.M)).split())
    labels = re.findall(r"^\t([\w |]+)\)", text[text.index("packages_debian_12"):text.index("packages_needs")], re.M)
    check(listed == set(" | ".join(labels).split(" | ")), f"listed, in tables: {' '.join(sorted(listed))}")
    mint = Machine(folder, release("linuxmint", "22", "ubuntu debian"), [], 1000).run("list", "build")
    check(mint == (0, "\n".join(names["ubuntu-24.04", "build"]) + "\n"), "Mint has Ubuntu's names")
    code, out = Machine(folder, release("debian", "12"), [], 0).run("install", "bild")
    check(code == 1 and "no group of packages called bild" in out, f"a wrong group: {out!r}")


def build_depends(folder):
    """What debian/control wants is what scripts/package installs."""
    control = open(os.path.join(ROOT, "debian", "control")).read()
    wanted = re.sub(r" \(.*?\)", "", re.search(r"^Build-Depends:\n((?: .*\n)*)", control, re.M).group(1)).split(",\n")
    wanted = [set(one.replace("debhelper-compat", "debhelper").split()) - {"|"} for one in wanted if one.strip()]
    for name, version in KNOWN.values():
        if name != "fedora":
            machine = Machine(folder, release(name, version), [], 1000)
            there = set(machine.run("list", "build", "package")[1].split())
            missing = [one for one in wanted if not one & there]
            check(len(wanted) > 10 and not missing,
                  f"{name} {version}: debian/control wants {missing or 'what is listed'}")


def unknown(folder):
    machine = Machine(folder, release("other", "7"), [*NEEDS, "pkg-config"], 1000)
    check(machine.run("install", "build", "programs", "demo") == (0, ""), "unknown distribution, all is there")
    os.unlink(os.path.join(machine.bin, "meson"))
    machine.program("pkg-config", '[ "$2" != libisal ]')
    code, out = machine.run("install", "build", "programs")
    check(code == 1 and "other 7" in out and out.rstrip().endswith("please install them: meson pc:libisal"),
          f"unknown distribution, two are missing: {out!r}")
    check(machine.run("install", "mpi", "peers")[0] == 0, "unknown distribution, nothing is needed of groups for tests")


def managers(folder):
    machine = Machine(folder, release("fedora", "42"), NEEDS, 0, ["rpm", "dnf"])
    code, out = machine.run("install", "build")
    check(code == 0 and re.search(r"dnf install .*\bdpdk-devel\b", machine.calls()), f"Fedora: {machine.calls()!r}")
    machine = Machine(folder, release("debian", "13"), NEEDS, 0, ["dpkg-query", "apt-get"])
    code, out = machine.run("install", "demo")
    check(code == 0 and re.search(r"apt-get .*install .* tcpdump$", machine.calls(), re.M),
          f"Debian: {machine.calls()!r}")
    machine = Machine(folder, release("debian", "13"), [*NEEDS, "pkg-config"], 1000, ["dpkg-query", "apt-get"])
    check(machine.run("install", "build") == (0, ""), "a user of Debian who has the programs, but not by package")
    os.unlink(os.path.join(machine.bin, "ninja"))
    code, out = machine.run("install", "build")
    check(code == 1 and "apt-get install" in out and "libdpdk-dev" in out and not machine.calls(),
          f"a user of Debian is told: {out!r}")
    machine.program("dpkg-query", "echo installed")
    check(machine.run("install", "build", "programs") == (0, ""), "a user of Debian who has the packages")


def others():
    """No other script or test calls a package manager, except those that make trees, scripts/distribution (debootstrap)
    and tests/cross/sysroot (packages of another architecture), and those that make packages and try them."""
    for top in "scripts", "tests":
        for folder, _, files in os.walk(os.path.join(ROOT, top)):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if path in CALLERS or "/corpus/" in path or name.endswith((".pyc", ".c", ".h")):
                    continue
                try:
                    lines = open(os.path.join(ROOT, path)).read().splitlines()
                except UnicodeDecodeError:
                    continue
                for n, line in enumerate(lines, 1):
                    if MANAGERS.search(line):
                        check(False, f"{path}:{n} calls a package manager: {line.strip()}")
    check(True, "looked for other calls of package managers")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tables(folder)
        build_depends(folder)
        unknown(folder)
        managers(folder)
    others()
    return 1 if bad else 0


sys.exit(main())
