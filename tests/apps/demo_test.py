#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo where / is not a mount point: in a chroot, as in build environments. Its mounts and networks are in
namespaces that end with it."""
import os
import signal
import subprocess
import tempfile

import harness

# $1: an empty folder that becomes the root; the rest: the command.
INSIDE = """set -e
root=$1
shift
for path in /*; do
	if [ -L "$path" ]; then cp -P "$path" "$root/"
	elif [ -d "$path" ]; then mkdir "$root$path" && mount --rbind "$path" "$root$path"; fi
done
exec chroot "$root" "$@"
"""


# In the place of a program of the table: it goes on until it is ended.
ENDLESS = """#!/usr/bin/env python3
import os, socket, sys, time
port = int(sys.argv[sys.argv.index("-p") + 1])
if sys.argv[-1] == "127.0.0.1":
    with open(os.environ["CLIENT_PID"] + "-", "w") as f:
        f.write(str(os.getpid()))
    os.rename(f.name, f.name[:-1])
else:
    server = socket.create_server(("", port))
time.sleep(300)
"""


def ended(tally, signum, expected):
    """A signal ends the demonstration in the middle of a program, and the program with it."""
    with tempfile.TemporaryDirectory() as folder:
        program, pid = os.path.join(folder, "ibv_rc_pingpong"), os.path.join(folder, "pid")
        with open(program, "w", encoding="utf-8") as f:
            f.write(ENDLESS)
        os.chmod(program, 0o755)
        demo = harness.Process(["nsenter", f"--net=/proc/{harness.Netns().pid}/ns/net",
                                os.path.join(harness.ROOT, "scripts", "demo"), "--user"],
                               env={"PATH": f"{folder}:{os.environ['PATH']}", "CLIENT_PID": pid})
        begun = harness.until(200, lambda: os.path.exists(pid) or demo.popen.poll() is not None)
        demo.popen.send_signal(signum)
        code = demo.wait(30)
        with open(pid, encoding="ascii") as f:
            client = f.read()
        gone = harness.until(10, lambda: not os.path.exists(f"/proc/{client}"))
        tally.result(f"{signum.name} in the middle of a program", begun and gone and code == expected,
                     f"exit code {code}, the program is {'gone' if gone else 'still there'}", demo.output())
        if not gone:
            os.kill(int(client), signal.SIGKILL)


def main():
    harness.options(__doc__)
    harness.need_root()
    harness.need_programs("unshare", "nsenter", "chroot", "tcpdump", "ib_write_lat", "ip")
    unshare = ["unshare", "--mount", "--net", "--propagation", "private", "--"]
    if subprocess.run([*unshare, "true"], check=False).returncode:
        harness.skip("namespaces cannot be made here")
    tally = harness.Tally("demo")
    root = tempfile.mkdtemp(prefix="uroce-demo-root-")
    try:
        done = subprocess.run([*unshare, "sh", "-c", INSIDE, "sh", root, os.path.join(harness.ROOT, "scripts", "demo")],
                              env=dict(os.environ, UROCE_DEVICES="203.0.113.9"),  # is not for these namespaces
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=500, check=False)
    finally:
        for name in os.listdir(root):  # not what was mounted there
            path = os.path.join(root, name)
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
        os.rmdir(root)
    for signum, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        ended(tally, signum, code)
    tally.result("scripts/demo in a chroot", done.returncode == 0 and "RC FETCH ADD" in done.stdout
                 and "all of it ran over uroce" in done.stdout, f"exit code {done.returncode}", done.stdout)
    tally.finish()


if __name__ == "__main__":
    main()
