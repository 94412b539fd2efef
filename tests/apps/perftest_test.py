#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's perftest, unmodified, over uroce: operations x bandwidth/latency x services x sizes x QPs x events x MTU.

By default every combination of (program, service, QPs, polling or events, direction) runs once, with alternating
path MTUs, and every (program, service) but XRC runs at every MTU; a quarter of the runs goes through all sizes from
2 B to 8 MiB, the others use one. --full runs the whole cross product. Both programs are on one device, and talk through
shared memory; with --udp they talk through the kernel's UDP. --mixed, --veth and --ethdev run a subset: next to a
pair in two network namespaces, between two namespaces over the kernel's UDP sockets, and over DPDK's AF_PACKET
driver.

perftest does not check the data it moves; the verify test does.
"""
import concurrent.futures
import functools
import itertools
import os
import queue
import re
import socket
import subprocess
import threading
import time

import harness

MTUS = [256, 512, 1024, 2048, 4096]
# perftest prints inf where it finds no frequency of the CPU: seen in an emulated machine on a busy host.
ROW = re.compile(r"^\s*(\d+)\s+\d+\s+(?:[\d.]+|inf).*$", re.M)
ALL_SIZES = 23  # 2 B to 8 MiB
SECONDS = 90

# operation, connection, more options, whether -e exists
KINDS = [("write", "RC", "", False), ("write", "UC", "", False), ("read", "RC", "", True), ("send", "RC", "", True),
         ("send", "UC", "", True), ("send", "UD", "", True), ("atomic", "RC", "-A CMP_AND_SWAP", True),
         ("atomic", "RC", "-A FETCH_AND_ADD", True)]


SIZES = [2, 1000, 65536, 1048576]  # used in turn by runs of one size
BURST = 64 << 20  # a run of one size moves about this many bytes at most
RECEIVE_BUFFER = 128 << 20  # what uroce asks for (pmd/proto/udp_socket.c)
SO_RCVBUFFORCE = 33


@functools.cache
def version():
    """@return that of the programs: 6.06 of Debian 12's package 4.5, 6.24 of Debian 13's 25.01"""
    said = subprocess.run(["ib_send_bw", "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False).stdout
    return float(re.search(r"Version: (\d+\.\d+)", said)[1])


class Case:
    def __init__(self, operation, connection, more, form, mtu, qps=1, events=False, both=False, srq=False,
                 all_sizes=True, turn=0):
        self.program = f"ib_{operation}_{form}"
        self.connection, self.mtu = connection, mtu
        # perftest 25 posts receive requests anew for each size, beside those that are left in the SRQ.
        self.all_sizes = all_sizes and operation != "atomic" and not (srq and connection == "UD" and version() >= 6.2)
        self.spins = form == "lat"
        # SENDs without acknowledgement may be lost when they come faster than the receiver posts buffers or empties its
        # socket, and perftest then waits for them forever, on every NIC. Such a run is tried up to three times.
        acknowledged = connection not in ("UC", "UD")
        self.lossy = not acknowledged and operation == "send"
        self.options = ["-F", "-c", connection, "-m", str(mtu), *more.split()]
        large = qps == 1 or (acknowledged and not srq)
        size = min(SIZES[turn % len(SIZES)], mtu if connection == "UD" else 1 << 20 if large else 65536)
        # With an SRQ perftest requires a receive depth above the number of QPs, and the depth is at most the
        # iterations.
        iterations = 200 if form == "lat" else 100
        if self.all_sizes:  # up to 8 MiB: few iterations move enough data
            self.options += ["-a"]
            iterations = 20 if form == "lat" else max(5, 2 * qps) if srq else 5
        elif operation != "atomic":
            self.options += ["-s", str(size)]
            burst = BURST if acknowledged else BURST >> 3
            iterations = max(5, min(iterations, burst // (size * qps)))
            if srq:
                iterations = max(iterations, 2 * qps)
        # Bytes that a UC sender may send before the receiver has read any, where the receiver waits for all of them. A
        # latency program waits for each answer.
        waits = connection == "UC" and (operation == "send" or form == "lat")
        at_once = 1 if form == "lat" else iterations * qps
        self.flood = 0 if not waits else 8 << 20 if self.all_sizes else size * at_once
        self.options += ["-n", str(iterations)] + ["-q", str(qps)] * (form == "bw")
        self.options += ["-e"] * events + ["-b"] * both + ["--use-srq"] * srq
        self.name = " ".join([self.program] + self.options)

    def rows_expected(self):
        """Lines of results: one for each size; UD stops at the MTU."""
        if not self.all_sizes:
            return 1
        return self.mtu.bit_length() - 1 if self.connection == "UD" else ALL_SIZES

    def run(self, sides):
        server = [self.program, "-p", "PORT", *self.options]
        ok, reason, *outputs = harness.run_pair(server, server + [sides[0].host], sides, SECONDS)
        if ok:
            rows = len(ROW.findall(outputs[1]))
            if rows != self.rows_expected():
                others = [line for line in outputs[1].splitlines() if line.strip()[:1].isdigit()
                          and not ROW.match(line)]
                ok, reason = False, f"{rows} lines of results, {self.rows_expected()} expected {others}"
        return ok, reason, outputs


def combinations(operation, connection, events):
    """@return (form, QPs, events, both directions, SRQ) that make sense for a kind."""
    for qps, event, both in itertools.product((1, 16), (False, True) if events else (False,), (False, True)):
        yield "bw", qps, event, both, False
    for event in (False, True) if events else (False,):
        yield "lat", 1, event, False, False
    if operation == "send":
        # Many QPs overrun one SRQ; without RNR NAKs perftest then waits for dropped messages.
        for qps, event in itertools.product((1, 16) if connection == "RC" else (1,), (False, True)):
            yield "bw", qps, event, False, True
        yield "lat", 1, False, False, True


def matrix(full):
    turn, seen = 0, set()
    for operation, connection, more, events in KINDS:
        for form, qps, event, both, srq in combinations(operation, connection, events):
            special = (qps > 1) + event + both + srq
            for mtu in MTUS if full or not special else [MTUS[turn % len(MTUS)]]:
                # perftest takes 5 s to go through all sizes, whatever the device is.
                every_size = full or (mtu in (1024, 4096) if not special else special == 1 and turn % 2 == 0)
                case = Case(operation, connection, more, form, mtu, qps, event, both, srq, every_size, turn)
                turn += 1
                if case.name not in seen:
                    seen.add(case.name)
                    yield case
    # XRC: its QPs always receive from an SRQ.
    for operation, more, events in (("write", "", False), ("read", "", True), ("send", "", True),
                                    ("atomic", "-A CMP_AND_SWAP", True)):
        for form in ("bw", "lat"):
            yield Case(operation, "XRC", more, form, MTUS[turn % len(MTUS)], events=events and form == "lat",
                       all_sizes=False, turn=turn)
            turn += 1


def subset(mtus):
    """A case or two of each kind, for ports other than the loopback's."""
    for number, (operation, connection, more, events) in enumerate(KINDS):
        mtu = mtus[number % len(mtus)]
        yield Case(operation, connection, more, "bw", mtu)
        yield Case(operation, connection, more, "lat", mtus[(number + 1) % len(mtus)], events=events, all_sizes=False,
                   turn=number)
    for number, special in enumerate(({"qps": 16}, {"qps": 16, "events": True}, {"both": True},
                                      {"qps": 16, "srq": True})):
        yield Case("send", "RC", "", "bw", mtus[-1], all_sizes=False, turn=number, **special)


def run_lane(work, sides, tally, lock):
    while True:
        try:
            case = work.get_nowait()
        except queue.Empty:
            return
        started = time.monotonic()
        tries = 1
        ok, reason, outputs = case.run(sides)
        while not ok and case.lossy and tries < 3:
            tries += 1
            ok, reason, outputs = case.run(sides)
        with lock:
            again = f", try {tries}" if tries > 1 else ""
            tally.result(f"{case.name} ({time.monotonic() - started:.1f} s{again})", ok, reason, *outputs)


def run_all(cases, lanes, tally):
    work, lock = queue.Queue(), threading.Lock()
    for case in cases:
        work.put(case)
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        try:
            running = [pool.submit(run_lane, work, sides, tally, lock) for sides in lanes]
            for lane in concurrent.futures.as_completed(running):
                lane.result()  # raises what ended the lane
        except BaseException:
            work.queue.clear()  # the other lanes end with the case that they run
            raise


def receive_buffer():
    """@return the bytes of the buffer that a socket gets if it asks as uroce does"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        except PermissionError:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        return probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def fitting(cases):
    """@return the cases whose floods fit into a socket's receive buffer. The kernel charges a packet up to four times
    its size."""
    room = receive_buffer()
    for case in cases:
        if case.flood * 4 > room:
            print(f"SKIP {case.name}: a socket's receive buffer has {room} bytes only (net.core.rmem_max)", flush=True)
    return [case for case in cases if case.flood * 4 <= room] or harness.skip("no case fits into a receive buffer")


def main():
    args = harness.options(__doc__, ("--full", "the whole cross product"), ("--veth", "between two namespaces"),
                           ("--ethdev", "between two namespaces, through DPDK's net_af_packet"),
                           ("--udp", "through the kernel's UDP, not through shared memory"),
                           ("--mixed", "on one device, next to another pair between two namespaces"),
                           *harness.EVERY,
                           ("--only", "only cases whose name contains this", ""),
                           ("--list", "list the cases and exit"),
                           ("--lanes", "pairs of processes at a time; one pair keeps two cores busy (default 2)", 2))
    harness.need_programs("ib_write_bw", "nsenter", "unshare")
    if args.veth or args.ethdev:
        cases = list(subset([1024, 4096]))
    elif args.mixed:
        cases = [case for case in subset([1024, 4096]) for _ in range(2)]
    else:
        cases = list(matrix(args.full))
    cases = harness.turn(args, [case for case in cases if args.only in case.name])
    if args.list:
        print("\n".join(case.name for case in cases))
        return
    os.environ["UROCE_RING"] = "off" if args.udp else "on"
    if args.udp:
        cases = fitting(cases)
    if args.veth or args.ethdev or args.mixed:
        harness.need_root()
        lanes = (harness.mixed_sides() if args.mixed
                 else [harness.ethdev_sides() if args.ethdev else harness.veth_sides()])
    else:
        sides = harness.loopback_sides if args.udp else harness.one_device_sides
        lanes = [sides(lane) for lane in range(args.lanes)]
    how = [name for name in ("udp", "veth", "ethdev", "mixed") if getattr(args, name)]
    tally = harness.Tally(" over ".join(["perftest"] + how))
    # Latency programs spin on both sides: next to another pair they would wait for time slices, not for packets.
    run_all([case for case in cases if not case.spins], lanes, tally)
    run_all([case for case in cases if case.spins], lanes if args.mixed else lanes[:1], tally)
    tally.finish()


if __name__ == "__main__":
    main()
