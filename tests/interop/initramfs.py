# SPDX-License-Identifier: BSD-3-Clause
"""Builds the guest's initramfs (cpio, newc) from a kernel package's modules and programs of this machine.

Needs no root: files go from memory into the archive. Modules' dependencies come from their .modinfo sections,
programs' from ldd. Libraries can come from a newer Debian than this machine's.
"""
import glob
import gzip
import lzma
import os
import re
import shutil
import stat
import subprocess

MODULES = ("virtio_pci virtio_net crc32_generic ib_core ib_uverbs rdma_rxe rdma_ucm "
           "sch_netem sch_prio sch_ingress cls_u32 act_mirred ifb "
           "nfit nd_pmem dax_pmem device_dax").split()
PROGRAMS = "ip tc rdma ibv_devinfo".split()
PROVIDER = "librxe-rdmav34.so"
TOPS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


class Missing(Exception):
    """Something the guest needs is not installed."""


def contents(path):
    """@return the bytes of a file; a kernel module may be compressed"""
    with lzma.open(path) if path.endswith(".xz") else open(path, "rb") as f:
        return f.read()


class Cpio:
    def __init__(self):
        self.parts, self.names = [], set()

    def add(self, name, mode, data=b""):
        name = name.lstrip("/")
        if name in self.names:
            return
        self.names.add(name)
        parent = os.path.dirname(name)
        if parent:
            self.add(parent, stat.S_IFDIR | 0o755)
        raw = name.encode() + b"\0"
        fields = (len(self.names), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + raw
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def file(self, name, source):
        self.add(name, stat.S_IFREG | 0o755, contents(source))

    def write(self, path):
        self.add("TRAILER!!!", 0)
        with open(path, "wb") as out:
            out.write(gzip.compress(b"".join(self.parts), 1))


def program_path(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    if not path:
        raise Missing(f"{name} is not installed")
    return os.path.realpath(path)


def program_add(cpio, path, libraries, name=None):
    """A program, or a library as `name`, and every library that ldd lists for it, as `libraries` has it, if it does."""
    cpio.file(name or "bin/" + os.path.basename(path), path)
    listing = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+)", listing):
        cpio.file(library, libraries.get(os.path.basename(library)) or os.path.realpath(library))


def module_order(folder, names):
    """The files of modules, and of those that they need, in the order in which they must be loaded."""
    files = {}
    for top, _, found in os.walk(folder):
        for name in found:
            stem, ko, _ = name.partition(".ko")
            if ko:
                files[stem.replace("-", "_")] = os.path.join(top, name)
    order = []

    def visit(name):
        path = files.get(name)
        if not path or path in order:
            return  # built into the kernel, or already there
        found = re.search(rb"\0depends=([^\0]*)\0", contents(path))
        for needed in found.group(1).decode().split(",") if found else []:
            if needed:
                visit(needed.replace("-", "_"))
        order.append(path)

    for name in names:
        visit(name.replace("-", "_"))
    return order


def module_name(path):
    return os.path.basename(path).removesuffix(".xz")


def provider_path():
    for top in TOPS:
        path = f"{top}/libibverbs/{PROVIDER}"
        if os.path.exists(path):
            return path
    raise Missing("the rxe provider of libibverbs is not installed (package ibverbs-providers)")


def libraries_of(tree):
    """@return the libraries of unpacked packages, by their names"""
    found = [path for top in TOPS + ("/lib/x86_64-linux-gnu",) for path in glob.glob(f"{tree}{top}/*.so*")]
    return {os.path.basename(path): os.path.realpath(path) for path in found}


def build(modules_folder, programs, out, newer=None, more=()):
    """Write an initramfs with rdma_rxe, its tools and `programs` (names or paths) to `out`. The folder `newer` holds
    unpacked packages whose libraries replace this machine's. `more`: pairs of a name in the guest and a library's
    path."""
    cpio, libraries = Cpio(), libraries_of(newer) if newer else {}
    for folder in ("dev", "proc", "sys", "tmp", "etc/libibverbs.d", "lib/modules", "sbin"):
        cpio.add(folder, stat.S_IFDIR | 0o755)
    busybox = program_path("busybox")
    cpio.file("bin/busybox", busybox)
    for name in [*PROGRAMS, *programs]:
        path = name if os.path.isabs(name) else program_path(name)
        # busybox's shell prefers its own ip and tc unless called as /bin/ip, /bin/tc
        program_add(cpio, path, libraries)
    for name, path in more:
        program_add(cpio, path, libraries, name)
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True).stdout.split():
        cpio.add("bin/" + applet, stat.S_IFLNK | 0o777, b"busybox")
    for top in TOPS:  # glibc loads it for pthread_exit, and ldd does not list it
        if os.path.exists(f"{top}/libgcc_s.so.1"):
            cpio.file(f"{top.removeprefix('/usr')}/libgcc_s.so.1", f"{top}/libgcc_s.so.1")
    provider = provider_path()
    replaced = f"{newer}{provider}" if newer else provider
    if not os.path.exists(replaced):
        raise Missing(f"the newer libibverbs has no {PROVIDER}")
    cpio.file(provider, replaced)
    cpio.add("etc/libibverbs.d/rxe.driver", stat.S_IFREG | 0o644, b"driver rxe\n")
    order = module_order(modules_folder, MODULES)
    if "rdma_rxe.ko" not in map(module_name, order):
        raise Missing(f"the kernel in {modules_folder} has no rdma_rxe")
    for path in order:
        cpio.file("lib/modules/" + module_name(path), path)
    names = "".join(module_name(path) + "\n" for path in order)
    cpio.add("lib/modules/order", stat.S_IFREG | 0o644, names.encode())
    cpio.file("init", os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest-init"))
    cpio.write(out)
