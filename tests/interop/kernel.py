# SPDX-License-Identifier: BSD-3-Clause
"""Fetches a Debian kernel with rdma_rxe into a cache folder; nothing is installed.

The kernel is that of this machine's Debian, or that of another release, from the same mirror.
"""
import glob
import lzma
import os
import subprocess


PACKAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "packages")


class Unavailable(Exception):
    """The kernel is not available on this machine now."""


def elf_extract(image, out):
    """The ELF kernel inside a bzImage; it boots in half the time under emulation."""
    with open(image, "rb") as f:
        data = f.read()
    start = data.find(b"\xfd7zXZ\0")
    if start < 0:
        return image  # another compression: let the bzImage unpack itself
    with open(out + ".part", "wb") as f:
        f.write(lzma.LZMADecompressor().decompress(data[start:]))
    os.rename(out + ".part", out)
    return out


def prepare(cache, release=None, more=()):
    """Get a kernel, and `more` packages: this machine's Debian's, or those of another release.

    @return (kernel file to boot, folder of its modules, folder of all that was unpacked)."""
    tree, elf = os.path.join(cache, "tree"), os.path.join(cache, "vmlinux")
    done = os.path.join(cache, "fetched")
    if not os.path.exists(done):
        fetch = subprocess.run([PACKAGES, "fetch", os.path.abspath(cache), release or "-", "kernel", *more],
                               capture_output=True, text=True)
        if fetch.returncode:
            raise Unavailable((fetch.stderr.strip().splitlines() or ["scripts/packages fetch failed"])[-1])
        with open(done, "w") as f:
            f.write("complete\n")
    images = glob.glob(os.path.join(tree, "boot", "vmlinuz-*"))
    modules = [folder for top in ("lib", "usr/lib") for folder in glob.glob(os.path.join(tree, top, "modules", "*"))]
    if not images or not modules:
        raise Unavailable(f"{tree} holds no kernel; remove {cache} and try again")
    return (elf if os.path.exists(elf) else elf_extract(images[0], elf)), modules[0], tree
