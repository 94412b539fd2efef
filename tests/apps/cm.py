# SPDX-License-Identifier: BSD-3-Clause
"""What the processes of a device say of their connections, and pairs of programs that connect through librdmacm."""
import contextlib
import json
import os
import signal

import harness
import mesh
from mesh import Failure

UDP = {"UROCE_RING": "off"}
DATA = ["-S", "1000", "-V"]  # bytes of each of rping's messages, which are checked
PATIENCE_S = 20  # for what is not timed: a connect that nobody answers gives up after its retries
GOES_ON_S = 60
TRIES = 5
RPING_FAILED = 255  # rping's exit code after an error that it has noticed
CLOSED_MAX = 3
closed = []  # runs of rping whose event thread has read a closed channel
FOREVER = 2**31 - 1  # pings: the most that rping counts; a million end after some minutes
PING = "ping data: "  # what rping -v prints for each answer


def devices(side):
    """@return what `uroce status` says of the side's device; nothing if it is not open"""
    said = harness.uroce("status", side.address, "--json", side=side)
    return json.loads(said.stdout)["devices"] if said.returncode == 0 else []


def functions(side):
    """@return the processes of the side's device; none if it is not open"""
    return [function for device in devices(side) for function in device["functions"]]


def kill_daemon(side):
    """Kill the daemon of the side's device. @return whether there was one"""
    for device in devices(side):
        if device["daemon"] and device["daemon"]["pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(device["daemon"]["pid"], signal.SIGKILL)
                return True
    return False


def start_daemon(side, env, joins=True):
    """Replace the daemon of the side's device, if there is one. `env`: that of mesh.libraries, and UROCE_TEST_POINT.
    @param joins wait until the new daemon has all the processes of the old one
    @return its process"""
    pids = {function["pid"] for function in functions(side)}
    kill_daemon(side)
    # One that an earlier call has started is a child of this process: reap it.
    for process in list(harness.Process.running.values()):
        if "--foreground" in process.argv and side.address in process.argv:
            process.kill()
    if not harness.until(PATIENCE_S, lambda: mesh.ask_daemon(side.address) is None):
        raise Failure("a daemon that was killed is there")
    daemon = harness.Process([env["UROCE_UROCED"], "--device", side.address, "--foreground"], env=env)

    def has_joined():
        said = mesh.ask_daemon(side.address)
        return said and said["daemon"]["pid"] == daemon.pid and \
            pids <= {function["pid"] for function in said["functions"] if function["state"] == "live"}
    if joins and not harness.until(PATIENCE_S, has_joined):
        raise Failure(f"the daemon does not get {pids}: {daemon.output()}")
    return daemon


def states(side, pid):
    """@return the states of a process's connections"""
    return [entry["state"] for function in functions(side) if function["pid"] == pid
            for entry in function.get("cm", [])]


def received(side, pid):
    """@return how many packets a process's queue pairs have received"""
    return sum(qp["counters"]["rx_packets"] for function in functions(side) if function["pid"] == pid
               for qp in function.get("queue_pairs", []))


def goes_on(side, pid):
    """Whether a process receives packets. It may take long: `uroce status` waits for processes that are stopped."""
    seen = []

    def more():
        seen.append(received(side, pid))
        return any(0 < before < seen[-1] for before in seen)
    if not harness.until(GOES_ON_S, more):
        print(f"packets received: {seen}", flush=True)
        return False
    return True


def ports(side):
    """@return [(port space, port)] on which processes of the device listen"""
    return [tuple(port) for function in functions(side) for port in function["cm_ports"]]


def listens(side):
    return any(entry["state"] == "listen" for function in functions(side) for entry in function.get("cm", []))


def code_of(argv, code, said):
    """@return a program's exit code; but 0 for an rping that has printed all its pings and then exits with 255: rping
    44's event thread may read once more from the channel that its main thread has just closed. Few may."""
    if argv[0] == "rping" and code == 255 and "-v" in argv and len(closed) < CLOSED_MAX and \
            said.count(PING) == int(argv[argv.index("-C") + 1]) and "rdma_get_cm_event: Bad file" in said and \
            "completion failed" not in said and " failed: -1" not in said:
        closed.append(argv)
        print("rping's event thread has read a closed channel", flush=True)
        return 0
    return code


def pair(server_argv, client_argv, sides, env=None, seconds=60, ends=True, tcp=None):
    """A server, and a client once the server listens.
    @param ends whether the server ends when its client has; otherwise it is ended
    @param tcp a TCP port on which the server listens at last; None: it listens in the device's port space
    @return (ok, reason, server output, client output)"""
    server = harness.Process(server_argv, sides[0], env)
    if not (server.wait_listen(tcp, 20) if tcp else harness.until(20, lambda: listens(sides[0]))):
        return False, f"the server does not listen (exit code {server.wait(0.1)})", server.output(), ""
    client = harness.Process(client_argv, sides[1], env)
    codes = [code_of(client_argv, client.wait(seconds), client.output())]
    if ends:
        code = server.wait(10)
        codes.append(code_of(server_argv, code, server.output()))
    else:
        server.kill()
    return not any(code != 0 for code in codes), f"exit codes {codes}", server.output(), client.output()


def pings(client):
    """@return how many answers with the right data an rping client with -v has had"""
    return client.output().count(PING)


class Place:
    """Where rping runs on both sides, and what it leaves behind."""

    def __init__(self, sides, env, port):
        self.server_side, self.client_side, self.env = *sides, env
        self.port = port
        self.server = None
        self.may_mix = 0  # in how many more rounds rping may mix up two requests

    def rping(self, side, words, point=None):
        """`point`: as in UROCE_TEST_POINT"""
        env = dict(self.env, UROCE_TEST_POINT=point) if point else self.env
        return harness.Process(["rping", "-a", self.server_side.address, *DATA, *words], side, env)

    def start_server(self):
        """A server that accepts any number of clients. It can listen although its predecessor was just killed."""
        for _ in range(TRIES):
            if self.try_server():
                return
            if not self.was_rejected():
                break
        raise Failure(f"the server has ended: {self.server.output()}")

    def was_rejected(self):
        """Whether rping has ended, without a crash, because a client that it had accepted was dead: it takes that event
        as an error."""
        return harness.until(1, lambda: self.server.popen.poll() is not None) and \
            self.server.popen.returncode == RPING_FAILED and "_REJECTED" in self.server.output()

    def try_server(self, point=None):
        """@return whether it lives; then it listens, or has stopped at its point"""
        self.server = self.rping(self.server_side, ["-s", "-P", "-p", str(self.port)], point)
        if not harness.until(PATIENCE_S, lambda: self.server.popen.poll() is not None or
                             mesh.is_stopped(self.server.pid) or self.listens()):
            raise Failure("the server does not listen")
        return self.server.popen.poll() is None

    def client(self, count, *more, port=None, point=None):
        return self.rping(self.client_side, ["-c", "-p", str(port or self.port), "-C", str(count), *more], point)

    def listens(self):
        return "listen" in self.states()

    def states(self):
        """@return the states of what the server's process has: its listener and its connections"""
        return states(self.server_side, self.server.pid)

    def connections(self):
        return [state for state in self.states() if state not in ("listen", "timewait")]

    def unaccepted(self):
        """@return how many connections rping says it could not accept: it keeps their ids"""
        return sum(self.server.output().count(words) for words in ("setup_qp failed", "connect error"))

    def has_none(self, *but):
        """Whether the server has ended, or says that it has no connections except those in the states `but`, and the
        ids that it could not accept."""
        states = self.states()
        left = [state for state in states if state not in ("listen", "timewait", *but)]
        return self.server.popen.poll() is not None or \
            ("listen" in states and set(left) <= {"idle"} and len(left) <= self.unaccepted())

    def works(self):
        """A new client connects, exchanges checked data and disconnects."""
        for _ in range(TRIES):
            client = self.client(5, "-v")
            if client.wait(PATIENCE_S) is not None and pings(client) == 5:
                return
            if not self.was_rejected():
                break
            self.start_server()
        raise Failure(f"a new client fails: {client.output()}; the server's exit code: {self.server.popen.poll()}")
