# SPDX-License-Identifier: BSD-3-Clause
"""The guard of an uplink's daemon (uroced_guard.c), when it cannot start the daemon again: a step of uplink_test.py."""
import os
import socket
import tempfile

import harness
import uplinks

# /dev with a log of the test's own: the folder's
WITH_LOG = """
mount --rbind /dev "$0/dev" && mount -t tmpfs none /dev || exit 1
for name in null zero full random urandom; do
    touch "/dev/$name" && mount --bind "$0/dev/$name" "/dev/$name" || exit 1
done
ln -s "$0/log" /dev/log && exec "$@"
"""


class Logged(harness.Side):
    """A side whose `uroce up` starts a daemon that has another syslog."""

    def __init__(self, side, folder):
        super().__init__(side.address, side.devices, side.netns, side.host)
        self.folder = folder
        os.mkdir(os.path.join(folder, "dev"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(folder, "log"))

    def enter(self):
        return [*super().enter(), "unshare", "--mount", "sh", "-c", WITH_LOG, self.folder]

    def said(self):
        """@return what has been logged since the last time"""
        lines = []
        try:
            while True:
                lines.append(self.socket.recv(4096, socket.MSG_DONTWAIT).decode())
        except BlockingIOError:
            return "\n".join(lines)


def lose(side):
    """Delete the interface and kill the daemon. @return the PID of the guard"""
    pid = uplinks.daemon(side)
    guard = uplinks.guard(pid)
    side.netns.run("ip", "link", "del", "ua")
    uplinks.kill(pid)
    return guard


def is_over(pid):
    ended = harness.until(20, lambda: not os.path.exists(f"/proc/{pid}"))
    if not ended:
        uplinks.kill(pid)
    return ended


def guards_end(tally, spaces):
    """The interface is gone, and the daemon is killed: its guard says so, and tries as long as somebody needs it."""
    side = uplinks.sides(spaces, ("net_af_packet0,iface=ua", "net_af_packet0,iface=ub"))[0]
    with tempfile.TemporaryDirectory(prefix="uroce-log-") as folder:
        logged = Logged(side, folder)
        tally.result("uroce up", uplinks.up(logged).returncode == 0, "", uplinks.told(side))
        guard = lose(side)
        says = harness.until(20, lambda: "is tried again: DPDK cannot open 'net_af_packet0" in uplinks.told(side))
        tally.result("uroce status tells why the daemon does not start", says, "", uplinks.told(side))
        log = logged.said()
        tally.result("so does syslog", "the daemon of 10.0.0.1 does not start: " in log, "", log)
        tally.result("a kept device is tried again", os.path.exists(f"/proc/{guard}"), "")
        down = harness.uroce("down", side.address, side=side)
        tally.result("uroce down ends that", down.returncode == 0 and is_over(guard), f"exit code {down.returncode}",
                     down.stdout, down.stderr)
        logged.socket.close()
    uplinks.link(*spaces, 4500)
    tally.result("uroce up again", uplinks.up(side).returncode == 0, "", uplinks.told(side))
    guard = lose(side)
    other = harness.Side(side.address, f"{side.address}/24/uplink=net_af_packet0,iface=va", side.netns, side.host)
    done = uplinks.up(other)
    tally.result("another daemon gets the device, and the guard ends", done.returncode == 0 and is_over(guard) and
                 bool(uplinks.daemon(other)), f"exit code {done.returncode}", done.stderr, uplinks.told(other))
    guard = uplinks.guard(uplinks.daemon(other))
    harness.uroce("down", side.address, side=side)
    tally.result("which leaves with uroce down", is_over(guard) and not uplinks.status(side), "", uplinks.told(side))
    uplinks.link(*spaces, 4500)
    program = harness.Process([os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")], side)
    opened = harness.until(20, lambda: uplinks.daemon(side))
    guard = lose(side)
    tried = harness.until(20, lambda: "does not start" in uplinks.told(side)) and os.path.exists(f"/proc/{guard}")
    program.kill()
    tally.result("the guard of a device that is not kept ends with the last process", opened and tried and
                 is_over(guard), f"opened {opened}, tried {tried}", uplinks.told(side))
    uplinks.link(*spaces, 4500)
