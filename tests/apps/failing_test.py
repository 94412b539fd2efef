#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Failing calls. For each kind of call made by uroce's libraries in a process (including DPDK inside them) or by the
daemon, the first, the second, ... fails, once or from there on: tests/apps/failing. Each time an error is returned,
or the failure has no effect; the process goes on, nothing leaks, and other processes on the device are not affected.
By default some of the calls fail, with --whole all of them."""
import collections
import os
import re
import sys
import tempfile

import census
import harness
import mesh
from mesh import FIRST, SECOND, Failure, Mesh

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r"^\w+ (once|on) (\d+) ([\w-]+)")
HOWS = ("once", "on")
PARTS = ("verbs", "fabric", "cm", "alone", "daemon")
OUTCOMES = ("worked", "error", "for-good", "CRASH", "HANG", "LEAK", "WRONG")
COUNTS = 24  # offset of the count of calls in struct failing
SETTLE = 5  # seconds
# The share of all points at which a process may hold more, but at most once more when repeated; at one it always may.
SELDOM = 0.02


def kinds():
    with open(os.path.join(HERE, "failing", "kinds.def")) as f:
        return re.findall(r"^FAILING\((\w+),", f.read(), re.M)


def built(*path):
    return os.path.join(os.environ["UROCE_BUILD"], *path)


def descriptors(pid, address):
    """@return (how many descriptors a process has, without sockets of the device's port; how many such sockets)"""
    try:
        kinds = census.descriptors(pid, census.udp_inodes(address))
    except OSError:
        return 0, 0
    of_port = kinds.pop("UDP socket of the device", 0)
    return sum(kinds.values()), of_port


def fits(found, like):
    """Whether a daemon of which one call failed has as many descriptors as one of which none failed. It has a socket
    for each function number up to the highest in use. The number of a function whose join failed rests for a second,
    so one socket more is no leak."""
    return found[0] <= like[0] and found[1] <= like[1] + 1


class Sweep:
    def __init__(self, tally, args):
        self.tally, self.args = tally, args
        self.table = collections.defaultdict(collections.Counter)
        self.env = {"LD_LIBRARY_PATH": built("verbs_shim", "ibverbs", "dropin"), "UROCE_UROCED": built("pmd", "uroced"),
                    "FI_PROVIDER_PATH": built("verbs_shim", "libfabric"), "FI_PROVIDER": "uroce",
                    "LD_PRELOAD": built("tests", "apps", "libfailing.so")}
        self.addresses = 0
        self.seldom = 0

    def address(self):
        """@return an address not used before."""
        self.addresses += 1
        return f"127.{20 + os.getpid() % 70}.{1 + self.addresses // 250}.{1 + self.addresses % 250}"

    def size(self, few):
        """@return first, step, most: which calls fail."""
        return (1, self.args.every, 10000) if self.args.whole else (1, 1 + self.args.seed % 2, few)

    def count(self, what, kind, outcome):
        self.table[what, kind][outcome] += 1

    def print_table(self):
        print(f"{'':26} {'points':>7} " + " ".join(f"{outcome:>8}" for outcome in OUTCOMES))
        total = collections.Counter()
        for (what, kind), row in sorted(self.table.items()):
            total.update(row)
            print(f"{what + ' ' + kind:26} {sum(row.values()):7} " + " ".join(f"{row[o]:8}" for o in OUTCOMES))
        points = sum(total.values())
        print(f"{'all':26} {points:7} " + " ".join(f"{total[o]:8}" for o in OUTCOMES), flush=True)
        self.tally.result(f"at {self.seldom} points a process held more, but at most once more when repeated",
                          self.seldom <= max(1, SELDOM * points))

    # ---- in functions ----

    def program(self, name, what, address, few, *more, preload=()):
        """All kinds of failures in one scenario. @return whether nothing was wrong."""
        good = True
        # libfailing.so comes last: its open() does not call that of a library after it.
        env = dict(self.env, UROCE_DEVICES=address, LD_PRELOAD=":".join([*preload, self.env["LD_PRELOAD"]]))
        for kind in kinds():
            if self.args.kind not in ("", kind):
                continue
            for how in HOWS:
                first, step, most = self.size(few)
                process = harness.Process([built("tests", "apps", name), kind, how, str(first), str(step), str(most),
                                           *more], env=env)
                code = process.wait(1800)
                lines = process.output().splitlines()
                for line in lines:
                    if match := LINE.match(line):
                        self.count(what, kind, match.group(3))
                        self.seldom += "held more, but seldom" in line
                bad = [line for line in lines if re.search(r"CRASH|HANG|LEAK|WRONG", line)]
                if code != 0 or bad:
                    good = False
                    self.tally.result(f"{what}: {kind} {how}", False, f"exit code {code}", "\n".join(bad or lines[-3:]))
        return good

    def beside_others(self, name, what, few, preload=()):
        """On a device that two other processes use meanwhile; they must not be affected."""
        if not os.path.exists(built("tests", "apps", name)):
            print(f"SKIP: {what}: its library was not installed when uroce was built", flush=True)
            return
        many = Mesh()
        try:
            for index in (FIRST, SECOND):
                many.start(index)
            many.wait_talking()
            before = census.take(many)
            good = self.program(name, what, many.address, few, preload=preload)
            many.wait_undisturbed(())
            many.wait_joined()
            left = census.differences(before, census.take(many, before))
            self.tally.result(f"{what}: each failing call is returned as an error, or has no effect", good, "see above")
            self.tally.result(f"{what}: others go on, and nothing is left of it", not left, "; ".join(left))
        except Failure as failure:
            self.tally.result(f"{what}: others go on", False, str(failure))
        finally:
            many.stop()

    # ---- in the daemon ----

    def talk(self, address):
        """Two functions open the device, exchange data and close it. @return (exit code, their output)"""
        process = harness.Process([built("tests", "apps", "failing_verbs"), "malloc", "once", "1", "1", "0"],
                                  env=dict(self.env, UROCE_DEVICES=address))
        return process.wait(120), process.output()

    def keeper(self, address):
        """A function that stays. @return (the process, or None, and its output)"""
        keeper = harness.Process([built("tests", "apps", "open_device")],
                                 env=dict(self.env, UROCE_DEVICES=address, LD_PRELOAD=""))
        if not harness.until(60, lambda: "opened" in keeper.output() or keeper.popen.poll() is not None):
            keeper.kill()
            return None, "HANG"
        return (keeper, "") if keeper.popen.poll() is None else (None, keeper.output())

    def joined(self, daemon, address, like):
        """Run functions with a running daemon. @return (outcome, why, descriptors or None)"""
        outcome, why, keeper = "worked", "", None
        try:
            for _ in range(2):
                keeper, text = self.keeper(address)
                if text == "HANG":
                    return "HANG", "a function does not open", None
                if keeper:
                    break
                outcome, why = "error", text.strip()[-200:]
            code, text = self.talk(address)
            if code is None:
                return "HANG", text[-300:], None
            if code != 0:
                outcome, why = "error", text.strip()[-200:]
            if not keeper or daemon.popen.poll() is not None:
                return outcome, why, None

            harness.until(SETTLE if like else 1, lambda: like and fits(descriptors(daemon.pid, address), like))
            return outcome, why, descriptors(daemon.pid, address)
        finally:
            if keeper:
                keeper.kill()

    def daemon_point(self, kind, how, n, like):
        """Make the n-th call of the daemon fail. @return (outcome, why, calls, descriptors)"""
        address = self.address()
        with tempfile.NamedTemporaryFile(prefix="failing-") as counts:
            counts.truncate(4096)
            env = dict(self.env, UROCE_TEST_FAIL=f"{kind}:{n}:{how}", UROCE_TEST_FAIL_FILE=counts.name)
            daemon = harness.Process([built("pmd", "uroced"), "--device", address, "--foreground"], env=env)
            try:
                harness.until(5, lambda: daemon.popen.poll() is not None or
                              any(name == f"@uroce/{address}" and listening for name, listening in mesh.unix_names()))
                found = None
                if daemon.popen.poll() is None:
                    outcome, why, found = self.joined(daemon, address, like)
                else:
                    outcome, why = "error", daemon.output().strip()
                    if not why:
                        outcome, why = "WRONG", "the daemon does not start, and gives no reason"
                with open(counts.name, "rb") as f:
                    calls = int.from_bytes(f.read(COUNTS + 8)[COUNTS:], sys.byteorder)
                if (daemon.popen.poll() or 0) < 0:
                    outcome, why = "CRASH", f"the daemon: {daemon.popen.poll()}, {daemon.output()[-300:]}"
                if outcome.isupper():
                    return outcome, why, calls, found
                if how == "on":
                    daemon.kill()
                code, text = self.talk(address) if outcome == "error" or how == "on" else (0, "")
                if code != 0:
                    return "WRONG", f"later: {text[-300:]}", calls, found
                if like and how == "once" and found and not fits(found, like):
                    return "LEAK", f"(descriptors, sockets of the port): {found}; {like} if nothing fails", calls, found
                return outcome, why, calls, found
            finally:
                daemon.kill()

    def daemon(self, few):
        _, why, _, like = self.daemon_point("malloc", "once", 1 << 40, None)
        self.tally.result("daemon: nothing fails", bool(like), why)
        good = bool(like)
        for kind in kinds():
            if self.args.kind not in ("", kind):
                continue
            for how in HOWS:
                first, step, most = self.size(few)
                for n in range(first, first + step * most, step):
                    outcome, why, calls, _ = self.daemon_point(kind, how, n, like)
                    if calls < n and not outcome.isupper():
                        break
                    self.count("daemon", kind, outcome)
                    if outcome.isupper() or self.args.verbose:
                        good = good and not outcome.isupper()
                        print(f"     | daemon: {kind} {how} {n}: {outcome}; {why}", flush=True)
        self.tally.result("daemon: each failing call is an error to the caller, or has no effect", good, "see above")


def main():
    args = harness.options(__doc__, ("--whole", "each call, not some of them"),
                           ("--every", "with --whole, only each Nth call", 1),
                           ("--kind", "only calls of this kind", ""),
                           ("--only", f"only this part: {', '.join(PARTS)}", ""),
                           ("--seed", "of which calls", 1),
                           ("--verbose", "print the outcome of each call in the daemon"))
    if args.only not in ("", *PARTS) or args.kind not in ("", *kinds()):
        sys.exit(f"--only is one of {', '.join(PARTS)}; --kind one of {', '.join(kinds())}")
    tally = harness.Tally("failing")
    sweep = Sweep(tally, args)
    if args.only in ("", "verbs"):
        sweep.beside_others("failing_verbs", "verbs", 8)
    if args.only in ("", "fabric"):
        sweep.beside_others("failing_fabric", "fabric", 3)
    if args.only in ("", "cm"):
        sweep.beside_others("failing_cm", "cm", 2, [built("verbs_shim", "sysfs", "liburoce-sysfs.so")])
    if args.only in ("", "alone"):
        good = sweep.program("failing_verbs", "alone", "127.0.0.1", 2, "alone")
        tally.result("alone: each failing call of the process that starts the daemon is an error, or has no effect",
                     good, "see above")
    if args.only in ("", "daemon"):
        sweep.daemon(2)
    sweep.print_table()
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
