#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with connections of the connection manager are killed at random moments: while they connect, accept,
exchange data and disconnect. Debian's rping on both sides. Peers get a DREQ within a second, as from a kernel; ports
are free at once; the daemon's death disturbs nobody."""
import random
import time

import cm
import harness

PORT = "7174"
DATA = ["-S", "1000", "-V"]  # bytes of each message, which are checked
GONE_S = 1.0     # a connection to a process that was killed ends within this time
PATIENCE_S = 20  # for what is not timed: a connect that nobody answers gives up after its retries
# A machine that runs other things may stall the test itself: so many rounds may take longer than GONE_S.
LATE = 0.05
TRIES = 5


class Failure(Exception):
    """A round has failed."""


class Place:
    """Where the two programs run, and what they leave behind."""

    def __init__(self, sides, env):
        self.server_side, self.client_side, self.env = *sides, env
        self.server = None

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

    def try_server(self):
        """@return whether it lives"""
        self.server = harness.Process(["rping", "-s", "-P", "-a", self.server_side.address, "-p", PORT, *DATA],
                                      self.server_side, self.env)
        if not harness.until(PATIENCE_S, lambda: self.server.popen.poll() is not None or self.listens()):
            raise Failure("the server does not listen")
        return self.server.popen.poll() is None

    def client(self, count, *more):
        return harness.Process(["rping", "-c", "-a", self.server_side.address, "-p", PORT, "-C", str(count), *DATA,
                                *more], self.client_side, self.env)

    def listens(self):
        return any(entry["state"] == "listen" for entry in self.entries())

    def entries(self):
        """@return what the server's process has: its listener and its connections"""
        return [entry for function in cm.functions(self.server_side) if function["pid"] == self.server.pid
                for entry in function.get("cm", [])]

    def connections(self):
        return [entry["state"] for entry in self.entries() if entry["state"] not in ("listen", "timewait")]

    def works(self):
        """A new client connects, exchanges checked data and disconnects."""
        for _ in range(TRIES):
            client = self.client(5, "-v")
            if client.wait(PATIENCE_S) is not None and client.output().count("ping data: ") == 5:
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
    if not harness.until(PATIENCE_S, lambda: not place.connections()):
        raise Failure(f"the server keeps connections: {place.connections()}")
    late = time.monotonic() - killed
    place.works()
    return late


def server_dies(place, rng):
    """@return how long the client went on; 0 if it was not connected yet, because then it repeats its request"""
    client = place.client(1000000)
    moment(rng)
    connected = "established" in place.connections()
    place.server.kill()
    killed = time.monotonic()
    if client.wait(PATIENCE_S) is None:
        raise Failure("the client does not notice that the server is gone")
    late = time.monotonic() - killed if connected else 0
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
    return 0


def daemon_dies(place, rng):
    """A connection lives on, and new ones are made, before and after the next daemon comes."""
    client = place.client(1000000)
    moment(rng)
    for side in {place.server_side, place.client_side}:
        cm.kill_daemon(side)
    place.works()
    if client.popen.poll() is not None:
        raise Failure(f"the first client has ended: {client.output()}")
    client.kill()
    if not harness.until(PATIENCE_S, lambda: not place.connections()):
        raise Failure(f"the server keeps connections: {place.connections()}")
    return 0


def series(tally, name, place, rounds, one_round):
    rng, late, started = random.Random(rounds), 0, time.monotonic()
    number = 0
    try:
        place.start_server()
        place.works()
        for number in range(rounds):
            late += one_round(place, rng) > GONE_S
        if not harness.until(PATIENCE_S, lambda: len(place.entries()) == 1):
            raise Failure(f"the server keeps {place.entries()}")
    except Failure as failure:
        tally.result(f"{name}, {number + 1} of {rounds}", False, str(failure), place.server.output())
        return
    finally:
        place.server.kill()
    tally.result(f"{name}: {rounds} times in {time.monotonic() - started:.0f} s", True)
    tally.result(f"{name}: the other side notices within {GONE_S:g} s", late <= max(1, LATE * rounds),
                 f"{late} of {rounds} were late")


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
