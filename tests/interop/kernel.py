# SPDX-License-Identifier: BSD-3-Clause
"""Fetches a Debian kernel with rdma_rxe into a cache folder; nothing is installed.

The kernel is that of this machine's Debian, or that of another release, from the same mirror.
"""
import glob
import lzma
import os
import re
import subprocess
import time


KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """The kernel is not available on this machine now."""


def mirror():
    """@return the mirror from which this machine gets Debian's packages"""
    listing = subprocess.run(["apt-get", "indextargets", "--format", "$(LABEL) $(COMPONENT) $(REPO_URI)",
                              "Created-By: Packages"], capture_output=True, text=True)
    found = re.search(r"^Debian main (\S+)$", listing.stdout, re.M)
    if not found or not os.path.exists(KEYRING):
        raise Unavailable("apt knows no mirror of Debian; run apt-get update")
    return found.group(1)


def release_environment(release, folder):
    """Give apt lists of its own, in the folder, that hold the release's packages only. @return the environment of the
    commands that use them."""
    os.makedirs(os.path.join(folder, "lists", "partial"), exist_ok=True)
    os.makedirs(os.path.join(folder, "archives", "partial"), exist_ok=True)
    sources, config = os.path.join(folder, "sources.list"), os.path.join(folder, "apt.conf")
    with open(sources, "w") as f:
        f.write(f"deb [signed-by={KEYRING}] {mirror()} {release} main\n")
    with open(config, "w") as f:
        f.write(f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "-";\nDir::State::status "/dev/null";\n'
                f'Dir::State::lists "{folder}/lists";\nDir::Cache "{folder}";\nAPT::Sandbox::User "root";\n'
                'Acquire::http::Timeout "20";\nAcquire::https::Timeout "20";\nAcquire::Retries "1";\n')
    environment = dict(os.environ, APT_CONFIG=config)
    try:
        update = subprocess.run(["apt-get", "update", "--error-on=any"], env=environment, capture_output=True,
                                text=True, timeout=180)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"apt-get update for {release} did not end in time") from error
    if update.returncode:
        raise Unavailable(f"apt-get update for {release} failed: {update.stderr.strip().splitlines()[-1:]}")
    return environment


def package_name(environment=None):
    """The package that linux-image-amd64 depends on; the cloud flavour has no rxe."""
    listing = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], env=environment, capture_output=True,
                             text=True)
    found = re.search(r"Depends: (linux-image-[0-9]\S+-amd64)", listing.stdout)
    if not found:
        raise Unavailable("apt knows no linux-image-amd64; run apt-get update")
    return found.group(1)


def download(package, folder, environment=None):
    os.makedirs(folder, exist_ok=True)
    for attempt in range(3):
        result = subprocess.run(["apt-get", "download", package], cwd=folder, env=environment, capture_output=True,
                                text=True)
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


def prepare(cache, release=None, more=()):
    """Get a kernel, and `more` packages: this machine's Debian's, or those of another release.

    @return (kernel file to boot, folder of its modules, folder of all that was unpacked)."""
    tree, elf = os.path.join(cache, "kernel"), os.path.join(cache, "vmlinux")
    done = os.path.join(cache, "unpacked")
    if not os.path.exists(done):
        environment = release_environment(release, cache) if release else None
        for name in (package_name(environment), *more):
            package = download(name, cache, environment)
            subprocess.run(["dpkg", "-x", package, tree], check=True)
            os.unlink(package)
        with open(done, "w") as f:
            f.write("complete\n")
    images = glob.glob(os.path.join(tree, "boot", "vmlinuz-*"))
    modules = [folder for top in ("lib", "usr/lib") for folder in glob.glob(os.path.join(tree, top, "modules", "*"))]
    if not images or not modules:
        raise Unavailable(f"{tree} holds no kernel; remove {cache} and try again")
    return (elf if os.path.exists(elf) else elf_extract(images[0], elf)), modules[0], tree
