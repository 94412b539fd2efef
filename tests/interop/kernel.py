# SPDX-License-Identifier: BSD-3-Clause
"""Fetches a Debian kernel with rdma_rxe into a cache folder; nothing is installed."""
import glob
import lzma
import os
import re
import subprocess
import time


class Unavailable(Exception):
    """The kernel is not available on this machine now."""


def package_name():
    """The package that linux-image-amd64 depends on; the cloud flavour has no rxe."""
    listing = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True)
    found = re.search(r"Depends: (linux-image-[0-9]\S+-amd64)", listing.stdout)
    if not found:
        raise Unavailable("apt knows no linux-image-amd64; run apt-get update")
    return found.group(1)


def download(package, folder):
    os.makedirs(folder, exist_ok=True)
    for attempt in range(3):
        result = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
        found = glob.glob(os.path.join(folder, package + "_*.deb"))
        if result.returncode == 0 and found:
            return found[0]
        time.sleep(3 * (attempt + 1))
    raise Unavailable(f"apt-get download {package} failed: {result.stderr.strip().splitlines()[-1:]}")


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


def prepare(cache):
    """@return (kernel file to boot, folder of its modules)."""
    tree, elf = os.path.join(cache, "kernel"), os.path.join(cache, "vmlinux")
    done = os.path.join(cache, "unpacked")
    if not os.path.exists(done):
        package = download(package_name(), cache)
        subprocess.run(["dpkg", "-x", package, tree], check=True)
        os.unlink(package)
        with open(done, "w") as f:
            f.write("complete\n")
    images = glob.glob(os.path.join(tree, "boot", "vmlinuz-*"))
    modules = glob.glob(os.path.join(tree, "lib", "modules", "*"))
    if not images or not modules:
        raise Unavailable(f"{tree} holds no kernel; remove {cache} and try again")
    return (elf if os.path.exists(elf) else elf_extract(images[0], elf)), modules[0]
