# SPDX-License-Identifier: BSD-3-Clause
"""The guard of an uplink's daemon (uroced_guard.c), when it cannot start the daemon again: a step of uplink_test.py."""
import os
import signal
import socket
import subprocess
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


class Within(harness.Side):
    """A side whose commands run as `words` would have them."""

    def __init__(self, side, *words):
        super().__init__(side.address, side.devices, side.netns, side.host)
        self.words = words

    def enter(self):
        return [*super().enter(), *self.words]


def told_nobody(side):
    """@return what `uroce status` tells another user; None: that user cannot run it"""
    words = harness.other_user(harness.NOBODY, "what another user is told")
    done = words and harness.uroce("status", side=Within(side, *words))
    return done and done.stdout + done.stderr


def serving(tally, side):
    """As long as its daemon serves, whatever that answers, the guard has nothing to say."""
    said = told_nobody(side)
    if said is not None:
        tally.result("another user is told whose the device is", "is a device of user root" in said, "", said)
    pid = uplinks.daemon(side)
    harness.stop(pid)
    try:
        done = [harness.uroce(*words, side=side) for words in (("status",), ("up", side.devices))]
    finally:
        os.kill(pid, signal.SIGCONT)
    for what, said in zip(("status", "up"), done):
        tally.result(f"uroce {what} of a daemon that is stopped tells that",
                     "its process is stopped" in said.stdout + said.stderr, "", said.stdout, said.stderr)


def crash(tally, side):
    """A daemon ends by a signal while it starts: SIGXFSZ, when it makes its memory."""
    dying = Within(side, "prlimit", "--fsize=0")
    argv = [f"{os.environ['UROCE_BUILD']}/pmd/uroced", "--device", side.address, "--uplink",
            "net_af_packet0,iface=ua", "--foreground"]
    done = subprocess.run(dying.command(argv), capture_output=True, text=True, timeout=20, check=False)
    tally.result("uroced --foreground crashes: it says so", done.returncode == 1 and
                 done.stderr.count("ended it while it started") == 1, f"exit code {done.returncode}", done.stderr)
    done = uplinks.up(dying)
    gone = harness.until(20, lambda: not uplinks.told(side))
    tally.result("the first daemon crashes: uroce up says so, and its guard ends", done.returncode == 1 and
                 "ended while it started" in done.stderr and gone, f"exit code {done.returncode}", done.stderr,
                 uplinks.told(side))
    tally.result("uroce up after that", uplinks.up(side).returncode == 0, "", uplinks.told(side))
    pid = uplinks.daemon(side)
    guard = uplinks.guard(pid)
    subprocess.run(["prlimit", "--pid", str(guard), "--fsize=0:"], check=True)
    uplinks.kill(pid)
    says = harness.until(20, lambda: "is tried again: signal" in uplinks.told(side))
    tally.result("a later one crashes: uroce status tells that", says, "", uplinks.told(side))
    down = harness.uroce("down", side.address, side=side)
    tally.result("uroce down ends its guard", down.returncode == 0 and is_over(guard), f"exit code {down.returncode}",
                 down.stdout, down.stderr)


def guards_end(tally, spaces):
    """The interface is gone, and the daemon is killed: its guard says so, and tries as long as somebody needs it."""
    side = uplinks.sides(spaces, ("net_af_packet0,iface=ua", "net_af_packet0,iface=ub"))[0]
    with tempfile.TemporaryDirectory(prefix="uroce-log-") as folder:
        logged = Logged(side, folder)
        tally.result("uroce up", uplinks.up(logged).returncode == 0, "", uplinks.told(side))
        serving(tally, side)
        guard = lose(side)
        says = harness.until(20, lambda: "is tried again: DPDK cannot open 'net_af_packet0" in uplinks.told(side))
        tally.result("uroce status tells why the daemon does not start", says, "", uplinks.told(side))
        log = logged.said()
        tally.result("so does syslog", "the daemon of 10.0.0.1 does not start: " in log, "", log)
        joined = harness.uroce("up", f"{side.address}/uplink", side=side)
        for what, said in (("another user", told_nobody(side)), ("uroce up ADDRESS/uplink", joined.stderr)):
            if said is not None:
                tally.result(f"so is {what} told", "is tried again: DPDK cannot open" in said, "", said)
        tally.result("a kept device is tried again", os.path.exists(f"/proc/{guard}"), "")
        down = harness.uroce("down", side.address, side=side)
        tally.result("uroce down ends that", down.returncode == 0 and is_over(guard), f"exit code {down.returncode}",
                     down.stdout, down.stderr)
        logged.socket.close()
    uplinks.link(*spaces, 4500)
    crash(tally, side)
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
