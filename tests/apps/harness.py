# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs over uroce for the application tests: devices, network namespaces, pairs of processes, a tally.

Nothing is left behind: processes are ended by their PID when a test ends, for whatever reason, and die with it.
"""
import argparse
import atexit
import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# meson sets this to folders of libraries that are built for one test only.
os.environ.pop("LD_LIBRARY_PATH", None)
# Tests run beside others, on few CPUs: over UDP a living peer may be silent for longer than the default allows.
os.environ.setdefault("UROCE_ACK_BACKOFF", "4")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DISSECTOR = os.path.join(ROOT, "scripts", "uroce.lua")
UROCE = os.path.join(ROOT, "scripts", "uroce")
CLONE_NEWNET = 0x40000000
SKIP = 77  # meson's exit code for a skipped test
SLOWER = int(os.environ.get("TEST_SLOWER", "1"))  # on an emulated CPU: all limits of time are multiplied by this
LIBC = ctypes.CDLL(None)


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Side:
    """Where a program runs and what device it sees: a namespace (None: this one) and UROCE_DEVICES."""

    def __init__(self, address, devices=None, netns=None, host=None, env=None):
        self.address = address          # of the device
        self.devices = devices or address
        self.netns = netns
        self.host = host or address     # where its TCP ports can be reached
        self.env = env or {}            # more variables of the environment

    def enter(self):
        """@return the words before a command that runs in the side's namespace"""
        return ["nsenter", f"--net=/proc/{self.netns.pid}/ns/net"] if self.netns else []

    def command(self, argv):
        return self.enter() + [os.path.join(ROOT, "scripts", "uroce-run")] + list(argv)


class Netns:
    """A network namespace that lives as long as the sleeping process that holds it."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent)
        self.pid = self.holder.pid
        atexit.register(self.close)
        mine = os.readlink("/proc/self/ns/net")
        for _ in range(500):
            try:
                if os.readlink(f"/proc/{self.pid}/ns/net") != mine:
                    break
            except OSError:
                pass
            time.sleep(0.01)
        else:
            raise RuntimeError("could not make a network namespace")
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv):
        subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", *argv], check=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()


def veth_pair(mtu=4500):
    """Two namespaces joined by veth: (a, b), interfaces va and vb, addresses 10.99.0.1 and 10.99.0.2."""
    a, b = Netns(), Netns()
    a.run("ip", "link", "add", "va", "mtu", str(mtu), "type", "veth", "peer", "name", "vb", "mtu", str(mtu),
          "netns", str(b.pid))
    for ns, name, address in ((a, "va", "10.99.0.1/24"), (b, "vb", "10.99.0.2/24")):
        ns.run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
        ns.run("ip", "addr", "add", address, "dev", name)
        ns.run("ip", "link", "set", name, "up")
    return a, b


def loopback_sides(lane=0):
    """Two devices on loopback addresses. Each test process and lane has its own pair, so many can run at once."""
    net = 2 + os.getpid() % 250
    return Side(f"127.{net}.{lane}.1"), Side(f"127.{net}.{lane}.2")


def one_device_sides(lane=0):
    """Both sides on one device: through shared memory."""
    first, _ = loopback_sides(lane)
    return first, first


def mixed_sides():
    """Two pairs at once: two processes on one device, and a third process on it with a peer in another namespace."""
    a, b = veth_sides()
    return [(a, a), (a, b)]


def free_port():
    """A TCP port that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def veth_sides():
    a, b = veth_pair()
    return Side("10.99.0.1", netns=a), Side("10.99.0.2", netns=b)


def ethdev_sides():
    """The ethdev port on AF_PACKET; the kernel does not know the devices' addresses, so TCP uses other ones."""
    a, b = veth_pair()
    spec = "10.99.0.{}/24/ethdev=net_af_packet0,iface={}"
    return (Side("10.99.0.11", spec.format(11, "va"), a, "10.99.0.1"),
            Side("10.99.0.12", spec.format(12, "vb"), b, "10.99.0.2"))


def until(seconds, what):
    """Call `what` until it returns something true. @return that, or its last result."""
    deadline = time.monotonic() + seconds * SLOWER
    while True:
        value = what()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.05)


class Process:
    running = {}

    def __init__(self, argv, side=None, env=None):
        self.argv = argv
        self.out = tempfile.TemporaryFile()
        environment = dict(os.environ, **(env or {}))
        command = argv
        if side:
            environment.update(side.env, UROCE_DEVICES=side.devices)
            command = side.command(argv)
        self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
                                      env=environment, preexec_fn=die_with_parent)
        self.pid = self.popen.pid
        # the /proc folder of a process in the program's network namespace
        self.proc = getattr(side, "proc", None) or f"/proc/{self.pid}"
        Process.running[self.pid] = self

    def wait(self, seconds):
        """@return the exit code, or None after the timeout (the process is then gone as well)."""
        code = None
        try:
            code = self.popen.wait(max(seconds * SLOWER, 0.01))
        except subprocess.TimeoutExpired:
            self.kill()
        Process.running.pop(self.pid, None)
        return code

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        Process.running.pop(self.pid, None)

    def output(self):
        # Not by seek(): the program writes at the same offset.
        out = self.out.fileno()
        return os.pread(out, os.fstat(out).st_size, 0).decode(errors="replace")

    def wait_listen(self, port, seconds):
        """Wait until a process listens on the TCP port in the namespace. @return whether one does."""
        needle, deadline = f":{port:04X}", time.monotonic() + seconds * SLOWER
        while time.monotonic() < deadline and self.popen.poll() is None:
            for name in ("tcp", "tcp6"):
                try:
                    with open(f"{self.proc}/net/{name}") as f:
                        if any(line.split()[1].endswith(needle) and " 0A " in line for line in f):
                            return True
                except OSError:
                    pass
            time.sleep(0.01)
        return False


@atexit.register
def kill_leftovers():
    for process in list(Process.running.values()):
        process.kill()


def run_pair(server_argv, client_argv, sides, seconds, env=None):
    """Server on sides[0], client on sides[1]; PORT in their arguments becomes a free TCP port.

    @return (ok, reason or "", server output, client output)
    """
    deadline = time.monotonic() + seconds * SLOWER

    def left():
        return (deadline - time.monotonic()) / SLOWER

    port = free_port()
    server_argv, client_argv = ([str(port) if arg == "PORT" else arg for arg in argv]
                                for argv in (server_argv, client_argv))
    server = Process(server_argv, sides[0], env)
    if not server.wait_listen(port, min(seconds, 20)):
        code = server.wait(0.1)
        return False, f"the server did not listen on TCP port {port} (exit code {code})", server.output(), ""
    client = Process(client_argv, sides[1], env)
    client_code = client.wait(left())
    server_code = server.wait(min(10, left()) if client_code == 0 else 2)
    reasons = []
    for name, code in (("client", client_code), ("server", server_code)):
        if code is None:
            reasons.append(f"{name} did not end in time")
        elif code:
            reasons.append(f"{name} exit code {code}")
    return not reasons, ", ".join(reasons), server.output(), client.output()


def uroce(*argv, side=None):
    enter = side.enter() if side else []
    return subprocess.run([*enter, UROCE, *argv], capture_output=True, text=True, timeout=60 * SLOWER,
                          stdin=subprocess.DEVNULL)


class KeptDevice:
    """See kept_device."""

    def __init__(self, address, faulty):
        self.address = address
        self.most = {("fault", "fault_lost"): 0, ("nic", "retransmitted"): 0} if faulty else {}

    def look(self):
        """Record the counters of all processes that have the device now: the counters vanish with the processes."""
        said = uroce("stat", self.address, "--json")
        for device in json.loads(said.stdout)["devices"] if said.returncode == 0 else []:
            for group, name in self.most:
                value = device.get(group, {}).get(name, {"value": 0})["value"]
                self.most[group, name] = max(self.most[group, name], value)

    def wait(self, process, seconds):
        """As process.wait. With faults it records meanwhile that packets are lost and sent again."""
        end = time.monotonic() + seconds
        while not all(self.most.values()) and process.popen.poll() is None and time.monotonic() < end:
            self.look()
        return process.wait(end - time.monotonic())


def stop(pid):
    """Stop a process; returns once each of its threads has stopped: until then they may go on."""
    def stopped(task):
        try:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] in "TZX"
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return True
    os.kill(pid, signal.SIGSTOP)
    if not until(20, lambda: all(stopped(task) for task in os.listdir(f"/proc/{pid}/task"))):
        raise RuntimeError(f"process {pid} does not stop")


@contextlib.contextmanager
def kept_device(tally, name, address, faults=()):
    """A device that `uroce up` keeps until the test is done with it, for whatever reason. With `faults`, which lose
    packets, KeptDevice.wait must see losses while it waits for a process."""
    device = KeptDevice(address, bool(faults))

    def must(*argv):
        done = uroce(*argv)
        tally.result(f"uroce {argv[0]}: {name}", done.returncode == 0, f"exit code {done.returncode}", done.stdout,
                     done.stderr)

    try:
        must("up", address)
        if faults:
            must("fault", address, *faults, "--seed", "7")
        yield device
        if faults:
            tally.result(f"packets are lost, and sent again: {name}", all(device.most.values()), str(device.most))
    finally:
        must("down", address)


class Tally:
    """Counts and prints results. It prints a failure at once, and again at the end: meson shows the last lines only."""

    def __init__(self, name):
        self.name, self.passed, self.failures, self.started = name, 0, [], time.monotonic()

    def result(self, case, ok, reason="", *outputs):
        if ok:
            self.passed += 1
            print(f"ok   {case}", flush=True)  # tests/summary.py counts these lines
            return
        said = [f"FAIL {case}: {reason}"]
        for output in outputs:
            lines = output.strip().splitlines()
            if len(lines) > 20:  # what the program wrote to stderr comes first
                lines[5:-15] = ["..."]
            said += [f"     | {line}" for line in lines]
        self.failures.append("\n".join(said))
        print(self.failures[-1], flush=True)

    def cases(self, name, code, text):
        """Record the results of one of our programs, which prints "ok" or "FAIL" for each case, preceded by the
        reasons, and how the program ended."""
        why = []
        for line in text.splitlines():
            if line.startswith(("ok ", "FAIL ")):
                verdict, case = line.split(" ", 1)
                self.result(f"{name}: {case}", verdict == "ok", "see below", "\n".join(why))
                why = []
            else:
                why.append(line)
        self.result(f"{name}: ends well", code == 0, f"exit code {code}", "\n".join(why))

    def finish(self):
        seconds = time.monotonic() - self.started
        for said in self.failures:
            print(f"once more: {said}")  # not at the start of a line: tests/summary.py counts those
        print(f"{self.name}: {self.passed} passed, {len(self.failures)} failed in {seconds:.0f} s", flush=True)
        sys.exit(1 if self.failures else 0)


def options(description, *more):
    """Common options; each of `more` is a flag's name, its help, and the default of a number."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD", os.path.join(ROOT, "build")),
                        help="build folder (default: build)")
    for flag, text, *default in more:
        if default:
            parser.add_argument(flag, type=type(default[0]), default=default[0], help=text)
        else:
            parser.add_argument(flag, action="store_true", help=text)
    args = parser.parse_args()
    os.environ["UROCE_BUILD"] = os.path.abspath(args.build)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return args


# For a suite without time for all cases: other cases each day, so that all have their turn.
EVERY = (("--every", "run only each Nth case", 1),
         ("--first", "from this case on, 0 to N - 1 (default: another one each day)", -1))


def turn(args, cases):
    """@return the cases whose turn it is, by the options EVERY."""
    if args.every <= 1:
        return cases or sys.exit("no case has that name")
    first = args.first if args.first >= 0 else int(time.time() // 86400) % args.every
    print(f"only some cases: --every {args.every} --first {first}", flush=True)
    return cases[first::args.every] or sys.exit("it is no case's turn")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIP)


def need_programs(*names):
    for name in names:
        if not shutil.which(name):
            skip(f"{name} is not installed")


def need_root():
    if os.geteuid():
        skip("needs root (network namespaces)")


def own_namespace():
    """Go on in a network namespace of our own, with loopback only; skip where that is not allowed."""
    need_root()
    if LIBC.unshare(CLONE_NEWNET):
        skip("a network namespace cannot be made here")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def other_user(uid, what):
    """@return a wrapper that runs a program as another user; None, reported as skipped, where that user cannot read
    the build (a clone below /root)."""
    argv = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    tried = subprocess.run([*argv, "ls", os.environ["UROCE_BUILD"]], capture_output=True, text=True, check=False)
    if tried.returncode:
        print(f"SKIP {what}: another user cannot look into the build folder ({tried.stderr.strip()})", flush=True)
        return None
    return argv


@functools.cache
def ucx_perftest():
    """@return the program, and the option by which one that was built with MPI does without where it has no terminal"""
    usage = subprocess.run(["ucx_perftest", "-h"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout
    return ["ucx_perftest", *(["-P", "0"] if b"-P <0|1>" in usage else [])]


NOBODY = 65534


def tshark(path, *argv, script=None):
    """Decode a capture. Not as root, for whom Wireshark 4.4 runs no scripts.
    @return what tshark did"""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder, open(path, "rb") as capture:
        os.chmod(folder, 0o755)
        with_script = ["-X", f"lua_script:{shutil.copy(script, folder)}"] if script else []
        return subprocess.run(["tshark", *with_script, "-r", "-", *argv], stdin=capture, capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "HOME": folder}, **user)


def verify_path():
    return os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "verify")
