#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with connections of the connection manager are killed or stopped at each point of pmd/base/points.def that
such connections pass, and so is their daemon. Debian's rping on both sides. One that was stopped goes on and gets all
its data; peers of one that was killed notice; others go on; nothing is left."""
import contextlib
import os
import signal
import sys
import time

import census
import cm
import harness
import mesh
from cm_kill_test import PATIENCE_S, Failure, Place, pings

PORT, OTHER_PORT, UNSERVED_PORT = 7175, 7176, 7177
PINGS = 3
STOP_S = 0.3  # how long a process is stopped at least
FOREVER = 1000000
# How often a client and a server pass a point that they pass more than once: a client sends REQ, RTU and DREQ (and gets
# the REP, and perhaps the DREP before it exits); a server gets REQ, RTU and DREQ, and sends REP and DREP.
PASSES = {"client": {"cm_mad_due": 3, "cm_mad_sent": 3},
          "server": {"cm_mad_come": 3, "cm_event_due": 3, "cm_mad_due": 2, "cm_mad_sent": 2}}


class PointsSide(harness.Side):
    """A side whose programs use the build that dies or stops at points."""

    def __init__(self, side):
        super().__init__(side.address, env=mesh.libraries(True))
        sysfs = os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "sysfs", "liburoce-sysfs.so")
        if os.path.exists(sysfs):  # missing in a build with a sanitizer
            self.env["LD_PRELOAD"] = sysfs

    def command(self, argv):
        return list(argv)


class Points:
    """Points in one place after the other; `other` is a pair of processes that must not be disturbed."""

    def __init__(self, sides, env):
        self.place, self.other = Place(sides, env, PORT), Place(sides, env, OTHER_PORT)
        self.place.start_server()
        self.other.start_server()
        self.long = self.other.client(FOREVER)
        if not harness.until(PATIENCE_S, lambda: "established" in self.other.connections()):
            raise Failure("the other client does not connect")

    def stop(self):
        for process in (self.place.server, self.other.server, self.long):
            process.kill()

    def descriptors(self):
        """@return of the processes that stay"""
        address = self.place.server_side.address
        return [census.descriptors(process.pid, census.udp_inodes(address))
                for process in (self.other.server, self.long)]

    def undisturbed(self):
        if not cm.goes_on(self.other.client_side, self.long.pid):
            raise Failure(f"the other client does not go on: {self.long.output()} {self.other.server.output()}")

    def reached(self, process, how):
        """Wait until a process has died or stopped at its point."""
        harness.until(PATIENCE_S, lambda: process.popen.poll() is not None or mesh.is_stopped(process.pid))
        code = process.popen.poll()
        if code != (-signal.SIGKILL if how == "kill" else None) or (how == "stop" and not mesh.is_stopped(process.pid)):
            raise Failure(f"did not {how} at its point; exit code {code}: {process.output()}")
        self.undisturbed()

    def ends_well(self, client):
        code = client.wait(PATIENCE_S)
        if code is None or pings(client) != PINGS:
            raise Failure(f"the client gets {pings(client)} of {PINGS} answers (exit code {code}): {client.output()}")

    def settle(self):
        """Wait until no connection is left, and have a new client connect."""
        # A server in dreq-rcvd has been told. rping's thread does not end then if it was told before the connection was
        # established: it takes that event for the one that its accept waits for.
        if not harness.until(PATIENCE_S, lambda: self.place.has_none("dreq-rcvd")):
            raise Failure(f"the server keeps connections: {self.place.states()}")
        self.place.works()
        self.undisturbed()

    # ---- in functions ----

    def client(self, point, how):
        client = self.place.client(PINGS, "-v", point=point)
        self.reached(client, how)
        if how == "stop":
            self.other.works()
            os.kill(client.pid, signal.SIGCONT)
            self.ends_well(client)
        self.settle()

    def server(self, point, how):
        self.place.server.kill()
        lives = self.place.try_server(point)
        client = self.place.client(PINGS, "-v") if lives else None
        self.reached(self.place.server, how)
        if how == "stop":
            self.other.works()
            os.kill(self.place.server.pid, signal.SIGCONT)
            if self.was_early(client):
                client = self.place.client(PINGS, "-v")
            self.ends_well(client)
        else:
            if client and client.wait(PATIENCE_S) is None:
                raise Failure("the client does not notice that the server is gone")
            self.place.start_server()
        self.settle()

    def was_early(self, client):
        """Whether the client was refused because the server had stopped before it listened."""
        return client.popen.poll() is not None and "_REJECTED" in client.output()

    # ---- in the daemon ----

    def start_daemon(self, side, point, joins=True):
        """A daemon that takes over the processes of the device. @param joins wait until it has them all"""
        pids = sorted(function["pid"] for function in cm.functions(side))
        cm.kill_daemon(side)
        if not harness.until(PATIENCE_S, lambda: mesh.ask_daemon(side.address) is None):
            raise Failure("a daemon that was killed is there")
        env = dict(mesh.libraries(True), UROCE_TEST_POINT=point)
        daemon = harness.Process([env["UROCE_UROCED"], "--device", side.address, "--foreground"], env=env)
        if joins and not harness.until(PATIENCE_S, lambda: self.has_joined(side, daemon, pids)):
            raise Failure(f"the daemon does not get {pids}: {daemon.output()}")
        return daemon

    def has_joined(self, side, daemon, pids):
        said = mesh.ask_daemon(side.address)
        return said and said["daemon"]["pid"] == daemon.pid and \
            sorted(f["pid"] for f in said["functions"] if f["state"] == "live") == pids

    def daemon(self, when, point, how):
        place = self.place
        side = place.server_side if when in ("REFUSE", "GIVE_UP") else place.client_side
        daemon = self.start_daemon(side, point, when != "RECORD")
        client = None if when == "RECORD" else getattr(self, when.lower())()
        try:
            self.reached(daemon, how)
            if how == "stop":
                time.sleep(STOP_S)
                self.undisturbed()
                os.kill(daemon.pid, signal.SIGCONT)
            else:
                self.other.works()  # starts the next daemon
        finally:
            os.kill(place.server.pid, signal.SIGCONT)
        if when == "RECORD":
            self.ends_well(place.client(PINGS, "-v"))
        elif client.wait(PATIENCE_S) is None:
            raise Failure(f"the client does not end: {client.output()}")
        if how == "kill" and when in ("LOSE", "GIVE_UP"):  # nobody knows the connections of a process any more when it
            place.server.kill()                            # and its daemon have been killed at once, as with a host
            place.start_server()
        if place.server.popen.poll() is not None and place.was_rejected():
            place.start_server()
        self.settle()

    def lose(self):
        client = self.place.client(FOREVER)
        if not harness.until(PATIENCE_S, lambda: "established" in self.place.connections()):
            raise Failure("a client does not connect")
        client.popen.kill()
        return client

    def refuse(self):
        return self.place.client(PINGS, port=UNSERVED_PORT)

    def give_up(self):
        os.kill(self.place.server.pid, signal.SIGSTOP)
        client = self.place.client(PINGS)
        if not harness.until(PATIENCE_S, lambda: "req-sent" in cm.states(self.place.client_side, client.pid)):
            raise Failure("a client has not sent its request")
        client.popen.kill()
        return client


def cases(with_daemon):
    """@return [(role, when, point)]"""
    found = []
    for name, when in mesh.points():
        if when == "MANAGE":
            found += [(role, when, f"{name}:{count}") for role, passes in PASSES.items()
                      for count in range(1, passes.get(name, 1) + 1)]
        elif when in ("RECORD", "LOSE", "REFUSE", "GIVE_UP") and with_daemon:
            found.append(("daemon", when, f"{name}:1"))
    return found


def run(tally, how, sides, env, chosen):
    points = None
    try:
        points = Points([PointsSide(side) for side in sides], env)
        points.settle()
        before = points.descriptors()
        for role, when, point in chosen:
            for what in ("kill", "stop"):
                name = f"{what} at {point} as {role}, {how}"
                if role == "daemon":
                    points.daemon(when, f"{point}:{what}", what)
                else:
                    getattr(points, role)(f"{point}:{what}", what)
                tally.result(name, True)
        name = f"nothing is left, {how}"
        tally.result(name, harness.until(PATIENCE_S, lambda: points.descriptors() == before),
                     f"descriptors {points.descriptors()}; before {before}")
    except Failure as failure:
        tally.result(name if points else how, False, str(failure), points.place.server.output() if points else "")
    finally:
        if points:
            with contextlib.suppress(ProcessLookupError):
                points.stop()


def main():
    args = harness.options(__doc__, *harness.EVERY, ("--point", "run only this point", ""))
    harness.need_programs("rping")
    tally = harness.Tally("cm_points")
    for how, sides, env in (("shared memory", harness.one_device_sides(17), {}),
                            ("UDP", harness.one_device_sides(17), cm.UDP),
                            ("two devices", harness.loopback_sides(18), {})):
        chosen = [case for case in cases(env != cm.UDP) if args.point in ("", case[2].split(":")[0])]
        if chosen:
            run(tally, how, sides, env, harness.turn(args, chosen))
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
