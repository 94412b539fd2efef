# SPDX-License-Identifier: BSD-3-Clause
"""Containers for the application tests: a host of their own, a root file system made of this machine's files,
podman.

The host is a process with its own namespaces (network, mounts, processes), where podman runs and keeps its networks
and its state. When that process ends, which it does with the test, the kernel ends all containers and removes the
networks; what remains is a temporary folder and control groups without processes, which close() removes.

A container here has the rights of any unprivileged one: a user other than root, no capability, the default seccomp
profile, no new privileges, a read-only root file system.
"""
import atexit
import copy
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import harness

USER = 1000
CONFINED = ["--cap-drop=all", "--security-opt=no-new-privileges", "--read-only", "--ulimit=nofile=1024:1024",
            "--ulimit=nproc=1024:1024", "--pull=never"]
FOLDERS = ["proc", "sys", "dev", "etc", "run", "tmp", "var/tmp", "bin", "sbin", "usr/bin", "usr/lib"]
# Hides what podman would share with the real host; then runs as PID 1 and reaps orphaned processes.
SETUP = """
set -e
for folder in /run /dev/shm /var/lib/cni /var/lib/containers; do
	[ ! -d $folder ] || mount -t tmpfs none $folder
done
ip link set lo up
echo ready
sleep infinity
exit 0
"""


class Tree:
    """A root file system: programs of this machine with the libraries that they need, and an installed uroce."""

    def __init__(self, folder, build, programs):
        self.root = folder
        for name in FOLDERS:
            os.makedirs(os.path.join(folder, name))
        subprocess.run([self.meson(), "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder],
                       check=True, stdout=subprocess.DEVNULL)
        self.libraries = os.path.dirname(self.find("liburoce-preload.so"))
        for name in programs:
            self.program(shutil.which(name) or name)
        for name in ["libibverbs.so.1", "liburoce-sysfs.so", "liburoce-preload.so"]:
            self.needed(os.path.join(self.libraries, name))
        self.needed(self.find("uroced"))
        for path in glob.glob("/lib/*/libgcc_s.so.1"):  # glibc loads it for pthread_exit, and ldd does not list it
            self.copy(path)
        self.python()

    @staticmethod
    def meson():
        return shutil.which("meson") or harness.skip("meson is not installed")

    def find(self, name):
        found = glob.glob(os.path.join(self.root, "usr", "**", name), recursive=True)
        if not found:
            raise RuntimeError(f"meson install does not install {name}")
        return found[0]

    def inside(self, path):
        """@return a path of this machine as the container's programs see it."""
        return "/" + os.path.relpath(path, self.root)

    def copy(self, path):
        there = self.root + path
        os.makedirs(os.path.dirname(there), exist_ok=True)
        if not os.path.exists(there):
            shutil.copyfile(path, there)
            shutil.copymode(path, there)

    def needed(self, path):
        """@return the libraries needed by a program or a library."""
        listing = subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        for word in listing.split():
            if word.startswith("/") and not word.startswith(self.root) and os.path.isfile(word):
                self.copy(word)

    def program(self, path):
        real = os.path.realpath(path)
        there = os.path.join(self.root, "usr", "bin", os.path.basename(path))
        shutil.copyfile(real, there)
        os.chmod(there, 0o755)
        self.needed(real)
        if os.path.basename(path) == "sh":
            shutil.copy(there, os.path.join(self.root, "bin", "sh"))

    def python(self):
        """Add Python, for the uroce command."""
        code = "import os, sys; print(os.path.dirname(os.__file__), os.path.realpath(sys.executable))"
        library, binary = subprocess.run(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True,
                                         check=True).stdout.split()
        self.program(binary)
        os.symlink(os.path.basename(binary), os.path.join(self.root, "usr", "bin", "python3"))
        unused = shutil.ignore_patterns("test", "tests", "idlelib", "lib2to3", "config-*", "dist-packages")
        shutil.copytree(library, self.root + library, symlinks=True, ignore=unused)
        for module in glob.glob(os.path.join(library, "lib-dynload", "*.so")):
            self.needed(module)


class Host:
    """Where podman runs."""

    def __init__(self, build, programs):
        self.folder = tempfile.mkdtemp(prefix="uroce-containers-")
        self.group = os.path.basename(self.folder)
        self.holder, self.names = None, []
        atexit.register(self.close)
        os.chmod(self.folder, 0o755)
        unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.holder = subprocess.Popen([*unshare, "sh", "-c", SETUP], stdout=subprocess.PIPE, text=True,
                                       preexec_fn=harness.die_with_parent)
        if self.holder.stdout.readline().strip() != "ready":
            harness.skip("namespaces for containers cannot be made here (unshare --net --mount --pid)")
        pid = self.holder.pid
        self.proc = f"/proc/{pid}/root/proc"
        self.enter = ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt",
                      f"--pid=/proc/{pid}/ns/pid_for_children"]
        runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        # By its path: for scripts, images.py puts another podman before it, which calls this one.
        self.podman = [*self.enter, "env", *self.settings(), shutil.which("podman"),
                       "--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run", *runtime,
                       "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                       "--events-backend", "file", "--network-config-dir", f"{self.folder}/networks"]
        self.tree = Tree(f"{self.folder}/tree", build, programs)
        self.environment = [f"LD_LIBRARY_PATH={self.tree.inside(self.tree.libraries)}",
                            f"LD_PRELOAD={self.tree.inside(self.tree.libraries)}/liburoce-sysfs.so"]

    def settings(self):
        """@return podman's environment. A warning would be taken for a part of what a program in a container says."""
        return ["PODMAN_IGNORE_CGROUPSV1_WARNING=1"]

    def ask(self, *argv, check=True):
        """Run podman until it exits. @return its output"""
        result = subprocess.run(self.podman + list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")
        if check and result.returncode:
            raise RuntimeError(f"podman {' '.join(argv)}: exit code {result.returncode}: {result.stdout.strip()}")
        return result.stdout.strip()

    def probe(self):
        """Skip unless podman can run a container at all on this machine."""
        try:
            self.ask("network", "create", "--disable-dns", "--subnet", "10.98.0.0/24", "rdma")
            said = self.ask(*self.options("probe", ["--network=rdma", "--rm"], USER), "sh", "-c", "echo works")
        except RuntimeError as error:
            harness.skip(f"podman cannot run containers here: {error}")
        if said.splitlines()[-1:] != ["works"]:
            harness.skip(f"podman cannot run containers here: {said}")

    def options(self, name, more, user, environment=()):
        """@return podman's arguments to run a container, up to the program."""
        self.names.append(name)
        out = ["run", "--name", name, f"--user={user}", f"--cgroup-parent=/{self.group}", "--cgroups=no-conmon",
               *CONFINED, *more]
        for setting in [*self.environment, *environment]:
            out += ["--env", setting]
        return out + ["--rootfs", self.tree.root]

    def pid(self, name):
        """@return the PID of the container's first process, as the host sees it; 0: it does not run."""
        said = self.ask("inspect", "--format", "{{.State.Pid}}", name, check=False)
        return int(said) if said.isdigit() else 0

    def close(self):
        if self.holder and self.holder.poll() is None:
            if self.names:
                self.ask("rm", "--force", "--time", "0", "--ignore", *self.names, check=False)
            self.holder.kill()
            self.holder.wait()
        # The last process may still be ending.
        if not harness.until(10, self.remove):
            print(f"{self.folder} or control groups named {self.group} cannot be removed", file=sys.stderr)

    def remove(self):
        """@return whether nothing is left"""
        shutil.rmtree(self.folder, ignore_errors=True)
        # in each hierarchy (version 1), or in the only one (version 2)
        groups = [*glob.glob(f"/sys/fs/cgroup/*/{self.group}"), *glob.glob(f"/sys/fs/cgroup/{self.group}")]
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass
        return not any(map(os.path.exists, [self.folder, *groups]))


class Container(harness.Side):
    """A container that waits; programs run in it through `podman exec`, with an environment of theirs."""

    def __init__(self, host, name, more, user=USER, environment=()):
        self.host_of, self.name = host, name
        host.ask(*host.options(name, [*more, "--detach"], user), "sleep", "infinity")
        self.pid = host.pid(name)
        self.proc = f"{host.proc}/{self.pid}"
        self.environment = list(environment)
        address = host.ask("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
        super().__init__(address or "127.0.0.1")

    def having(self, *environment, address=None):
        """@return the same container, for programs with other settings, or with another address of the server."""
        other = copy.copy(self)
        other.environment = self.environment + list(environment)
        other.host = address or self.host
        return other

    def command(self, argv):
        settings = [word for setting in self.environment for word in ("--env", setting)]
        return [*self.host_of.podman, "exec", *settings, self.name, *argv]

    def run(self, *argv):
        """@return (exit code, output)"""
        result = subprocess.run(self.command(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
        return result.returncode, result.stdout

    def start(self, *argv):
        return harness.Process(list(argv), self)

    def datagrams(self):
        """@return UDP datagrams sent by the container's network namespace."""
        with open(f"{self.proc}/net/snmp") as f:
            names, values = (line.split() for line in f if line.startswith("Udp:"))
        return int(values[names.index("OutDatagrams")])

    def received(self, interface="eth0"):
        """@return bytes received on an interface."""
        with open(f"{self.proc}/net/dev") as f:
            return next(int(line.split(":")[1].split()[0]) for line in f if line.strip().startswith(interface + ":"))

    def namespace(self, kind):
        return os.readlink(f"{self.proc}/ns/{kind}")
