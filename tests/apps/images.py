# SPDX-License-Identifier: BSD-3-Clause
"""Images for podman, made of this machine's files (podman.py): what the Containerfile installs with WITH=openmpi, put
into a tree by this test, and the configuration that the Containerfile's own text gives. And a podman for scripts."""
import glob
import os
import shlex
import shutil
import subprocess

import containerfile
import harness
import podman

NAMES = ("uroce", "uroce:openmpi")
# Of Open MPI 4, and of Open MPI 5.
LAUNCHERS = [name for name in ("orted", "prterun", "prted") if shutil.which(name)] or ["orted"]
PROGRAMS = ["ib_write_bw", "ib_send_lat", "ibv_devinfo", "ibv_rc_pingpong", "fi_info", "sh", "cat", "env", "grep",
            "date", "sleep", "timeout", "rm", "mv", "tr", "tail", "mktemp", "echo", "id", "ls", "head", "seq", "uname",
            "mpirun.openmpi", *LAUNCHERS, "ssh", "ssh-keygen", "hostname"]
SHARED = ("/usr/lib/python3/dist-packages/mpi4py", "/usr/share/openmpi", "/usr/share/prte", "/etc/openmpi")
BY_ARCHITECTURE = ("openmpi/lib", "pmix2")
PASSWD = "root:x:0:0::/root:/bin/sh\nuroce:x:1000:1000::/home/uroce:/bin/sh\n"
# What every image of a distribution has.
BASE = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# For what podman starts without being told how: as podman.py tells it.
CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
cgroups = "no-conmon"
log_driver = "k8s-file"
[network]
network_backend = "netavark"
"""


def sshd():
    """@return the path of an sshd, unpacked by scripts/test or installed; skips without one"""
    unpacked = os.path.join(os.environ["UROCE_BUILD"], "peers/openssh-server/usr/sbin")
    return shutil.which("sshd", path=f"{unpacked}:/usr/sbin") or \
        harness.skip("there is no sshd; scripts/packages unpack openssh-server BUILD/peers")


class Host(podman.Host):
    """A host with the images of NAMES."""

    def __init__(self, build):
        self.others = self.pod_groups()
        super().__init__(build, PROGRAMS)
        with open(f"{self.folder}/containers.conf", "w", encoding="utf-8") as f:
            f.write(CONF)
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)

    def settings(self):
        return [*super().settings(), f"CONTAINERS_CONF={self.folder}/containers.conf"]

    def install(self):
        """Add what the Containerfile adds to the installed programs, and import the tree."""
        stage = containerfile.stages({"WITH": "openmpi"})[-1]
        for origin, sources, target in (step[1:] for step in stage.steps if step[0] == "COPY" and not step[1]):
            if target.startswith("/usr/"):
                shutil.copy(os.path.join(harness.ROOT, *sources), self.tree.root + target)
        self.layout(stage)
        for name in ("home/uroce", "job"):
            os.makedirs(os.path.join(self.tree.root, name))
            os.chown(os.path.join(self.tree.root, name), 1000, 1000)
        with open(os.path.join(self.tree.root, "etc/passwd"), "w", encoding="utf-8") as f:
            f.write(PASSWD)
        with open(os.path.join(self.tree.root, "etc/group"), "w", encoding="utf-8") as f:
            f.write("root:x:0:\nuroce:x:1000:\n")
        for sticky in "tmp", "var/tmp":
            os.chmod(os.path.join(self.tree.root, sticky), 0o1777)
        self.mpi()
        tar = os.path.join(self.folder, "image.tar")
        subprocess.run(["tar", "-C", self.tree.root, "-cf", tar, "."], check=True)
        changes = [word for change in [BASE, *stage.changes()] for word in ("--change", change)]
        self.ask("import", *changes, tar, f"localhost/{NAMES[0]}")
        os.unlink(tar)
        self.ask("tag", f"localhost/{NAMES[0]}", *(f"localhost/{name}" for name in NAMES[1:]))

    def layout(self, stage):
        """The folders that the stage's ENV names: the Containerfile builds with libdir=lib."""
        for name, path in (("LD_LIBRARY_PATH", self.tree.libraries),
                           ("FI_PROVIDER_PATH", os.path.dirname(self.tree.find("liburoce-fi.so")))):
            there = self.tree.root + stage.environment[name]
            if not os.path.exists(there):
                os.symlink(self.tree.inside(path), there)

    def mpi(self):
        """Open MPI with its components, mpi4py and sshd."""
        self.tree.program(sshd())
        os.makedirs(self.tree.root + "/usr/sbin", exist_ok=True)
        os.symlink("../bin/sshd", self.tree.root + "/usr/sbin/sshd")
        os.makedirs(self.tree.root + "/usr/lib/openssh")
        for part in glob.glob(os.path.join(os.path.dirname(sshd()), "../lib/openssh/sshd-*")):  # since OpenSSH 9.8
            shutil.copy(part, self.tree.root + "/usr/lib/openssh")
            self.tree.needed(part)
        os.rename(self.tree.root + "/usr/bin/mpirun.openmpi", self.tree.root + "/usr/bin/mpirun")
        libraries = os.path.dirname(os.path.dirname(glob.glob("/usr/lib/*/openmpi/lib")[0]))
        for folder in filter(os.path.isdir, [*SHARED, *(f"{libraries}/{name}" for name in BY_ARCHITECTURE)]):
            shutil.copytree(folder, self.tree.root + folder, symlinks=True, dirs_exist_ok=True)
            for path in glob.glob(folder + "/**/*.so", recursive=True):
                self.tree.needed(path)
        self.tree.needed(self.tree.find("liburoce-fi.so"))

    def script(self, name, body):
        """Make a program for scripts that run with `environment`."""
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(path, 0o755)
        return path

    @staticmethod
    def pod_groups():
        """Control groups of pods, for which podman takes no other parent."""
        return {path for parent in ("/sys/fs/cgroup/*/libpod_parent", "/sys/fs/cgroup/libpod_parent")
                for top in glob.glob(parent) for path, _, _ in os.walk(top)}

    def commands(self):
        """A podman in PATH that works on this host. What it builds is the image that is there."""
        words = " ".join(map(shlex.quote, self.podman))
        self.script("podman", f'''case $1 in
build)
	while [ $# -gt 0 ]; do
		[ "$1" != -t ] || exec {words} tag localhost/{NAMES[0]} "localhost/$2"
		shift
	done
	exit 1 ;;
start) # podman-compose 1.3 tells nobody how a container has ended
	code=0
	{words} "$@" || code=$?
	[ "$code" = 0 ] || echo "exit code: $code"
	exit "$code" ;;
*) exec {words} "$@" ;;
esac''')
        return dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")

    def close(self):
        if self.holder and self.holder.poll() is None:
            for what in (["pod", "rm", "--all", "--force", "--time", "0"], ["rm", "--all", "--force", "--time", "0"]):
                self.ask(*what, check=False)
        super().close()
        for group in sorted(self.pod_groups() - self.others, reverse=True):
            try:
                os.rmdir(group)
            except OSError as error:
                print(f"{group} cannot be removed: {error}")
