#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Carries out the Containerfile's steps in bare trees, which scripts/distribution makes, for each variant, and runs
programs in what comes out. Takes minutes, and needs a mirror of packages: scripts/test --weekly."""
import os
import re
import shutil
import subprocess
import tempfile

import blocks
import containerfile
import harness

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RINGTEST = ("mpirun --oversubscribe -np 2 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include uroce "
            "python3 -m mpi4py.bench ringtest")
# UCX 1.13 and 1.18, to which our transport can be added.
HAVE_UCX = ("debian-12", "debian-13")
DEVINFO = ("ibv_devinfo", r"hca_id:\s+uroce0")
# The programs of each variant: a command, and what it prints.
VARIANTS = {
    "": (("uroce status", r"No device is open"),
         ("ib_write_bw >/dev/null & sleep 1; ib_write_bw 127.0.0.1", r"\n 65536 +5000 +[\d.]+"),
         ("cat /sys/class/infiniband/uroce0/ports/1/state", "ACTIVE"),
         ("for p in fi_info ucx_info mpirun sshd; do ! command -v $p || exit 1; done", r"\A\Z")),
    "libfabric": (("fi_info -p uroce", r"provider: uroce\n"),),
    "ucx": (("ucx_info -d", r"Transport: uroce\n"),),
    "openmpi": ((RINGTEST, r"time for 1 loops"), ("! uroce-mpi", "usage: uroce-mpi"),
                ("! ls /etc/ssh | grep host_key", r"\A\Z"), ("touch /job/file && id", r"uid=1000\(\w+\)")),
}
# What a container has mounted; podman and docker make the rest of the file system the image's.
ENTER = """
set -e
tree=$1
mount -t proc proc $tree/proc
mount -t sysfs sysfs $tree/sys
mount --rbind /dev $tree/dev
ip link set lo up
shift
exec chroot "$@"
"""


class Tree:
    """The file system of an image or of a stage."""

    def __init__(self, folder, base):
        self.root = folder
        subprocess.run(["cp", "-a", "--reflink=auto", base, folder], check=True)

    def megabytes(self):
        """Without packages that apt keeps, and its lists: images of distributions are configured to keep none."""
        done = subprocess.run(["du", "-sm", "--exclude=*/var/cache/apt/*", "--exclude=*/var/lib/apt/lists/*",
                               self.root], stdout=subprocess.PIPE, text=True, check=True)
        return int(done.stdout.split()[0])

    def run(self, command, environment, user="0:0", network=False, seconds=900):
        """@return (exit code, output) of a command of a shell in the tree, in namespaces of its own"""
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        done = subprocess.run(["unshare", *namespaces, *([] if network else ["--net"]), "sh", "-c", ENTER, "sh",
                               self.root, f"--userspec={user}", "--groups=", self.root, "env", "-i", PATH,
                               *environment, "sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False)
        return done.returncode, done.stdout

    def copy(self, origin, sources, target):
        """COPY: a folder's contents, or files; a target that ends with / is a folder."""
        for source in sources:
            path = os.path.normpath(os.path.join(origin, source.lstrip("/")))
            there = self.root + target
            if os.path.isdir(path):
                os.makedirs(there, exist_ok=True)
                subprocess.run(["cp", "-a", "--remove-destination", path + "/.", there], check=True)
                continue
            there = os.path.join(there, os.path.basename(path)) if target.endswith("/") else there
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy(path, there)


class Builder:
    def __init__(self, folder, base, tally):
        self.folder, self.base, self.tally, self.trees = folder, base, tally, {}
        self.context = os.path.join(folder, "context")
        blocks.sources(self.context)
        self.proxies = [f"{name}={os.environ[name]}" for name in ("http_proxy", "https_proxy") if name in os.environ]

    def stage(self, stage, name):
        """Carry out a stage's steps. @return its tree; None: a step failed"""
        tree = Tree(os.path.join(self.folder, name), self.base)
        shutil.copy("/etc/resolv.conf", tree.root + "/etc/resolv.conf")
        for kind, *step in stage.steps:
            if kind == "COPY":
                origin, sources, target = step
                tree.copy(self.trees[origin].root if origin else self.context, sources, target)
                continue
            command, arguments = step
            code, out = tree.run(command, [f"{k}={v}" for k, v in arguments.items()] + self.proxies, network=True)
            self.tally.result(f"{name}: RUN {command[:60]}", code == 0, f"exit code {code}", out)
            if code:
                return None
        return tree

    def image(self, arguments, name, text=None):
        """Build as podman build would. A stage with a name is built once: no argument changes it."""
        *before, last = containerfile.stages(arguments, text)
        for stage in before:
            if stage.name not in self.trees:
                self.trees[stage.name] = self.stage(stage, stage.name)
        if any(self.trees[stage.name] is None for stage in before):
            return last, None
        return last, self.stage(last, name)


def programs(tally, stage, tree, name, cases):
    environment = [f"{key}={value}" for key, value in stage.environment.items()]
    for command, pattern in cases:
        code, out = tree.run(command, environment, stage.user or "1000:1000", seconds=120)
        tally.result(f"{name}: {command}", code == 0 and re.search(pattern, out, re.DOTALL),
                     f"exit code {code}", out)


def main():
    args = harness.options(__doc__, ("--tree", "a bare tree of Debian to use, or where to make and keep one", ""),
                           ("--name", "the distribution, as scripts/distribution calls it", "debian-12"))
    harness.need_root()
    harness.need_programs("unshare", "chroot", "ip")
    tally = harness.Tally("image")
    with tempfile.TemporaryDirectory(prefix="uroce-image-") as folder:
        base = args.tree or os.path.join(folder, "base")
        make = [f"{harness.ROOT}/scripts/distribution", "--tree", base, "--groups", "", args.name, "true"]
        made = subprocess.run(make, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            harness.skip(f"no bare tree of {args.name}: {made.stdout}")
        shutil.rmtree(base + "/src")
        builder = Builder(folder, base, tally)
        empty = Tree(os.path.join(folder, "empty"), base).megabytes()
        print(f"size: the base image: {empty} MB", flush=True)
        for variant, cases in VARIANTS.items():
            if variant == "ucx" and args.name not in HAVE_UCX:
                cases = (("ucx_info -d", "Transport: rc_verbs"),)
            name = f"WITH={variant}"
            stage, tree = builder.image({"WITH": variant}, name)
            if not tree:
                continue
            builder.trees["localhost/uroce"] = builder.trees.get("localhost/uroce", tree)
            print(f"size: {name}: {tree.megabytes() - empty} MB more than the base image", flush=True)
            programs(tally, stage, tree, name, ((" ".join(stage.command), "usage: uroce"), DEVINFO, *cases))
        own = [text for text in blocks.blocks("docs/containers.md") if text.startswith("FROM ")]
        tally.result("docs/containers.md has an image of one's own", len(own) == 1)
        if own and "localhost/uroce" in builder.trees:
            stage, tree = builder.image({}, "own", own[0].replace("YOUR-PROGRAM", "ibverbs-utils"))
            if tree:
                programs(tally, stage, tree, "own", [DEVINFO])
    tally.finish()


if __name__ == "__main__":
    main()
