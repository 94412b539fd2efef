# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench compares, in the order of its table: uroce with raw limits and peers, and the targets.

All sources of a comparison are measured in every round, so a ratio compares measurements that were made close
together.
"""
import os

from measure import MIB, Atomics, Collective, Connects, Fabric, OurFabric, OurUcx, Perftest, Program, \
    Testpmd, Ucx

SHM, RXM, RXD = "libfabric shm", "libfabric tcp;ofi_rxm", "libfabric udp;ofi_rxd"
POSIX, UCX_TCP = "UCX posix", "UCX tcp"
SOCKETS, CALL = "libfabric sockets", "by a call"
RING, PIPE = "raw ring", "memcpy pipe"
RAW_UDP, RAW_TCP = "raw UDP", "TCP"
KEYLESS = "without a key"


class Target:
    """A limit for our figure, or for its ratio to the source labelled `against`. at_most: an upper limit, else a
    lower one."""

    def __init__(self, bound, at_most=True, against=None):
        self.bound, self.at_most, self.against = bound, at_most, against

    def met(self, figure):
        return figure <= self.bound if self.at_most else figure >= self.bound

    def __str__(self):
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"


def at_most(bound, against=None):
    return Target(bound, True, against)


def at_least(bound, against=None):
    return Target(bound, False, against)


class Comparison:
    """sources: ours first. size: for the plots' comparisons, which are drawn and not printed."""

    def __init__(self, section, name, unit, sources, targets=(), size=None):
        self.section, self.name, self.unit, self.size = section, name, unit, size
        self.sources, self.targets = sources, targets


def send_lat(size=8, iterations=100000, label="uroce", **more):
    return Perftest(label, "ib_send_lat", size, iterations, **more)


def ucx_tag_lat(label, transports, size=8, iterations=20000):
    return Ucx(label, transports, "tag_lat", size, iterations, "us")


def ring_one_way(placement="free"):
    return Program(RING, ["ring_raw", "rtt", 8], 400000, placement, factor=0.5)


def eventfd_one_way(placement="free"):
    return Program("eventfds", ["eventfd_raw", "rtt", 8], 20000, placement, factor=0.5)


def latencies():
    section = "latency, same host"
    placed = {"free": "", "apart": ", two CPUs", "together": ", one CPU"}
    for placement, words in placed.items():
        sources = [send_lat(placement=placement), ring_one_way(placement)]
        targets = [at_most(3, RING)]
        if placement == "free":
            targets.append(at_most(0.5))
            sources += [ucx_tag_lat(POSIX, "posix", iterations=200000),
                        Fabric(SHM, "shm", "rtt", 8, 200000, factor=0.5), ucx_tag_lat(UCX_TCP, "tcp"),
                        Fabric(RXM, "tcp;ofi_rxm", "rtt", 8, 20000, factor=0.5),
                        Program(RAW_TCP, ["tcp_raw", "rtt", 8], 20000, factor=0.5)]
        yield Comparison(section, f"SEND 8 B, one way{words}", "us", sources, targets)
    for placement, words in placed.items():
        yield Comparison(section, f"SEND 8 B, sleeping (-e), one way{words}", "us",
                         [send_lat(iterations=10000, placement=placement, more=["-e"]), eventfd_one_way(placement)],
                         [at_most(1.3, "eventfds")])
    # The target spins on memory and never polls: only the engine's thread can serve it.
    spare = (os.cpu_count() or 1) >= 4
    yield Comparison(section, "WRITE 8 B, one way", "us",
                     [Perftest("uroce", "ib_write_lat", 8, 20000 if spare else 2000), ring_one_way(),
                      Ucx(POSIX, "posix", "ucp_put_lat", 8, 200000, "us")], [at_most(0.7 if spare else 15)])
    yield Comparison(section, "UD SEND 8 B, one way", "us", [send_lat(more=["-c", "UD"]), ring_one_way()])
    yield Comparison(section, "READ 8 B, round trip", "us",
                     [Perftest("uroce", "ib_read_lat", 8, 50000), Program(RING, ["ring_raw", "rtt", 8], 400000)])
    for name, kind, test, fi in (("FETCH_ADD", "FETCH_AND_ADD", "ucp_fadd", "fadd"),
                                 ("CMP_SWAP", "CMP_AND_SWAP", "ucp_cswap", "cswap")):
        yield Comparison(section, f"{name} 8 B, round trip", "us",
                         [Perftest("uroce", "ib_atomic_lat", 8, 50000, more=["-A", kind]),
                          Program(RING, ["ring_raw", "rtt", 8], 400000),
                          Ucx(POSIX, "posix", test, 8, 200000, "us", ["-O", "1"]),
                          Fabric(SHM, "shm", fi, 8, 100000), Ucx(UCX_TCP, "tcp", test, 8, 10000, "us", ["-O", "1"]),
                          Fabric(RXM, "tcp;ofi_rxm", fi, 8, 10000)],
                         [at_most(1.0), at_most(1.0, SHM), at_most(0.05, RXM)])


def rates():
    section = "message rate, same host"
    for name, program, more, ucx, fi, targets in (
            ("WRITE 8 B", "ib_write_bw", [], "ucp_put_bw", ("bw", 1 / 8), [at_least(5)]),
            ("SEND 8 B", "ib_send_bw", [], "tag_bw", None, []),
            ("FETCH_ADD 8 B", "ib_atomic_bw", ["-A", "FETCH_AND_ADD"], "ucp_fadd", ("fadd_rate", 1), [at_least(3)]),
            ("CMP_SWAP 8 B", "ib_atomic_bw", ["-A", "CMP_AND_SWAP"], "ucp_cswap", ("cswap_rate", 1), [at_least(3)])):
        sources = [Perftest("uroce", program, 8, 1000000, more=["-N", *more]),
                   Program(RING, ["ring_raw", "rate", 8], 4000000),
                   Ucx(POSIX, "posix", ucx, 8, 1000000, "M/s"), Ucx(UCX_TCP, "tcp", ucx, 8, 100000, "M/s")]
        if fi:
            test, factor = fi
            sources += [Fabric(SHM, "shm", test, 8, 500000, factor), Fabric(RXM, "tcp;ofi_rxm", test, 8, 50000, factor)]
        yield Comparison(section, f"{name}, rate", "M/s", sources, targets)


def write_bw(size, mib=1024, label="uroce", **more):
    # perftest's peak needs a time stamp for each message, and stores at most 20000.
    return Perftest(label, "ib_write_bw", size, max((mib << 20) // size, 20), more=["-N"], column=3, factor=MIB, **more)


def pipe(size, mib=1024):
    return Program(PIPE, ["pipe_raw", "bw", size], mib)


def bandwidths():
    section = "bandwidth, same host"
    for size, words in ((65536, "64 KiB"), (262144, "256 KiB"), (1 << 20, "1 MiB")):
        count = (1 << 30) // size
        yield Comparison(section, f"WRITE {words}", "MB/s",
                         [write_bw(size), pipe(size), Ucx(POSIX, "posix", "ucp_put_bw", size, count, "MB/s"),
                          Fabric(SHM, "shm", "bw", size, count), Ucx(UCX_TCP, "tcp", "ucp_put_bw", size, count, "MB/s"),
                          Fabric(RXM, "tcp;ofi_rxm", "bw", size, count), tcp_bw(size)], [at_least(0.7, PIPE)])
    for name, program, ucx in (("SEND", "ib_send_bw", "tag_bw"), ("READ", "ib_read_bw", "ucp_get")):
        for size, words in ((65536, "64 KiB"), (1 << 20, "1 MiB")):
            count = (1 << 30) // size
            yield Comparison(section, f"{name} {words}", "MB/s",
                             [Perftest("uroce", program, size, count, more=["-N"], column=3, factor=MIB),
                              pipe(size), Ucx(POSIX, "posix", ucx, size, count, "MB/s")], [at_least(0.7, PIPE)])


def tcp_bw(size, mib=1024):
    return Program(RAW_TCP, ["tcp_raw", "bw", size], mib)


def udp():
    """The kernel UDP port: raw datagrams are as long as ours, BTH + payload + ICRC (and DETH for UD)."""
    section = "kernel UDP port"

    def raw(size):
        return Program(RAW_UDP, ["udp_raw", "rtt", size], 20000)

    port = Program("uroce", ["udp_port", "rtt", 24], 20000, ours=True)
    yield Comparison(section, "udp port alone, round trip", "us", [port, raw(24)], [at_most(1.25, RAW_UDP)])
    for service, size in (("RC", 24), ("UD", 32)):
        yield Comparison(section, f"{service} SEND 8 B, round trip", "us",
                         [send_lat(iterations=10000, path="udp", more=["-c", service], factor=2), raw(size)],
                         [at_most(1.25, RAW_UDP)])
    for size, words in ((65536, "64 KiB"), (1 << 20, "1 MiB")):
        yield Comparison(section, f"udp port alone, {words}", "MB/s",
                         [Program("uroce", ["udp_port", "bw", size >> 10], 1024, ours=True), tcp_bw(size)],
                         [at_least(1, RAW_TCP)])
        yield Comparison(section, f"RC WRITE {words}", "MB/s", [write_bw(size, path="udp"), tcp_bw(size)],
                         [at_least(1, RAW_TCP)])


def uplink():
    """The switch between a DPDK port that costs little and the rings of a process, without NICs. A core is to move 2 M
    packets a second where testpmd moves 8."""
    for size in (64, 1064):
        for test, words in (("rx", "port to process"), ("tx", "process to port")):
            yield Comparison("uplink", f"packets of {size} B, {words}", "M/s",
                             [Program("uroce", ["uplink_rate", test, size], 4000000, ours=True), Testpmd(test, size)],
                             [at_least(2)])


def keyed():
    """The cost of authentication (UROCE_KEY), compared with none."""
    section = "kernel UDP port, with a key"
    for size in (8, 1024):
        yield Comparison(section, f"RC SEND {size} B, round trip", "us",
                         [send_lat(size, 10000, path="keyed", factor=2),
                          send_lat(size, 10000, KEYLESS, path="udp", factor=2)])
    for size, words in ((65536, "64 KiB"), (1 << 20, "1 MiB")):
        yield Comparison(section, f"RC WRITE {words}", "MB/s",
                         [write_bw(size, path="keyed"), write_bw(size, label=KEYLESS, path="udp")])


def atomics():
    """Extended atomics compared with equivalent plain ones, and the throughput of many initiators on one word."""
    section = "atomics, 8 B"
    kinds = (("masked fetch-and-add", "mfa", "plain", "faa"), ("masked compare-and-swap", "mcs", "plain", "cas"))
    for path, words in (("ring", ""), ("udp", ", UDP")):
        trips, count = (50000, 1000000) if path == "ring" else (5000, 50000)
        for name, kind, label, plain in kinds:
            yield Comparison(section, f"{name}, round trip{words}", "us",
                             [Atomics("uroce", ["rtt", kind], trips, path),
                              Atomics(label, ["rtt", plain], trips, path, ours=False)], [at_most(1.1, label)])
            yield Comparison(section, f"{name}, rate{words}", "M/s",
                             [Atomics("uroce", ["rate", kind, 1, "hot"], count, path),
                              Atomics(label, ["rate", plain, 1, "hot"], count, path, ours=False)],
                             [at_least(1 / 1.1, label)])
        for initiators in (1, 2, 8):
            each = count // initiators
            sources = [Atomics("uroce", ["rate", "faa", initiators, "hot"], each, path),
                       Atomics("a word each", ["rate", "faa", initiators, "spread"], each, path, ours=False)]
            if initiators == 1 and path == "ring":
                sources += [Fabric(SHM, "shm", "fadd_rate", 8, 500000),
                            Fabric(RXM, "tcp;ofi_rxm", "fadd_rate", 8, 50000),
                            Ucx(POSIX, "posix", "ucp_fadd", 8, 1000000, "M/s")]
            yield Comparison(section, f"fetch-and-add of one word, {initiators} initiators{words}", "M/s", sources,
                             [at_least(2.5)] if path == "ring" else [])


def fabric():
    """The libfabric provider compared with others, all with reliable datagram endpoints."""
    for route, words in (("ring", "same host"), ("udp", "UDP")):
        section, slow = f"libfabric, {words}", 1 if route == "ring" else 10
        peers = [(SHM, "shm", 1), (RXM, "tcp;ofi_rxm", 10), (RXD, "udp;ofi_rxd", 10)][slow > 1:]
        beat = SHM if route == "ring" else RXM

        def compare(name, unit, test, size, count, targets, factor=1):
            return Comparison(section, name, unit,
                              [OurFabric("uroce", test, size, count // slow, factor, route)] +
                              [Fabric(label, provider, test, size, max(count // less, 20), factor)
                               for label, provider, less in peers],
                              targets)

        yield compare("SEND 8 B, one way", "us", "rtt", 8, 200000, [at_most(1, beat)], 0.5)
        yield compare("fi_fetch_atomic 8 B, round trip", "us", "fadd", 8, 100000,
                      [at_most(1.2), at_most(0.05, RXM)] if route == "ring" else [at_most(1, RXM)])
        yield compare("fi_fetch_atomic 8 B, the target asleep, round trip", "us", "fadd_asleep", 8, 100000,
                      [at_most(1.2), at_most(0.05, RXM)] if route == "ring" else [at_most(1, RXM)])
        for elements, bound in ((1, 4), (64, 50)):
            yield compare(f"SUM of {elements} u64, elements", "M/s", "sum_rate", 8 * elements, 1000000,
                          [at_least(bound)] if route == "ring" else [at_least(1, RXM)])
        for name, test in (("WRITE", "bw"), ("READ", "read_bw"), ("tagged SEND", "tagged_bw")):
            for size, size_words in ((65536, "64 KiB"), (1 << 20, "1 MiB")):
                yield compare(f"{name} {size_words}", "MB/s", test, size,
                              (1 << (31 if route == "ring" else 30)) // size, [at_least(1, beat)])


def ucx():
    """Our UCX transport, compared with UCX's own. UCX's atomics over tcp are executed by the target's program; over
    posix they are the CPU's instructions on shared memory."""
    for name, test, unit, more, targets in (
            ("tag 8 B, one way", "tag_lat", "us", [], [at_most(0.5, UCX_TCP)]),
            ("PUT 8 B, one way", "ucp_put_lat", "us", [], [at_most(0.5, UCX_TCP)]),
            ("fetch-and-add 8 B, round trip", "ucp_fadd", "us", ["-O", "1"], [at_most(0.1, UCX_TCP)]),
            ("compare-and-swap 8 B, round trip", "ucp_cswap", "us", ["-O", "1"], [at_most(0.1, UCX_TCP)]),
            ("swap of 4 B, round trip", "ucp_swap", "us", ["-O", "1"], [at_most(0.1, UCX_TCP)])):
        size = 4 if "4 B" in name else 8
        yield Comparison("UCX, same host", name, unit,
                         [OurUcx("uroce", test, size, 50000, unit, more),
                          Ucx(POSIX, "posix", test, size, 200000, unit, more),
                          Ucx(UCX_TCP, "tcp", test, size, 5000, unit, more)], targets)


def triggers():
    """Triggered requests: compared with the same request made by a call, and with another provider that does this in
    software."""
    section = "triggers"
    for kind, words in (("send", "SEND"), ("tsend", "tagged SEND"), ("write", "WRITE"), ("atomic", "SUM of a u64"),
                        ("fetch", "fetching SUM of a u64")):
        yield Comparison(section, f"{words}, a trigger beyond a call, in the core", "ns",
                         [Program("uroce", ["nic_trigger", kind, "extra"], 96000, ours=True),
                          Program(CALL, ["nic_trigger", kind, "plain"], 96000)], [at_most(200)])
    yield Comparison(section, "SEND 8 B by a counter, round trip", "us",
                     [OurFabric("uroce", "trigger_rtt", 8, 200000), OurFabric(CALL, "rtt", 8, 200000)])
    yield Comparison(section, "chain of tagged SENDs 8 B, both programs asleep, round trip", "us",
                     [OurFabric("uroce", "deferred_rtt", 8, 20480),
                      Fabric(SOCKETS, "sockets", "deferred_rtt", 8, 5120)],
                     [at_most(1, SOCKETS)])


def collectives():
    """Barrier and allreduce run by the NICs, compared with the same run by the programs, which compute meanwhile or
    sleep."""
    section = "collectives of 8 processes, same host"
    for kind in ("barrier", "allreduce"):
        for words, work, count, targets in (
                ("", ("compute", 0, 0), 1500, []),
                (", 0.5 ms away", ("away", 1, 500), 500, [at_most(1, "driven")]),
                (", computing until it is done", ("until", 1, 100), 200, [at_most(1, "driven")]),
                (", 4 x 0.5 ms of work", ("compute", 4, 500), 100, [])):
            yield Comparison(section, f"{kind}{words}", "us", [Collective("uroce", kind, "offload", work, count),
                                                               Collective("driven", kind, "driven", work, count)],
                             targets)


def sweep():
    """The same comparisons by size, for the plots."""
    for exponent in (3, 6, 9, 12, 14, 16, 18, 20):
        size = 1 << exponent
        count = max(200, min(20000, (128 << 20) // size))
        yield Comparison("latency by size", f"SEND {size} B, one way", "us", [
            send_lat(size, count, "uroce"), send_lat(size, count, "uroce, UDP", path="udp"),
            Program(PIPE, ["pipe_raw", "rtt", size], count, factor=0.5), ucx_tag_lat(POSIX, "posix", size, count),
            Fabric(SHM, "shm", "rtt", size, count, factor=0.5), ucx_tag_lat(UCX_TCP, "tcp", size, count),
            Fabric(RXM, "tcp;ofi_rxm", "rtt", size, count, factor=0.5),
            Program(RAW_TCP, ["tcp_raw", "rtt", size], count, factor=0.5)], size=size)
    for exponent in (6, 9, 12, 14, 16, 18, 20, 22):
        size = 1 << exponent
        mib = max(1, min(512, (100000 * size) >> 20))
        count = max(20, (mib << 20) // size)
        yield Comparison("bandwidth by size", f"WRITE {size} B", "MB/s", [
            write_bw(size, mib), write_bw(size, mib, "uroce, UDP", path="udp"), pipe(size, mib),
            Ucx(POSIX, "posix", "ucp_put_bw", size, count, "MB/s"), Fabric(SHM, "shm", "bw", size, count),
            Ucx(UCX_TCP, "tcp", "ucp_put_bw", size, count, "MB/s"), Fabric(RXM, "tcp;ofi_rxm", "bw", size, count),
            tcp_bw(size, mib)], size=size)


def connections():
    """Set up one after the other; 500 us for each are 2,000 a second."""
    section = "connections"
    for route, words in (("ring", "same host"), ("udp", "UDP")):
        yield Comparison(section, f"set up one, {words}", "us",
                         [Connects("uroce", "rdma", 2000, route),
                          Program(RAW_TCP, ["connects", "tcp", "127.0.0.1"], 5000)],
                         [at_most(500), at_most(10, RAW_TCP)])
    yield Comparison(section, "memory of one, both processes", "KiB", [Connects("uroce", "memory", 4096)], [])


def comparisons(with_sweep):
    for part in (latencies, rates, atomics, bandwidths, udp, uplink, keyed, fabric, ucx, connections, triggers,
                 collectives):
        yield from part()
    if with_sweep:
        yield from sweep()
