#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Boots Debian's arm64 kernel in qemu-system-aarch64, an emulated machine, and runs tests of a cross build in there.

The guest has two CPUs and three folders of this machine, read-only: unpacked packages as its root
(tests/cross/sysroot), this checkout, and the build folder. Prints its console; guest_tests.py in there says what it
runs. Exit code 0: the last line of its console tells of tests that passed and of none that failed. Needs no root and no
network.
"""
import argparse
import glob
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))
import initramfs  # noqa: E402

# To mount the host's folders; interfaces and their faults for the tests.
MODULES = "virtio_pci 9p 9pnet_virtio overlay veth tun sch_netem".split()
RESULT = re.compile(r"^GUEST-RESULT (\d+) passed, (\d+) failed, (\d+) skipped$")


def only(pattern):
    found = glob.glob(pattern)
    if len(found) != 1:
        sys.exit(f"guest.py: {len(found)} files are called {pattern}")
    return found[0]


def image_write(root, out):
    """The initramfs: a shell, modules and the first half of guest-init."""
    cpio = initramfs.Cpio()
    for folder in ("bin", "dev", "proc", "sys", "lib/modules", "root-new", "shares", "written"):
        cpio.add(folder, stat.S_IFDIR | 0o755)
    cpio.file("bin/busybox", os.path.join(root, "bin/busybox"))
    for applet in "sh cat mkdir mount insmod switch_root sync sleep".split():
        cpio.add("bin/" + applet, stat.S_IFLNK | 0o777, b"busybox")
    order = initramfs.module_order(only(os.path.join(root, "usr/lib/modules/*")), MODULES)
    for path in order:
        cpio.file("lib/modules/" + initramfs.module_name(path), path)
    names = "".join(initramfs.module_name(path) + "\n" for path in order)
    cpio.add("lib/modules/order", stat.S_IFREG | 0o644, names.encode())
    cpio.file("init", os.path.join(HERE, "guest-init"))
    cpio.write(out)


def command(args, image):
    """The emulated CPU signs return addresses by a fast function: that of real CPUs takes most of the time."""
    words = ["qemu-system-aarch64", "-accel", "tcg,thread=multi", "-M", "virt", "-cpu", "max,pauth-impdef=on",
             "-smp", "2", "-m", "3072", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-serial", "stdio", "-kernel", only(os.path.join(args.root, "boot/vmlinuz-*")), "-initrd", image,
             "-append", f"console=ttyAMA0 quiet panic=-1 random.trust_cpu=1 source={ROOT} build={args.build} "
             f"tests={','.join(args.tests)}"]
    for tag, path in (("root", args.root), ("source", ROOT), ("build", args.build)):
        words += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap"]
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=os.path.abspath, help="the unpacked packages")
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    parser.add_argument("--minutes", type=int, default=90, help="the most that the guest may run (90)")
    parser.add_argument("tests", nargs="*", help="names of tests (all that guest_tests.py chooses)")
    args = parser.parse_args()
    result = None
    with tempfile.TemporaryDirectory() as folder:
        image = os.path.join(folder, "initramfs")
        image_write(args.root, image)
        guest = subprocess.Popen(command(args, image), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace")
        clock = threading.Timer(args.minutes * 60, guest.kill)
        clock.start()
        try:
            for line in guest.stdout:
                print(line.rstrip(), flush=True)
                result = RESULT.match(line.rstrip()) or result
            code = guest.wait()
        finally:
            clock.cancel()
            guest.kill()
            guest.wait()
    if not result:
        sys.exit(f"guest.py: the guest did not get to the end of its tests (exit code {code})")
    passed, failed, _ = map(int, result.groups())
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
