#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's perftest, unmodified, over uroce: operations x bandwidth/latency x services x sizes x QPs x events x MTU.

By default every combination of (program, service, QPs, polling or events, direction) runs once, with the path MTUs
taking turns, and every (program, service) runs at every MTU. --full runs the whole cross product. --veth and --ethdev
run a subset between two network namespaces, over the kernel's UDP sockets and over DPDK's AF_PACKET driver.

perftest does not look at the data it moves; the verify test does.
"""
import itertools
import queue
import re
import threading

import harness

MTUS = [256, 512, 1024, 2048, 4096]
ROW = re.compile(r"^\s*(\d+)\s+\d+\s+[\d.]+.*$", re.M)
ALL_SIZES = 23  # 2 B to 8 MiB
SECONDS = 90

# operation, connection, more options, whether -e exists
KINDS = [("write", "RC", "", False), ("write", "UC", "", False), ("read", "RC", "", True), ("send", "RC", "", True),
         ("send", "UC", "", True), ("send", "UD", "", True), ("atomic", "RC", "-A CMP_AND_SWAP", True),
         ("atomic", "RC", "-A FETCH_AND_ADD", True)]


class Case:
    def __init__(self, operation, connection, more, form, mtu, qps=1, events=False, both=False, srq=False):
        self.program = f"ib_{operation}_{form}"
        self.connection, self.mtu, self.qps, self.srq, self.form = connection, mtu, qps, srq, form
        self.all_sizes = operation != "atomic" and (qps == 1 or mtu >= 1024)
        self.options = ["-F", "-c", connection, "-m", str(mtu), *more.split()]
        if form == "bw":
            # Every size up to 8 MiB is sent: few iterations move enough.
            self.options += ["-q", str(qps), "-n", "5" if self.all_sizes else "100"]
            if not self.all_sizes and operation != "atomic":
                self.options += ["-s", str(mtu if connection == "UD" else 65536)]
        else:
            self.options += ["-n", "20" if self.all_sizes else "200"]
        self.options += ["-a"] * self.all_sizes + ["-e"] * events + ["-b"] * both + ["--use-srq"] * srq
        self.name = " ".join([self.program] + self.options)

    def rows_expected(self):
        """Lines of results: one a size; UD stops at the MTU."""
        if not self.all_sizes:
            return 1
        return self.mtu.bit_length() - 1 if self.connection == "UD" else ALL_SIZES

    def run(self, sides):
        server = [self.program, "-p", "PORT", *self.options]
        ok, reason, *outputs = harness.run_pair(server, server + [sides[0].host], sides, SECONDS)
        if ok:
            rows = len(ROW.findall(outputs[1]))
            if rows != self.rows_expected():
                ok, reason = False, f"{rows} lines of results, {self.rows_expected()} expected"
        return ok, reason, outputs


def combinations(operation, connection, events):
    """(form, QPs, events, both directions, SRQ) that make sense for a kind."""
    for qps, event, both in itertools.product((1, 16), (False, True) if events else (False,), (False, True)):
        yield "bw", qps, event, both, False
    for event in (False, True) if events else (False,):
        yield "lat", 1, event, False, False
    if operation == "send":
        for qps, event in itertools.product((1, 16), (False, True)):
            yield "bw", qps, event, False, True
        yield "lat", 1, False, False, True


def matrix(full):
    turn, seen = 0, set()
    for operation, connection, more, events in KINDS:
        for form, qps, event, both, srq in combinations(operation, connection, events):
            plain = qps == 1 and not event and not both and not srq
            for mtu in MTUS if full or plain else [MTUS[turn % len(MTUS)]]:
                case = Case(operation, connection, more, form, mtu, qps, event, both, srq)
                if case.name not in seen:
                    seen.add(case.name)
                    yield case
            turn += not plain


def subset(mtus):
    """A case or two of each kind, for ports other than the loopback's."""
    for number, (operation, connection, more, events) in enumerate(KINDS):
        mtu = mtus[number % len(mtus)]
        yield Case(operation, connection, more, "bw", mtu)
        yield Case(operation, connection, more, "lat", mtus[(number + 1) % len(mtus)], events=events)
    yield Case("write", "RC", "", "bw", mtus[-1], qps=16)
    yield Case("read", "RC", "", "bw", mtus[-1], qps=16, events=True)
    yield Case("send", "RC", "", "bw", mtus[-1], both=True)
    yield Case("send", "RC", "", "bw", mtus[-1], qps=16, srq=True)


def run_lane(work, sides, tally, lock):
    while True:
        try:
            case = work.get_nowait()
        except queue.Empty:
            return
        ok, reason, outputs = case.run(sides)
        with lock:
            tally.result(case.name, ok, reason, *outputs)


def main():
    args = harness.options(__doc__, ("--full", "the whole cross product"), ("--veth", "between two namespaces"),
                           ("--ethdev", "between two namespaces, through DPDK's net_af_packet"),
                           ("--list", "name the cases and stop"))
    harness.need_programs("ib_write_bw", "nsenter", "unshare")
    if args.veth or args.ethdev:
        cases = list(subset([1024, 4096]))
    else:
        cases = list(matrix(args.full))
    if args.list:
        print("\n".join(case.name for case in cases))
        return
    if args.veth or args.ethdev:
        harness.need_root()
        lanes = [harness.ethdev_sides() if args.ethdev else harness.veth_sides()]
    else:
        lanes = [harness.loopback_sides(lane) for lane in range(1, 3)]
    work, lock = queue.Queue(), threading.Lock()
    tally = harness.Tally("perftest" + (" over ethdev" if args.ethdev else " over veth" if args.veth else ""))
    for case in cases:
        work.put(case)
    threads = [threading.Thread(target=run_lane, args=(work, sides, tally, lock), daemon=True)
               for sides in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.finish()


if __name__ == "__main__":
    main()
