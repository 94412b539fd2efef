# SPDX-License-Identifier: BSD-3-Clause
"""Single measurements for scripts/bench: a pair of processes runs and yields one number.

A Source is something to measure: one of our programs over one of our paths, a raw limit of the machine, or a peer.
Its measure() returns a Sample; its absent() says why it cannot be measured here. comparisons.py defines what is
compared with what, and the targets.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "apps"))
import harness  # noqa: E402

SECONDS = 10  # limit for one measurement
MIB = 1.048576  # MiB/s to MB/s

# value: the median where the program prints one. p99: for latencies, where the program prints it; else None.
Sample = collections.namedtuple("Sample", "value p99")


class Failed(Exception):
    """The measurement yielded no number; the text says why."""


class TooSlow(Exception):
    """It was ended after SECONDS."""


class Settings:
    """Settings of all measurements in a run."""
    addresses = 1  # number of addresses of our processes: both on one device, or one on each of two
    divisor = 1    # divides iterations, for a quick run
    cpus = None    # two CPUs on different cores, or None on a machine with one core


def cpus_apart():
    """@return two allowed CPUs on different cores, or None."""
    allowed = sorted(os.sched_getaffinity(0))
    with_core = {}
    for cpu in allowed:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                core = f.read().strip()
        except OSError:
            core = str(cpu)
        with_core.setdefault(core, cpu)
    return list(with_core.values())[:2] if len(with_core) > 1 else None


def placement_cpus(placement):
    """@return the CPU of each process: [] lets the kernel choose, "apart": two cores, "together": one CPU."""
    if placement == "free":
        return []
    if placement == "apart":
        return Settings.cpus
    return [sorted(os.sched_getaffinity(0))[0]] * 2


class Source:
    """label: as printed. placement: see placement_cpus."""
    ours = False

    def __init__(self, label, iterations, placement="free"):
        self.label, self.placement, self.iterations = label, placement, iterations

    def absent(self):
        """@return a short reason why it cannot be measured here, with a remedy, or None."""
        if self.placement == "apart" and not Settings.cpus:
            return "needs two cores"
        return self.missing()

    def missing(self):
        return None

    def measure(self):
        """A run that does not end in time is repeated with fewer iterations, and later runs start with those:
        programs that spin without ever yielding are very slow when they share a CPU."""
        while True:
            try:
                return self.attempt(max(self.iterations // Settings.divisor, 10))
            except TooSlow:
                if self.iterations <= 100:
                    raise Failed(f"not {self.iterations} messages in {SECONDS} s") from None
            self.iterations //= 10

    def attempt(self, iterations):
        """@return a Sample; or raises TooSlow or Failed."""
        raise NotImplementedError


def pair(server, client, sides, env, row):
    """Run a server and a client that prints rows of results. @return the last row."""
    ok, reason, *outputs = harness.run_pair(server, client, sides, SECONDS, env)
    if "client did not end in time" in reason:
        raise TooSlow
    rows = [match.group(0) for match in row.finditer(outputs[1])]
    if ok and rows:
        return rows[-1]
    lines = [line.strip() for output in outputs for line in output.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("uroce")] or lines[-1:]
    raise Failed(": ".join([" ".join(client), reason or "no result", *said[:1]]))


def key_file():
    """@return a file with a key, which exists as long as this program runs. The key protects nothing."""
    if not key_file.folder:
        key_file.folder = tempfile.TemporaryDirectory()
    path = os.path.join(key_file.folder.name, "key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write("00112233445566778899aabbccddeeff\n")
    return path


key_file.folder = None


def our_sides():
    """@return where our processes run, the target's first."""
    first, second = harness.loopback_sides()
    return (first, first) if Settings.addresses == 1 else (first, second)


# Settings of our processes: shared memory, the kernel's UDP, UDP with authenticated packets.
PATHS = {"ring": lambda: None, "udp": lambda: {"UROCE_RING": "off"},
         "keyed": lambda: {"UROCE_RING": "off", "UROCE_KEY": key_file()}}


class Perftest(Source):
    """A program of perftest over uroce. path: "ring" is the default, "udp" switches rings off."""
    ours = True
    # Columns of the result line. Latencies: bytes, iterations, minimum, maximum, typical (the median), average,
    # deviation, 99%. Others: bytes, iterations, peak, average MiB/s, million messages a second.
    ROW = re.compile(r"^\s*\d+\s+\d+(?:\s+[\d.]+){3,}\s*$", re.M)

    def __init__(self, label, program, size, iterations, path="ring", placement="free", more=(), column=4, factor=1):
        super().__init__(label, iterations, placement)
        self.size, self.path, self.column, self.factor = size, path, column, factor
        self.argv = [program, "-F", *more] + ([] if "atomic" in program else ["-s", str(size)])

    def missing(self):
        if not shutil.which(self.argv[0]):
            return f"{self.argv[0]} is not installed (Debian: perftest)"
        return None

    def attempt(self, iterations):
        sides = our_sides()
        pin = [["taskset", "-c", str(cpu)] for cpu in placement_cpus(self.placement)] or [[], []]
        argv = self.argv + ["-p", "PORT", "-n", str(iterations)]
        return self.parse(pair(pin[0] + argv, pin[1] + argv + [sides[0].host], sides,
                               PATHS[self.path](), self.ROW))

    def parse(self, row):
        columns = [float(text) for text in row.split()]
        p99 = columns[7] * self.factor if "lat" in self.argv[0] else None
        return Sample(columns[self.column] * self.factor, p99)


class Program(Source):
    """One of our own programs of tests/bench, which starts both processes and prints a number or two."""

    def __init__(self, label, argv, iterations, placement="free", factor=1, ours=False):
        super().__init__(label, iterations, placement)
        self.argv, self.factor, self.ours = [str(arg) for arg in argv], factor, ours

    def env(self):
        return {}

    def path(self):
        return os.path.join(os.environ["UROCE_BUILD"], "tests", "bench", self.argv[0])

    def missing(self):
        return None if os.path.exists(self.path()) else f"{self.argv[0]} was not built"

    def command(self, iterations):
        return [self.path(), *self.argv[1:], str(iterations), *map(str, placement_cpus(self.placement))]

    def attempt(self, iterations):
        try:
            done = subprocess.run(self.command(iterations), capture_output=True, text=True, timeout=SECONDS,
                                  env={**os.environ, **self.env()})
        except subprocess.TimeoutExpired:
            raise TooSlow from None
        numbers = [float(text) * self.factor for text in done.stdout.split()] if done.returncode == 0 else []
        if not numbers:
            raise Failed(f"{' '.join(self.argv)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return Sample(numbers[0], numbers[1] if len(numbers) > 1 else None)


class Testpmd(Program):
    """DPDK's testpmd on the port that tests/bench/uplink_rate uses: what the port itself takes. test: rx or tx."""
    RATE = re.compile(r"^\s*[RT]x-pps:\s+(\d+)", re.M)

    def __init__(self, test, size):
        super().__init__("testpmd", ["uplink_rate", "file", size], 4)  # seconds; the first rate is not a whole one
        self.test = test

    def missing(self):
        return super().missing() or (None if shutil.which("dpdk-testpmd") else
                                     "dpdk-testpmd is not installed (Debian: dpdk-dev)")

    def attempt(self, iterations):
        with tempfile.TemporaryDirectory() as folder:
            pcap = os.path.join(folder, "packets.pcap")
            subprocess.run([self.path(), "file", self.argv[2], pcap], check=True)
            port = f"net_pcap0,rx_pcap={pcap}" + (",infinite_rx=1" if self.test == "rx" else "")
            done = subprocess.run(
                ["timeout", "-s", "INT", "-k", "2", str(max(iterations, 3)), "dpdk-testpmd", "--no-huge", "--no-shconf",
                 "--no-pci", "--no-telemetry", "-m", "256", "--vdev", port, "--", f"--forward-mode={self.test}only",
                 "--stats-period=1", "--total-num-mbufs=8192", "--no-mlockall"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        rates = sorted(int(rate) / 1e6 for rate in self.RATE.findall(done.stdout) if rate != "0")
        if not rates:
            raise Failed(f"dpdk-testpmd: {(done.stderr.strip().splitlines() or ['no rate'])[-1]}")
        return Sample(rates[len(rates) // 2], None)


class Atomics(Program):
    """Atomics of one kind over uroce, by tests/bench/atomics. route: as Perftest's path."""

    def __init__(self, label, argv, iterations, route="ring", ours=True):
        super().__init__(label, ["atomics", *argv], iterations, ours=ours)
        self.route = route

    def env(self):
        devices = dict.fromkeys(side.devices for side in our_sides())
        return {**({"UROCE_RING": "off"} if self.route == "udp" else {}), "UROCE_DEVICES": ",".join(devices)}

    def command(self, iterations):
        return [os.path.join(harness.ROOT, "scripts", "uroce-run"), "--build", os.environ["UROCE_BUILD"], "--no-sysfs",
                "--", *super().command(iterations)]


class Connects(Program):
    """Connections by rdma_cm over uroce, by tests/bench/connects. route: as Perftest's path."""

    def __init__(self, label, test, iterations, route="ring"):
        super().__init__(label, ["connects", test, our_sides()[0].address], iterations, ours=True)
        self.route = route

    def missing(self):
        return super().missing() and "librdmacm was not there when uroce was built (Debian: librdmacm-dev)"

    def env(self):
        return {**({"UROCE_RING": "off"} if self.route == "udp" else {}), "UROCE_DEVICES": our_sides()[0].devices}

    def command(self, iterations):
        return [os.path.join(harness.ROOT, "scripts", "uroce-run"), "--build", os.environ["UROCE_BUILD"], "--",
                *super().command(iterations)]


class Fabric(Program):
    """A libfabric provider, measured by our own program."""

    def __init__(self, label, provider, test, size, iterations, factor=1):
        super().__init__(label, ["fabric_peer", provider, test, size], iterations, factor=factor)

    def missing(self):
        return super().missing() and "libfabric was not there when uroce was built (Debian: libfabric-dev)"


class OurFabric(Fabric):
    """Our provider. route: as Perftest's path."""

    def __init__(self, label, test, size, iterations, factor=1, route="ring"):
        super().__init__(label, "uroce", test, size, iterations, factor)
        self.route, self.ours = route, True

    def missing(self):
        folder = os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "libfabric")
        return super().missing() or (None if os.path.isdir(folder) else "the provider was not built")

    def env(self):
        devices = dict.fromkeys(side.devices for side in our_sides())
        return {**({"UROCE_RING": "off"} if self.route == "udp" else {}), "UROCE_DEVICES": ",".join(devices),
                "FI_PROVIDER_PATH": os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "libfabric")}


class Collective(OurFabric):
    """Collectives over our provider, by tests/bench/collective_rounds. how: "offload" or "driven"."""

    def __init__(self, label, kind, how, work, iterations, processes=8):
        Program.__init__(self, label, ["collective_rounds", kind, how, processes, *work], iterations)
        self.route, self.ours = "ring", how == "offload"


class Ucx(Source):
    """ucx_perftest over the named transports. kind: "us", "MB/s" or "M/s": the column to use."""
    ROW = re.compile(r"^(?:Final:|\[thread \d+\])(?:\s+[\d.]+){8}\s*$", re.M)

    def __init__(self, label, transports, test, size, iterations, kind, more=()):
        super().__init__(label, iterations)
        self.transports, self.kind = transports, kind
        self.argv = ["ucx_perftest", "-t", test, "-s", str(size), *more]

    def missing(self):
        return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (Debian: ucx-utils)"

    def sides(self):
        return None, None

    def attempt(self, iterations):
        argv = self.argv + ["-n", str(iterations), "-w", str(iterations // 10), "-p", "PORT"]
        return self.parse(pair(argv, argv + ["127.0.0.1"], self.sides(),
                               {"UCX_TLS": self.transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}, self.ROW))

    def parse(self, row):
        # iterations; median, average, overall us; average, overall MiB/s; average, overall messages a second
        columns = [float(text) for text in row.split()[-8:]]
        if self.kind == "us":
            return Sample(columns[1], None)
        return Sample(columns[5] * MIB if self.kind == "MB/s" else columns[7] / 1e6, None)


class OurUcx(Ucx):
    """Our UCX transport, through shared memory."""

    def __init__(self, label, test, size, iterations, kind, more=()):
        super().__init__(label, "uroce", test, size, iterations, kind, more)
        self.ours = True

    def sides(self):
        return our_sides()


def instructions(functions, argv, requests):
    """@return instructions for each of `requests` requests of a program in tests/bench, below the functions of this
    name."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "bench", argv[0])
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect={functions}", "--collect-atstart=no",
             f"--callgrind-out-file={folder}/out", program, *map(str, argv[1:])], capture_output=True, text=True,
            timeout=600)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or not found:
        raise Failed("callgrind failed:\n" + result.stderr[-1000:])
    return int(found.group(1)) / requests
