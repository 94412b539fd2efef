# SPDX-License-Identifier: BSD-3-Clause
"""A mesh: processes of tests/apps/mesh/ on one device, each of which talks to every other, and what they report.

Members 1 and 2 are the third parties: nothing that happens to others may affect the traffic between them. Member 0
is called by all others (a server), member 3 calls all others (a client), member 4 visits.
"""
import mmap
import os
import re
import signal
import struct
import sys
import tempfile
import time

import harness

sys.path.insert(0, os.path.join(harness.ROOT, "scripts"))
sys.dont_write_bytecode = True
from uroce_cmd import proto  # noqa: E402
from uroce_cmd.devices import LISTENING  # noqa: E402

SERVER, FIRST, SECOND, CLIENT, VISITOR = range(5)
MEMBERS = 5
PATIENCE = 60       # seconds: for a busy machine
TIMEOUT = 16        # of the QPs: 0.27 s, seven retries: a living process has got the CPU by then
FRAIL = 12          # 17 ms, for QPs where giving up a living peer does no harm
PEER_WORDS = ("incarnation", "connections", "batches", "received")
MEMBER_WORDS = ("incarnation", "closed", "retry_exc", "flushed", "other", "wrong", "talks", "ending", "batches")
MEMBER_BYTES, PEERS = 512, 8  # as in mesh.h
BOARD_BYTES = MEMBER_BYTES * PEERS + 8


class Failure(Exception):
    """A condition was not met: one sentence."""


def wait_for(condition, what, seconds=PATIENCE):
    """Wait until the condition holds. @return its value then."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failure(f"in {seconds} s not so: {what() if callable(what) else what}")
        time.sleep(0.002)
    return value


def ask_daemon(address, command="status"):
    """@return the daemon's answer, or None when the device has no daemon."""
    try:
        with proto.Connection(proto.daemon_name(address), f"the daemon of {address}", PATIENCE) as connection:
            return connection.ask(command)
    except proto.Silent:
        return None


def unix_names():
    """@return [(name, whether a process listens)] of all UNIX sockets of this namespace that have a name."""
    with open("/proc/net/unix", errors="replace") as table:
        next(table)
        rows = (line.split(None, 7) for line in table)
        return [(row[7].strip(), bool(int(row[3], 16) & LISTENING)) for row in rows if len(row) == 8]


def points():
    """@return [(name, when)] of pmd/base/points.def"""
    with open(os.path.join(harness.ROOT, "pmd", "base", "points.def")) as f:
        return re.findall(r'^PMD_POINT_IS\((\w+), (\w+), "', f.read(), re.M)


def libraries(with_points):
    """@return the environment of a program that uses our libibverbs. `with_points`: of the build whose processes die
    or stop at given points."""
    build = os.environ["UROCE_BUILD"]
    library = ("tests", "apps", "points") if with_points else ("verbs_shim", "ibverbs", "dropin")
    return {"LD_LIBRARY_PATH": os.path.join(build, *library),
            "UROCE_UROCED": os.path.join(build, "pmd", "uroced-points" if with_points else "uroced")}


def failing_library():
    return os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "libfailing.so")


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "Tt"
    except OSError:
        return False


class Member:
    """A member's part of the board."""

    def __init__(self, board, index):
        self.board, self.at = board, index * MEMBER_BYTES

    def __getattr__(self, word):
        return struct.unpack_from("=Q", self.board, self.at + 8 * MEMBER_WORDS.index(word))[0]

    def peer(self, index, word):
        at = self.at + 8 * (len(MEMBER_WORDS) + len(PEER_WORDS) * index + PEER_WORDS.index(word))
        return struct.unpack_from("=Q", self.board, at)[0]

    @property
    def sentence(self):
        at = self.at + 8 * (len(MEMBER_WORDS) + len(PEER_WORDS) * PEERS)
        return self.board[at:self.at + MEMBER_BYTES].split(b"\0")[0].decode(errors="replace")


class Mesh:
    """`points`: use the build whose processes die or stop at given points. `frail`: the timeout of QPs other than
    those between the third parties."""
    count = 0
    incarnations = 0

    def __init__(self, points=False, env=None, frail=TIMEOUT):
        Mesh.count += 1
        self.address = f"127.{2 + os.getpid() % 250}.{200 + Mesh.count}.1"
        self.program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "mesh")
        self.env = dict(libraries(points), UROCE_DEVICES=self.address, **(env or {}))
        self.frail = frail
        self.file = tempfile.NamedTemporaryFile(prefix="mesh-")
        self.file.truncate(BOARD_BYTES)
        self.board = mmap.mmap(self.file.fileno(), BOARD_BYTES)
        self.members = [Member(self.board, i) for i in range(MEMBERS)]
        self.processes, self.incarnation = {}, {}

    # ---- processes ----

    def armed(self, point):
        """@return the environment of a process with something to do at a point, as in UROCE_TEST_POINT."""
        if not point:
            return self.env
        more = {"UROCE_TEST_POINT": point}
        if point.endswith(":fail"):
            self.failed = tempfile.NamedTemporaryFile(prefix="mesh-failed-")
            self.failed.truncate(4096)
            more.update(LD_PRELOAD=failing_library(),
                        UROCE_TEST_FAIL_FILE=self.failed.name)
        return dict(self.env, **more)

    def failed_kind(self):
        """@return 0 until a call has failed at the point, then 1 + its kind in failing/kinds.def."""
        with open(self.failed.name, "rb") as f:
            return struct.unpack_from("=i", f.read(24), 20)[0]

    def start(self, index, point=None):
        """Start a new process in a place. `point`: as in UROCE_TEST_POINT."""
        Mesh.incarnations += 1
        self.incarnation[index] = Mesh.incarnations
        argv = [self.program, self.file.name, index, Mesh.incarnations, MEMBERS, 1 << FIRST | 1 << SECOND, TIMEOUT,
                self.frail]
        self.processes[index] = harness.Process([str(arg) for arg in argv], env=self.armed(point))
        return self.processes[index]

    def start_daemon(self, point):
        return harness.Process([self.env["UROCE_UROCED"], "--device", self.address, "--foreground"],
                               env=self.armed(point))

    def kill(self, *indices):
        for index in indices:
            self.processes[index].popen.send_signal(signal.SIGKILL)
        for index in indices:
            self.processes.pop(index).kill()

    def gone(self, index, code):
        """Wait for a member that has ended by itself, or is about to."""
        process = self.processes.pop(index)
        found = process.wait(PATIENCE)
        if found != code:
            raise Failure(f"member {index} ended with {found}, not {code}: {process.output().strip()[-300:]}")

    def close(self, index):
        """Have a member close the device."""
        self.processes[index].popen.send_signal(signal.SIGTERM)
        self.gone(index, 0)

    def stop(self):
        self.kill(*self.processes)

    # ---- the daemon ----

    def daemon_pid(self):
        status = ask_daemon(self.address)
        return status["daemon"]["pid"] if status else None

    def have_daemon(self):
        """Have a member open the device if none has done so since the daemon was killed."""
        if ask_daemon(self.address) is None:
            if VISITOR in self.processes:
                self.kill(VISITOR)
            self.start(VISITOR)

    def live(self):
        return [f["pid"] for f in (ask_daemon(self.address) or {}).get("functions", []) if f["state"] == "live"]

    def kill_daemon(self):
        """Kill the daemon. @return once its name is free."""
        pid = self.daemon_pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
        for process in list(harness.Process.running.values()):
            if process.pid == pid:
                process.kill()
        wait_for(lambda: ask_daemon(self.address) is None, "a killed daemon is gone")

    def wait_joined(self):
        """Wait until the daemon has all members, and no other functions."""
        wait_for(lambda: sorted(self.live()) == sorted(p.pid for p in self.processes.values()),
                 lambda: f"functions are {self.live()}, processes {[p.pid for p in self.processes.values()]}")

    def is_idle(self):
        """@return whether nothing is left of the device."""
        return not any(name == f"@uroce/{self.address}" or name.startswith(f"@uroce/{self.address}/")
                       for name, _ in unix_names())

    # ---- what members report, and are told ----

    def hush(self, quiet):
        """Stop all members from starting anything new, or let them start again."""
        struct.pack_into("=Q", self.board, MEMBER_BYTES * PEERS, quiet)

    def check(self, without=()):
        """Raise Failure if anything is wrong so far. `without`: members that may have ended."""
        for index, process in self.processes.items():
            member = self.members[index]
            if index not in without and process.popen.poll() is not None:
                raise Failure(f"member {index} has ended with {process.popen.poll()}: "
                              f"{process.output().strip()[-300:]}")
            if member.wrong or member.other:
                raise Failure(f"member {index}: {member.wrong} times wrong data ({member.sentence}), {member.other} "
                              "completions with errors that a dead peer does not cause")
        for a, b in ((FIRST, SECOND), (SECOND, FIRST)):
            if self.members[a].peer(b, "connections") > 1:
                raise Failure(f"third parties had to connect again: {self.members[a].peer(b, 'connections')} times")

    def talks(self, a, b, batches):
        """@return whether a has checked so many batches with b's present process."""
        return (self.members[a].peer(b, "incarnation") == self.incarnation[b] and
                self.members[a].incarnation == self.incarnation[a] and
                self.members[a].peer(b, "batches") >= batches)

    def silent(self, indices, batches):
        return [(a, b) for a in indices for b in indices if a != b and not self.talks(a, b, batches)]

    def wait_talking(self, without=(), batches=2):
        """Wait until each member talks to each other."""
        indices = [i for i in self.processes if i not in without]

        def talking():
            self.check(without)
            return not self.silent(indices, batches)
        wait_for(talking, lambda: f"no talk between {self.silent(indices, batches)}")

    def wait_undisturbed(self, without, batches=3):
        """Wait until all other members have made progress with each other, in both directions."""
        indices = [i for i in self.processes if i not in without]
        pairs = [(a, b) for a in indices for b in indices if a != b]

        def done(a, b):
            return self.members[a].peer(b, "batches"), self.members[a].peer(b, "connections")
        before = {pair: done(*pair) for pair in pairs}

        def stands(a, b):
            return done(a, b)[0] < before[a, b][0] + batches and done(a, b)[1] == before[a, b][1]

        def gone_on():
            self.check(without)
            return not any(stands(*pair) for pair in pairs)
        wait_for(gone_on, lambda: f"no progress between {[pair for pair in pairs if stands(*pair)]}")

    def settle(self):
        """Wait until everything posted to dead peers has completed with errors, and only connections to the living
        are left."""
        def talks():
            return [self.members[i].talks for i in self.processes]
        wait_for(lambda: set(talks()) == {len(self.processes) - 1},
                 lambda: f"not everything to dead peers has completed: {talks()} QPs each")
        self.wait_talking()
        self.wait_joined()
