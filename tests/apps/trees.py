# SPDX-License-Identifier: BSD-3-Clause
"""Root file systems for tests of what is installed: an existing tree with a layer in memory above it, in namespaces of
mounts, processes and network. What a test does there is gone with it; the tree below stays as it is."""
import os
import subprocess
import tempfile

import harness

# Arguments: a folder, the tree below, "own" or "shared" network, then folders of this machine and where they appear.
SETUP = """
set -e
folder=$1 below=$2 network=$3 root=$1/root
shift 3
mount -t tmpfs none "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay none -o "lowerdir=$below,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
for empty in dev/shm run tmp; do mount -t tmpfs none "$root/$empty"; done
chmod 1777 "$root/dev/shm" "$root/tmp"
while [ $# -gt 0 ]; do
	mkdir -p "$root/$2"
	mount --bind "$1" "$root/$2"
	shift 2
done
if [ "$network" = own ]; then ip link set lo up; else cp /etc/resolv.conf "$root/etc/resolv.conf"; fi
echo ready
exec sleep infinity
"""
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Unavailable(Exception):
    """Such a root cannot be made here."""


class Root:
    """One such root, as long as the object is open."""

    def __init__(self, below, network=False, binds=()):
        self.folder = tempfile.mkdtemp(prefix="uroce-root-")
        spaces = ["--mount", "--pid", "--fork", "--kill-child"] + ([] if network else ["--net"])
        words = [word for pair in binds for word in pair]
        self.holder = subprocess.Popen(["unshare", *spaces, "sh", "-c", SETUP, "sh", self.folder, below,
                                        "shared" if network else "own", *words], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=harness.die_with_parent)
        if self.holder.stdout.readline().strip() != "ready":
            why = self.holder.stderr.read().strip()
            self.close()
            raise Unavailable(why or "it does not start")
        pid = self.holder.pid
        self.environment = dict(ENVIRONMENT)
        self.environment.update({name: value for name, value in os.environ.items() if name.endswith("_proxy")})
        self.enter = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--pid=/proc/{pid}/ns/pid_for_children",
                      f"--net=/proc/{pid}/ns/net", "chroot", os.path.join(self.folder, "root")]

    def inner(self):
        """@return the PID, in this process's namespace, of the root's first process"""
        with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children", encoding="utf-8") as f:
            return int(f.read().split()[0])

    def command(self, argv, env=None, user=None):
        """@return the words that run a program in there, with nothing of this process's environment"""
        words = [f"{name}={value}" for name, value in {**self.environment, **(env or {})}.items()]
        who = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] if user else []
        return [*self.enter, *who, "env", "-i", "-C", "/", *words, *argv]

    def run(self, *argv, env=None, user=None, seconds=120):
        """@return exit code, and all that the program wrote; 124 as the code: it did not end within the seconds"""
        try:
            done = subprocess.run(self.command(argv, env, user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False)
        except subprocess.TimeoutExpired as ended:
            return 124, (ended.stdout or b"").decode(errors="replace") + f"\nended after {seconds} s"
        return done.returncode, done.stdout

    def start(self, *argv, env=None, user=None):
        return harness.Process(self.command(argv, env, user))

    def files(self):
        """@return what is in there, without what is mounted: {path: kind and target of links}"""
        _, out = self.run("find", "/", "-xdev", "-printf", "%p\t%y %l\n")
        return dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)

    def put(self, source, path, mode=0o755):
        """Copy a file of this machine into it."""
        with open(source, "rb") as f:
            done = subprocess.run(self.command(["sh", "-c", f"cat >'{path}' && chmod {mode:o} '{path}'"]), stdin=f,
                                  check=False)
        if done.returncode:
            raise RuntimeError(f"cannot copy {source} to {path}")

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()
        os.rmdir(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
