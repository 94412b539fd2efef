# SPDX-License-Identifier: BSD-3-Clause
"""The way into a test with a virtual machine: its kernel, its image, and a network namespace of its own."""
import contextlib
import os
import subprocess
import sys

import harness
import initramfs
import kernel
from guest import Guest, network_up

# For what this machine's Debian lacks: a release, and the libraries of rdma-core in it.
NEWER = "trixie", "libc6 libibverbs1 ibverbs-providers libnl-3-200 libnl-route-3-200".split()


def built(*path):
    """@return the path of what was built"""
    return os.path.join(os.environ["UROCE_BUILD"], *path)


@contextlib.contextmanager
def booted(folder, elf, image):
    """The guest, ready, in this process's own namespace."""
    network_up()
    guest = Guest(elf, image, folder)
    try:
        guest.wait_ready(180)
        yield guest
    finally:
        guest.stop()


def packages_install():
    installed = subprocess.run([kernel.PACKAGES, "install", "interop"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    if installed.returncode:
        harness.skip(installed.stderr.strip())


def enter(script, build, image, inside, programs, release=None, newer=(), libraries=()):
    """Call inside(folder, elf, image file) in a network namespace: build an image with these programs for the kernel,
    and run the script again in there. Skips the test if that is not possible.

    @param release the Debian release of the kernel and of the packages `newer`, whose libraries replace this machine's;
                   None: this machine's
    @param libraries pairs of a name in the guest and a library's path"""
    folder = os.path.join(os.environ["UROCE_BUILD"], "interop", release or "")
    if os.environ.get("UROCE_INTEROP_INSIDE"):
        inside(folder, *os.environ["UROCE_INTEROP_INSIDE"].split(":"))
    harness.need_root()
    if os.uname().machine != "x86_64":
        harness.skip("the guest is an x86-64 machine")
    os.makedirs(folder, exist_ok=True)
    packages_install()
    try:
        elf, modules, unpacked = kernel.prepare(folder, release, newer)
        file = os.path.join(folder, image)
        initramfs.build(modules, programs, file, unpacked if release else None, libraries)
    except (kernel.Unavailable, initramfs.Missing) as reason:
        harness.skip(str(reason))
    os.environ["UROCE_INTEROP_INSIDE"] = f"{elf}:{file}"
    os.execvp("unshare", ["unshare", "--net", sys.executable, os.path.abspath(script), "--build", build])
