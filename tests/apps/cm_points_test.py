#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with connections of the connection manager are killed or stopped at each point of pmd/base/points.def that
such connections pass, and so is their daemon. Debian's rping on both sides. One that was stopped goes on and gets all
its data; peers of one that was killed notice; others go on; nothing is left."""
import os
import signal
import sys
import time

import census
import cm
import harness
import mesh
from cm import FOREVER, Failure, PATIENCE_S, Place

PORT, OTHER_PORT, UNSERVED_PORT = 7175, 7176, 7177
PINGS = 3
STOP_S = 0.3  # how long a process is stopped at least
# The state of a server that has been told of its client's death before the connection was established. rping's thread
# takes that event for the one that its accept waits for, and then does not end.
TOLD = ["dreq-rcvd"]
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

    def descriptors(self):
        """@return those of the processes that stay, and of the daemons, which keep sockets of the port for former
        processes"""
        pids, found = [self.other.server.pid, self.long.pid], []
        for side in (self.place.server_side, self.place.client_side):
            said = mesh.ask_daemon(side.address)
            pids += [said["daemon"]["pid"]] if said else []
        for pid in pids:
            found.append(census.descriptors(pid, census.udp_inodes(self.place.server_side.address) |
                                            census.udp_inodes(self.place.client_side.address)))
            found[-1].pop("UDP socket of the device", None)
        return found

    def steady(self):
        """@return descriptors(), as soon as they stay the same for a second: a daemon may still count a process that
        has ended"""
        seen = [self.descriptors()]

        def again():
            time.sleep(1)
            seen.append(self.descriptors())
            return seen[-1] == seen[-2]
        if not harness.until(PATIENCE_S, again):
            raise Failure(f"descriptors come and go: {seen}")
        return seen[-1]

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
        if code is None or cm.pings(client) != PINGS:
            raise Failure(f"the client gets {cm.pings(client)} of {PINGS} answers (exit code {code}): "
                          f"{client.output()}")

    def settle(self, *but):
        """Wait until no connection is left, `but` in these states, and have a new client connect."""
        if not harness.until(PATIENCE_S, lambda: self.place.has_none(*but)):
            raise Failure(f"the server keeps connections: {self.place.states()}")
        if self.place.connections():
            self.place.server.kill()
            self.place.start_server()
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
        self.settle(*(TOLD if how == "kill" else ()))

    def server(self, point, how):
        self.place.server.kill()
        lives = self.place.try_server(point) and not point.startswith("cm_records")  # those come before it listens
        client = self.place.client(PINGS, "-v") if lives else None
        self.reached(self.place.server, how)
        if how == "stop":
            self.other.works()
            os.kill(self.place.server.pid, signal.SIGCONT)
            if not harness.until(PATIENCE_S, self.place.listens):
                raise Failure("the server does not listen when it goes on")
            self.ends_well(client or self.place.client(PINGS, "-v"))
        else:
            if client and client.wait(PATIENCE_S) is None:
                raise Failure("the client does not notice that the server is gone")
            self.place.start_server()
        self.settle()

    # ---- in the daemon ----

    def daemon(self, when, point, how):
        place = self.place
        side = place.server_side if when in ("REFUSE", "GIVE_UP") else place.client_side
        libraries = mesh.libraries(True)
        daemon = cm.start_daemon(side, dict(libraries, UROCE_TEST_POINT=point), when != "RECORD")
        client = None if when == "RECORD" else getattr(self, when.lower())()
        try:
            self.reached(daemon, how)
            if how == "stop":
                time.sleep(STOP_S)
                self.undisturbed()
                os.kill(daemon.pid, signal.SIGCONT)
            else:
                cm.start_daemon(side, libraries, joins=False)
                self.other.works()
        finally:
            os.kill(place.server.pid, signal.SIGCONT)
        if when == "RECORD":
            self.ends_well(place.client(PINGS, "-v"))
        elif client.wait(PATIENCE_S) is None or (when == "REFUSE" and "_REJECTED" not in client.output()):
            raise Failure(f"the client is not told: {client.output()}")
        # If a process and its daemon are killed at once, its peers are not told (docs/connections.md): start anew.
        if how == "kill" and when in ("LOSE", "GIVE_UP"):
            place.server.kill()
            place.start_server()
        if place.server.popen.poll() is not None and place.was_rejected():
            place.start_server()
        self.settle(*(TOLD if when in ("LOSE", "GIVE_UP") else ()))

    def lose(self):
        client = self.place.client(FOREVER)
        if not harness.until(PATIENCE_S, lambda: "established" in self.place.connections()):
            raise Failure("a client does not connect")
        client.popen.kill()
        return client

    def refuse(self):
        return self.place.client(PINGS, port=UNSERVED_PORT)

    def give_up(self):
        harness.stop(self.place.server.pid)
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


def no_more(now, before):
    """Whether no process has more descriptors of a kind than it had."""
    return all(count <= had.get(kind, 0) for has, had in zip(now, before) for kind, count in has.items())


def run(tally, how, sides, env, chosen):
    points, name = None, how
    try:
        points = Points([PointsSide(side) for side in sides], env)
        points.settle()
        before = points.steady()
        for role, when, point in chosen:
            for what in ("kill", "stop"):
                name = f"{what} at {point} as {role}, {how}"
                if role == "daemon":
                    points.daemon(when, f"{point}:{what}", what)
                else:
                    getattr(points, role)(f"{point}:{what}", what)
                tally.result(name, True)
        name = f"nothing is left in the others and the daemons, {how}"
        tally.result(name, harness.until(PATIENCE_S, lambda: no_more(points.descriptors(), before)),
                     f"descriptors {points.descriptors()}; before {before}")
    except Failure as failure:
        tally.result(name, False, str(failure), points.place.server.output() if points else "")
    finally:
        harness.kill_leftovers()


def main():
    args = harness.options(__doc__, *harness.EVERY, ("--point", "run only this point", ""))
    harness.need_programs("rping")
    if args.point not in ("", *(case[2].split(":")[0] for case in cases(True))):
        sys.exit("no such point")
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
