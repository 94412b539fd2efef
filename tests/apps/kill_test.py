#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a device that die or stop while they exchange data: at random moments, and at each point of
pmd/base/points.def but those of the connection manager (cm_points_test.py). The survivors get errors in finite time and
go on with each other, and nothing leaks."""
import collections
import os
import random
import re
import signal
import sys
import time

import census
import mesh
import harness
from mesh import CLIENT, FIRST, SECOND, SERVER, VISITOR, Mesh, Failure, wait_for

STAY_S = 1.5  # a link that is not taken is given up after 0.5 s; retries with mesh.FRAIL then last up to 0.5 s
FAIL_S = 1  # for a thread's next call after it has passed a point
REFUSED_S = 1.1  # after this a link that was given up is tried again
DAEMON = ("START", "ADOPT", "EACH", "ADMIT", "RELEASE", "LEAVE")
with open(os.path.join(harness.ROOT, "tests", "apps", "failing", "kinds.def")) as kinds_def:
    KINDS = re.findall(r"^FAILING\((\w+),", kinds_def.read(), re.M)
# members serve no ports (see test_pmd_service_points) and have no connections of the CM (see cm_points_test)
ELSEWHERE = ("SERVE", "UNSERVE", "MANAGE", "RECORD", "LOSE", "REFUSE", "GIVE_UP")


def points():
    """@return [(name, when)]"""
    return [(name, when) for name, when in mesh.points() if when not in ELSEWHERE]


def settled(many, like=None):
    """Bring a mesh to a state where all members but the visitor talk. @return its resources, as census.take."""
    for index in (SERVER, FIRST, SECOND, CLIENT):
        if index not in many.processes:
            many.start(index)
    many.wait_talking()
    many.have_daemon()
    many.wait_talking()
    if VISITOR in many.processes:
        many.close(VISITOR)
    many.settle()
    return census.take(many, like)


def series(tally, name, many, rounds, one_round):
    """Run a round many times, and check that nothing is left afterwards."""
    started, done = time.monotonic(), 0
    try:
        before = settled(many)
        for done in range(rounds):
            one_round(done)
            many.check()
        done = rounds
        after = settled(many, before)
    except Failure as failure:
        tally.result(f"{name}, {done + 1} of {rounds}", False, str(failure))
        return
    finally:
        many.stop()
    seconds = time.monotonic() - started
    tally.result(f"{name}: {rounds} times in {seconds:.0f} s, others go on", True)
    left = census.differences(before, after)
    tally.result(f"{name}: nothing is left", not left, "; ".join(left))


# ---- at random moments --------------------------------------------------------------------------------------


def killed(many, rng, victims):
    """@return a round in which the victims die at a random moment, and new processes take their places."""
    def one_round(number):
        time.sleep(rng.random() * 0.02)
        many.kill(*victims)
        for index in victims:
            many.start(index)
        if number % 4 == 3:  # and kill one that has only just started
            time.sleep(rng.random() * 0.06)
            many.kill(*victims)
            for index in victims:
                many.start(index)
        many.wait_talking()
    return one_round


def daemon_killed(many, rng):
    """@return a round in which the daemon dies at a random moment, and a visitor then opens the device."""
    def one_round(number):
        time.sleep(rng.random() * 0.02)
        many.kill_daemon()
        many.wait_undisturbed((VISITOR,), 1)
        many.start(VISITOR)
        if number % 4 == 3:  # before or while it takes over the surviving processes
            pid = wait_for(many.daemon_pid, "there is a daemon again")
            time.sleep(rng.random() * 0.005)
            os.kill(pid, signal.SIGKILL)
        many.wait_talking()
        for a in (SERVER, FIRST, SECOND, CLIENT):
            for b in (SERVER, FIRST, SECOND, CLIENT):
                if a != b and many.members[a].peer(b, "connections") != 1:
                    raise Failure(f"members {a} and {b} had to connect again")
        many.close(VISITOR)
    return one_round


def at_random(tally, seed, rounds, env, how):
    rng = random.Random(f"{seed} {rounds}")
    for name, victims in (("client", [CLIENT]), ("server", [SERVER]), ("both", [SERVER, CLIENT])):
        many = Mesh(env=env)
        series(tally, f"kill -9 {name}{how}", many, rounds, killed(many, rng, victims))
    many = Mesh(env=env)
    series(tally, f"kill -9 uroced{how}", many, rounds, daemon_killed(many, rng))


# ---- with work queued ----------------------------------------------------------------------------------------


def programs():
    """@return programs that end with work queued; one of them is only built with libfabric."""
    if os.path.exists(os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "libfabric", "liburoce-fi.so")):
        return ["cross_deaths", "fabric_deaths"]
    print("SKIP fabric_deaths: built without libfabric", flush=True)
    return ["cross_deaths"]


def works(args):
    """@return [(program, variables, how)]: each program over links and over UDP; with --every, over one of them, the
    other one the next day"""
    ports = ({}, ""), ({"UROCE_RING": "off"}, ", over UDP")
    first = args.first if args.first >= 0 else int(time.time() // 86400) % max(args.every, 1)
    if args.every > 1:
        print(f"only some cases: --every {args.every} --first {first}", flush=True)
    return [(program, *ports[k]) for i, program in enumerate(programs()) for k in range(2)
            if args.every <= 1 or k == (first + i) % 2]


def with_work(tally, program, env, how):
    """Processes end while NICs have queued work from them or for them: run by a separate program, on the device of a
    mesh whose members must not notice."""
    path = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", program)
    many = Mesh(env=env)
    name = f"{program}{how}"
    try:
        before = settled(many)
        process = harness.Process([path], harness.Side(many.address), env)
        code = process.wait(600)
        tally.cases(name, code, process.output())
        many.wait_undisturbed(())
        left = census.differences(before, settled(many, before))
        tally.result(f"{name}: nothing is left", not left, "; ".join(left))
    except Failure as failure:
        tally.result(f"{name}: others go on", False, str(failure))
    finally:
        many.stop()


# ---- at each point ------------------------------------------------------------------------------------------


class Points:
    """One point after the other, in one mesh whose third parties stay the same; points that a daemon passes before a
    process has its device are run in a second one. At a point a process is to

      kill   die
      stop   stop, and continue while all other processes still wait for it
      stay   stop for longer than retries last, and continue
      fail   have its thread's next call fail, whatever it is (tests/apps/failing): it goes on, or ends with an error
    """

    def __init__(self, tally, rng, hows, frail, both, at):
        self.tally, self.rng, self.hows, self.both = tally, rng, hows, both
        self.many, self.second = Mesh(points=True, frail=frail), Mesh(points=True)
        self.points = at
        self.failed = False
        self.outcomes = collections.Counter()

    def count(self, when):
        """@return the pass of the point at which it is to happen."""
        passes = {"FLOW": self.rng.choice((1, 2, 10, 100)), "MEET": self.rng.randrange(1, 4),
                  "IDLE": self.rng.randrange(1, 3), "EACH": self.rng.randrange(1, 4)}
        return passes.get(when, 1)

    def await_failure(self, many, process):
        """Wait until a call has failed; a thread may also make no call after its point."""
        end = time.monotonic() + FAIL_S
        while not many.failed_kind() and process.popen.poll() is None and time.monotonic() < end:
            time.sleep(0.002)

    def drop_ended(self, many):
        """Remove members that have ended with the failing call's error, or wait until the daemon has all."""
        def decided():
            live = many.live()
            return all(p.popen.poll() is not None or p.pid in live for p in many.processes.values())
        wait_for(decided, "each member has joined, or ended")
        for index in (SERVER, CLIENT, VISITOR):
            process = many.processes.get(index)
            if process and process.popen.poll() == 1 and process.output().strip():
                many.gone(index, 1)

    def outcome(self, many, process):
        """Check the effect of a failed call. @return whether the process lives."""
        kind, code = many.failed_kind(), process.popen.poll()
        if code is not None and (code < 0 or (code > 0 and not process.output().strip())):
            raise Failure(f"ended with {code} when {KINDS[kind - 1] if kind else 'nothing'} failed: "
                          f"{process.output().strip()[-300:]}")
        self.outcomes["no call" if not kind else "an error" if code else "went on"] += 1
        return code is None

    def await_point(self, many, process, how):
        """Wait until the process has died or stopped at its point."""
        if how == "fail":
            self.await_failure(many, process)
            return

        def there():
            code = process.popen.poll()
            if code is not None and (how != "kill" or code != -signal.SIGKILL):
                raise Failure(f"ended with {code} instead: {process.output().strip()[-300:]}")
            return code is not None or mesh.is_stopped(process.pid)
        wait_for(there, "the point is passed", 30)
        if how == "kill":
            process.wait(1)

    def go_on(self, process):
        os.kill(process.pid, signal.SIGCONT)

    def member(self, index, when, point, how):
        """Run the point in a member that opens the device, talks, or closes it."""
        many = self.many
        if index in many.processes:
            many.kill(index)
        if when == "SPAWN":
            many.kill_daemon()
        victim = many.start(index, point)
        if when in ("IDLE", "PART", "CLOSE", "SERVED"):
            many.wait_talking(without=(VISITOR,), batches=10)
        if when == "PART":
            many.kill(CLIENT if index == SERVER else SERVER)
        elif when == "IDLE":
            many.hush(True)
        elif when == "CLOSE":
            os.kill(victim.pid, signal.SIGTERM)
        elif when == "SERVED":
            many.kill_daemon()
            many.start(VISITOR)
        self.await_point(many, victim, how)
        many.hush(False)
        many.wait_undisturbed((index, VISITOR) if how != "stay" else (SERVER, CLIENT, VISITOR))
        if how == "fail":
            wait_for(lambda: victim.popen.poll() is not None or victim.pid in many.live(), "it has joined, or ended")
        if how == "kill" or (how == "fail" and not self.outcome(many, victim)):
            many.processes.pop(index).wait(1)
            return
        if how == "fail":
            if when == "CLOSE":
                many.gone(index, 0)
            return
        if how == "stay":
            time.sleep(STAY_S)
            many.wait_undisturbed((SERVER, CLIENT, VISITOR))
        elif VISITOR not in many.processes and when != "SPAWN":
            many.start(VISITOR)
            many.wait_talking(without=(index,))
        self.go_on(victim)
        if when == "CLOSE":
            many.gone(index, 0)

    def daemon(self, when, point, how):
        """Run the point in a daemon that takes over a device in use, and have a process join or leave."""
        many = self.many
        many.kill_daemon()
        daemon = many.start_daemon(point)
        if when == "RELEASE":
            many.wait_joined()
            many.kill(CLIENT)
        elif when == "ADMIT":
            many.start(VISITOR)
        self.await_point(many, daemon, how)
        many.wait_undisturbed((VISITOR, CLIENT))
        if how == "fail":
            self.outcome(many, daemon)
        if VISITOR not in many.processes:
            many.start(VISITOR)
        if how == "stop":
            self.go_on(daemon)

    def lone_daemon(self, when, point, how):
        """Run the point in a daemon of an unused device."""
        alone = self.second
        alone.stop()
        wait_for(alone.is_idle, "the second device is closed", 30)
        daemon = alone.start_daemon(point)
        if when == "LEAVE":
            wait_for(lambda: mesh.ask_daemon(alone.address, "leave") is not None, "the daemon listens")
        self.await_point(alone, daemon, how)
        if how == "fail":
            self.outcome(alone, daemon)
        alone.start(SERVER)
        alone.start(CLIENT)
        if how == "stop":
            self.go_on(daemon)
        alone.wait_talking()

    def one(self, name, when, how, index):
        point = f"{name}:{self.count(when)}:{'stop' if how == 'stay' else how}"
        role = f" as {'server' if index == SERVER else 'client'}" if index is not None else ""
        try:
            if when in ("START", "LEAVE"):
                self.lone_daemon(when, point, how)
            elif when in ("ADOPT", "EACH", "ADMIT", "RELEASE"):
                self.daemon(when, point, how)
            else:
                self.member(index, when, point, how)
            if how == "fail":
                self.many.have_daemon()
                self.drop_ended(self.many)
            for missing in {SERVER, CLIENT} - set(self.many.processes):
                self.many.start(missing)
            self.many.wait_talking()
            self.many.have_daemon()
            self.many.wait_talking()
            self.many.wait_joined()
            if VISITOR in self.many.processes:
                self.many.close(VISITOR)
        except Failure as failure:
            self.failed = True
            self.tally.result(f"{how} at {point}{role}", False, str(failure))

    def all(self):
        for name, when in self.points:
            if when in DAEMON and self.hows == ("stay",):
                continue
            roles = [None] if when in DAEMON else [SERVER, CLIENT]
            if "kill" not in self.hows and not self.both:  # these take seconds for each point
                roles = [self.rng.choice(roles)]
            for how in self.hows:
                for index in roles:
                    self.one(name, when, how, index)
                    if self.failed:
                        return
            self.tally.result(f"{', '.join(self.hows)} at {name}", True)

    def run(self):
        try:
            before = settled(self.many)
            self.all()
            if self.failed:
                return
            # A stopped process may not have accepted its links, which are then given up: restarted members have all of
            # theirs.
            for index in {SERVER, CLIENT} & set(self.many.processes):
                self.many.kill(index)
            if "fail" in self.hows:  # the daemon needs the failing library and its file
                self.many.kill_daemon()
            time.sleep(REFUSED_S)
            left = census.differences(before, settled(self.many, before))
            if self.outcomes and not self.both:
                counts = ", ".join(f"{how}: {n}" for how, n in sorted(self.outcomes.items()))
                self.tally.result(f"fail at points: calls have failed ({counts})",
                                  self.outcomes["went on"] + self.outcomes["an error"] > self.outcomes["no call"],
                                  counts)
            self.tally.result(f"{', '.join(self.hows)} at points: nothing is left", not left, "; ".join(left))
        finally:
            self.many.stop()
            self.second.stop()


def main():
    args = harness.options(__doc__, ("--rounds", "how often each is killed at random moments", 200),
                           ("--udp-rounds", "the same over UDP", 20),
                           ("--only", "run only the part of this name: random, udp, work or points", ""),
                           *harness.EVERY,  # which of the points
                           ("--point", "run only this point", ""),
                           ("--how", "only kill and stop, only stay, or only fail", ""),
                           ("--seed", "of all that is random (default: another one each day)", 0))
    seed = args.seed or int(time.time() // 86400)
    print(f"--seed {seed}", flush=True)
    tally = harness.Tally("kill")
    if args.only in ("", "random"):
        at_random(tally, seed, args.rounds, {}, "")
    if args.only in ("", "udp"):
        at_random(tally, seed, args.udp_rounds, {"UROCE_RING": "off"}, ", over UDP")
    if args.only in ("", "work"):
        for program, env, how in works(args):
            with_work(tally, program, env, how)
    if args.only in ("", "points"):
        rng = random.Random(seed)
        for hows, frail in ((("kill", "stop"), mesh.TIMEOUT), (("stay",), mesh.FRAIL), (("fail",), mesh.TIMEOUT)):
            if hows == ("fail",) and not os.path.exists(mesh.failing_library()):
                print("SKIP fail at points: built with a sanitizer, without libfailing.so", flush=True)
            elif args.how in ("", *hows):
                if args.point:
                    at = [(name, when) for name, when in points() if name == args.point]
                else:
                    at = harness.turn(args, points())
                Points(tally, rng, hows, frail, bool(args.point), at).run()
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
