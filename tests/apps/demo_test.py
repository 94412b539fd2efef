#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo where / is not a mount point: in a chroot, as in build environments. Its mounts and networks are in
namespaces that end with it."""
import os
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
    tally.result("scripts/demo in a chroot", done.returncode == 0 and "RC FETCH ADD" in done.stdout
                 and "all of it ran over uroce" in done.stdout, f"exit code {done.returncode}", done.stdout)
    tally.finish()


if __name__ == "__main__":
    main()
