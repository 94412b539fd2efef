#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/distribution: signals end it, debootstrap and the command in the tree, and nothing is left in the temporary
folder. In the place of debootstrap is a script that copies a shell and some programs."""
import glob
import os
import signal
import subprocess
import tempfile

import harness

# With TREE_SLOW it goes on with /proc mounted until it is ended. As with the real one, the tree has its release early,
# and a folder of debootstrap's own until that is done.
DEBOOTSTRAP = """#!/bin/sh
set -e
for last in "$@"; do
	case $last in /*/tree) tree=$last ;; esac
done
for name in proc sys dev run tmp etc debootstrap; do mkdir -p "$tree/$name"; done
touch "$tree/etc/os-release"
for file in sh sleep env cat umount; do
	path=$(command -v $file)
	mkdir -p "$tree/usr/bin" "$tree/bin"
	cp -L "$path" "$tree/usr/bin/$file"
	cp -L "$path" "$tree/bin/$file"
	for library in $(ldd "$path" | grep -o '/[^ ]*'); do
		mkdir -p "$tree${library%/*}"
		cp -L "$library" "$tree$library"
	done
done
if [ -n "$TREE_SLOW" ]; then
	mount -t proc proc "$tree/proc"
	cd "$tree"
	touch "$TREE_SLOW"
	exec sleep 300
fi
rm -r "$tree/debootstrap"
"""


def start(folder, *command, options=(), slow=""):
    return harness.Process([f"{harness.ROOT}/scripts/distribution", "--groups", "", *options, "debian-12", *command],
                           env={"PATH": f"{folder}/bin:{os.environ['PATH']}", "TMPDIR": f"{folder}/tmp",
                                "TREE_SLOW": slow})


def inode(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def roots(folder):
    """@return the inodes of all trees in the folder"""
    return {inode(path) for path in glob.glob(f"{folder}/*/tree") + glob.glob(f"{folder}/*/*/tree")}


def sleepers(folder, trees=()):
    """@return the PIDs of processes whose working folder is in the folder, or whose root is one of these trees, or one
    that is in the folder now"""
    found, trees = [], {*trees, *roots(folder)}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if folder in os.readlink(f"/proc/{pid}/cwd") or inode(f"/proc/{pid}/root") in trees:
                found.append(int(pid))
        except OSError:
            pass
    return found


def sleeps(pid):
    """@return whether the process has become the program sleep"""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            return comm.read() == "sleep\n"
    except OSError:
        return False


def mounts(folder):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return [line.split()[4] for line in table if line.split()[4].startswith(folder)]


def ended(tally, name, process, signum, folder, begun):
    trees = roots(folder)
    process.popen.send_signal(signum)
    code = process.wait(60)
    left = os.listdir(f"{folder}/tmp") + mounts(folder) + sleepers(folder, trees)
    tally.result(name, begun and code == 128 + signum and not left, f"exit code {code}, left: {left}",
                 process.output())
    for pid in sleepers(folder, trees):
        os.kill(pid, signal.SIGKILL)
    for mount in mounts(folder):
        subprocess.run(["umount", mount], check=False)


def in_chroot(tally, folder):
    """Where this runs in a chroot itself, pivot_root fails."""
    with open(f"{folder}/bin/pivot_root", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexit 1\n")
    os.chmod(f"{folder}/bin/pivot_root", 0o755)
    process = start(folder, "sh", "-c", "echo in; exit 7")
    code = process.wait(60)
    tally.result("in a chroot: the command's exit code", code == 7 and "\nin\n" in process.output() and
                 "pivot_root fails here" in process.output(), f"exit code {code}", process.output())
    process = start(folder, "sh", "-c", "sleep 300 & sleep 300")
    begun = harness.until(60, lambda: sum(map(sleeps, sleepers(folder))) == 2)
    ended(tally, "in a chroot: SIGTERM while a command runs in the tree", process, signal.SIGTERM, folder, begun)
    os.unlink(f"{folder}/bin/pivot_root")


def main():
    harness.options(__doc__)
    harness.need_root()
    harness.need_programs("unshare", "chroot", "pivot_root", "ip", "ldd", "debootstrap")
    if subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--propagation", "private", "true"],
                      check=False).returncode:
        harness.skip("namespaces cannot be made here")
    tally = harness.Tally("distribution")
    with tempfile.TemporaryDirectory(prefix="uroce-distribution-") as folder:
        os.mkdir(f"{folder}/bin")
        os.mkdir(f"{folder}/tmp")
        with open(f"{folder}/bin/debootstrap", "w", encoding="utf-8") as f:
            f.write(DEBOOTSTRAP)
        os.chmod(f"{folder}/bin/debootstrap", 0o755)
        process = start(folder, "sh", "-c", "echo in; exit 7")
        code = process.wait(60)
        tally.result("the command's exit code", code == 7 and "\nin\n" in process.output() and
                     not os.listdir(f"{folder}/tmp"), f"exit code {code}", process.output())
        for signum in signal.SIGTERM, signal.SIGINT:
            process = start(folder, "sh", "-c", "sleep 300 & sleep 300")
            begun = harness.until(60, lambda: sum(map(sleeps, sleepers(folder))) == 2)
            ended(tally, f"{signum.name} while a command runs in the tree", process, signum, folder, begun)
        in_chroot(tally, folder)
        process = start(folder, slow=f"{folder}/slow")
        begun = harness.until(60, lambda: os.path.exists(f"{folder}/slow"))
        ended(tally, "SIGTERM while debootstrap works", process, signal.SIGTERM, folder, begun)
        os.unlink(f"{folder}/slow")
        half = ["--tree", f"{folder}/half/tree", "--bare"]
        process = start(folder, options=half, slow=f"{folder}/slow")
        begun = harness.until(60, lambda: os.path.exists(f"{folder}/slow"))
        ended(tally, "the same, in a tree that is kept", process, signal.SIGTERM, folder, begun)
        process = start(folder, options=half)
        tally.result("such a tree is not taken for a finished one", process.wait(60) == 1 and
                     "did not finish the tree" in process.output(), "", process.output())
    tally.finish()


if __name__ == "__main__":
    main()
