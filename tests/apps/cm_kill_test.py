#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with connections of the connection manager are killed at random moments: while they connect, accept,
exchange data and disconnect. Debian's rping on both sides. Peers get a DREQ within a second, as from a kernel; ports
are free at once; the daemon's death disturbs nobody."""
import random
import time

import cm
import harness
import mesh

PORT = 7174
DATA = ["-S", "1000", "-V"]  # bytes of each message, which are checked
GONE_S = 1.0     # a connection to a process that was killed ends within this time
PATIENCE_S = 20  # for what is not timed: a connect that nobody answers gives up after its retries
# A machine that runs other things may stall the test itself: so many rounds may take longer than GONE_S.
LATE = 0.05
TRIES = 5


class Failure(Exception):
    """A round has failed."""


def pings(client):
    """@return how many answers with the right data a client with -v has had"""
    return client.output().count("ping data: ")


class Place:
    """Where the two programs run, and what they leave behind."""

    def __init__(self, sides, env, port=PORT):
        self.server_side, self.client_side, self.env = *sides, env
        self.port = port
        self.server = None

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
        """Whether rping has ended because a client that it had accepted was dead: it takes that event as an error."""
        return harness.until(1, lambda: self.server.popen.poll() is not None) and "_REJECTED" in self.server.output()

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
        return cm.states(self.server_side, self.server.pid)

    def connections(self):
        return [state for state in self.states() if state not in ("listen", "timewait")]

    def has_none(self, *but):
        """Whether the server says that it has no connections `but` in these states, or has ended."""
        states = self.states()
        return self.server.popen.poll() is not None or \
            ("listen" in states and set(states) <= {"listen", "timewait", *but})

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


def moment(rng):
    """A random moment in the life of a client: connecting takes some 10 ms, the process itself starts in 50."""
    time.sleep(rng.choice((0.03, 0.12, 0.3)) * rng.random() + rng.choice((0, 0.05)))


def client_dies(place, rng):
    """@return how long the server kept the connection"""
    client = place.client(rng.choice((3, 1000000)))
    moment(rng)
    client.kill()
    killed = time.monotonic()
    if not harness.until(PATIENCE_S, place.has_none):
        raise Failure(f"the server keeps connections: {place.states()}")
    late = time.monotonic() - killed
    place.works()
    return late


def server_dies(place, rng):
    """@return how long the client went on; None if it was not connected yet, because then it repeats its request"""
    client = place.client(1000000)
    moment(rng)
    connected = "established" in place.connections()
    place.server.kill()
    killed = time.monotonic()
    if client.wait(PATIENCE_S) is None:
        raise Failure("the client does not notice that the server is gone")
    late = time.monotonic() - killed if connected else None
    place.start_server()
    place.works()
    return late


def both_die(place, rng):
    client = place.client(1000000)
    moment(rng)
    place.server.kill()
    client.kill()
    place.start_server()
    place.works()
    return None


def daemon_dies(place, rng):
    """A connection lives on, and new ones are made, before and after the next daemon comes."""
    client = place.client(1000000)
    moment(rng)
    if not harness.until(PATIENCE_S, lambda: cm.kill_daemon(place.client_side)):  # the client may just start it
        raise Failure("the client's device has no daemon")
    if place.server_side is not place.client_side:
        cm.kill_daemon(place.server_side)  # none since it was killed last time, because nobody has opened the device
    place.works()
    if not cm.goes_on(place.client_side, client.pid):
        raise Failure(f"the first client does not go on: {client.output()}")
    client.kill()
    if not harness.until(PATIENCE_S, place.has_none):
        raise Failure(f"the server keeps connections: {place.states()}")
    place.works()
    return None


def series(tally, name, place, rounds, one_round):
    rng, took, started = random.Random(rounds), [], time.monotonic()
    number = 0
    try:
        place.start_server()
        place.works()
        for number in range(rounds):
            took.append(one_round(place, rng))
        if not harness.until(PATIENCE_S, lambda: place.states() == ["listen"]):
            raise Failure(f"the server keeps {place.states()}")
    except Failure as failure:
        tally.result(f"{name}, {number + 1} of {rounds}", False, str(failure), place.server.output())
        return
    finally:
        place.server.kill()
    tally.result(f"{name}: {rounds} times in {time.monotonic() - started:.0f} s", True)
    timed = [seconds for seconds in took if seconds is not None]
    late = sum(seconds > GONE_S for seconds in timed)
    if one_round in (client_dies, server_dies):
        tally.result(f"{name}: the other side notices within {GONE_S:g} s ({late} of {len(timed)} later)",
                     timed and late <= max(1, LATE * len(timed)), f"{rounds} rounds")


def main():
    args = harness.options(__doc__, ("--rounds", "how often each dies", 200))
    harness.need_programs("rping")
    tally = harness.Tally("cm_kill")
    for how, sides, env in (("shared memory", harness.one_device_sides(15), {}),
                            ("UDP", harness.one_device_sides(15), cm.UDP),
                            ("two devices", harness.loopback_sides(16), {})):
        for name, one_round in (("client", client_dies), ("server", server_dies), ("both", both_die),
                                ("uroced", daemon_dies)):
            series(tally, f"kill -9 {name}, {how}", Place(sides, env), args.rounds, one_round)
    tally.finish()


if __name__ == "__main__":
    main()
