#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Many processes on one device: Debian's programs share it, come, go and are killed, and so is its daemon."""
import array
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import accounts
import harness

sys.path.insert(0, os.path.join(harness.ROOT, "scripts"))
sys.dont_write_bytecode = True
from uroce_cmd.proto import END, MAGIC, TOOL  # noqa: E402


def unix_names(address):
    """@return names of the device's sockets in this namespace: its daemon's and its functions'."""
    with open("/proc/net/unix") as f:
        names = {line.split()[-1] for line in f if "@uroce/" in line}
    return sorted(n for n in names if n == f"@uroce/{address}" or n.startswith(f"@uroce/{address}/"))


def udp_sockets(address):
    """@return UDP sockets on the device's RoCE port."""
    word = "%08X:12B7" % struct.unpack("=I", socket.inet_aton(address))
    with open("/proc/net/udp") as f:
        return sum(word in line for line in f)


def ask(address, command="status"):
    """@return the daemon's answer, or None when the device has no daemon."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"\0uroce/{address}")
        connection.settimeout(10)
        connection.send(struct.pack("=IHH", MAGIC, TOOL, len(command)) + command.encode())
        text = b""
        while True:
            message = connection.recv(65536)
            if not message or struct.unpack("=IHH", message[:8])[1] == END:
                return json.loads(text) if text else None
            text += message[8:]
    except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
        return None
    finally:
        connection.close()


def wait_for(condition, seconds=20):
    """Wait until the condition holds. @return its value then."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


def functions(address):
    return (ask(address) or {}).get("functions", [])


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Device:
    """An address of the test's own, and checks that nobody uses it any more."""
    count = 0

    def __init__(self):
        Device.count += 1
        self.leak = ""
        self.address = f"127.{2 + os.getpid() % 250}.{100 + Device.count}.1"
        self.side = harness.Side(self.address, host="127.0.0.1")

    def run(self, *argv, env=None):
        return harness.Process(list(argv), self.side, env)

    def pair(self, argv, seconds=60):
        """A server and a client of the same program, both on this device."""
        return harness.run_pair(argv, argv + ["127.0.0.1"], (self.side, self.side), seconds)

    def daemon_pid(self):
        return ask(self.address)["daemon"]["pid"]

    def kill_daemon(self):
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}/fd") or not os.access(f"/proc/{pid}/exe", os.R_OK))
        wait_for(lambda: f"@uroce/{self.address}" not in unix_names(self.address))

    def is_gone(self):
        """Whether nothing is left, and the daemon has accounted for everything it had open until it left."""
        self.leak = accounts.until_gone(self.address)
        return wait_for(lambda: not unix_names(self.address) and not udp_sockets(self.address)) and not self.leak

    def leftovers(self):
        return f"{unix_names(self.address)}, {udp_sockets(self.address)} UDP sockets; {self.leak}"


def two_and_eight(tally):
    device = Device()
    for argv in (["ibv_rc_pingpong", "-g", "0", "-p", "PORT"], ["ib_write_bw", "-p", "PORT"],
                 ["ib_read_lat", "-p", "PORT", "-n", "500"], ["ib_send_bw", "-c", "UD", "-p", "PORT", "-n", "500"],
                 ["ib_write_bw", "-p", "PORT", "-n", "100"]):
        ok, reason, server, client = device.pair(argv)
        tally.result(f"two processes: {' '.join(argv[:-1])}", ok, reason, server, client)
    env = {"UROCE_PROGRESS": "inline"}
    ok, reason, server, client = harness.run_pair(["ibv_rc_pingpong", "-g", "0", "-p", "PORT"],
                                                  ["ibv_rc_pingpong", "-g", "0", "-p", "PORT", "127.0.0.1"],
                                                  (device.side, device.side), 60, env)
    tally.result("two processes without threads", ok, reason, server, client)

    pairs = []
    for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_atomic_lat"):
        port = harness.free_port()
        argv = [program, "-p", str(port), "-n", "500"]
        server = device.run(*argv)
        server.wait_listen(port, 20)
        pairs.append((program, server, device.run(*argv, "127.0.0.1")))
    seen = set()
    while any(c.popen.poll() is None for _, _, c in pairs):
        numbers = [f["number"] for f in functions(device.address)]
        seen.add(len(numbers) == len(set(numbers)))
        time.sleep(0.02)
    for program, server, client in pairs:
        codes = client.wait(60), server.wait(20)
        tally.result(f"eight processes: {program}", codes == (0, 0), f"exit codes {codes}", server.output(),
                     client.output())
    tally.result("every process has a number of its own", seen == {True} or not seen, str(seen))
    tally.result("nothing is left", device.is_gone(), device.leftovers())


def opener(device):
    return device.run(os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device"))


def sixty_four(tally, seconds):
    """Processes that open and close the device, or are killed, at random."""
    device, rng, running, opened = Device(), random.Random(1), [], 0
    keep = opener(device)
    wait_for(lambda: len(functions(device.address)) == 1)
    pid = device.daemon_pid()
    before = fds(pid)
    end = time.monotonic() + seconds
    failed = []
    while time.monotonic() < end or (opened <= 64 and time.monotonic() < end + 100):
        while len(running) < 63 and rng.random() < 0.8:
            running.append(opener(device) if rng.random() < 0.7 else device.run("ibv_devinfo"))
            opened += 1
        for _ in range(min(rng.randrange(8), len(running))):
            process = running.pop(rng.randrange(len(running)))
            code = process.popen.poll()
            if code not in (None, 0):
                failed.append(process)
            process.kill()
        time.sleep(0.02)
    wait_for(lambda: any(p.popen.poll() is None for p in running), 1)
    for process in running:
        if process.popen.poll() not in (None, 0):
            failed.append(process)
    status = ask(device.address)
    tally.result(f"{opened} processes opened it, up to 64 at a time", not failed and opened > 64,
                 f"{len(failed)} failed", *[p.output() for p in failed[:3]])
    numbers = [f["number"] for f in status["functions"]]
    tally.result("no number twice", len(numbers) == len(set(numbers)), str(numbers))
    for process in running:
        process.kill()
    wait_for(lambda: len(functions(device.address)) == 1)
    status = ask(device.address)
    tally.result("one function is left", len(status["functions"]) == 1, str(status["functions"]))
    tally.result("the daemon is the same", status["daemon"]["pid"] == pid, str(status["daemon"]))
    sockets = sum(g["sockets"] for g in status["gids"])
    tally.result("the daemon's descriptors are the sockets", fds(pid) <= before + sockets,
                 f"{before} to {fds(pid)}, {sockets} sockets")
    tally.result("one name is left", len(unix_names(device.address)) == 2, str(unix_names(device.address)))
    keep.kill()
    tally.result("nothing is left of 64", device.is_gone(), device.leftovers())


def traffic_begin(device, seconds, program):
    port = harness.free_port()
    argv = [program, "-p", str(port), "-D", str(seconds), *(["-s", "4096"] if program != "ib_atomic_bw" else [])]
    server = device.run(*argv)
    server.wait_listen(port, 20)
    return server, device.run(*argv, "127.0.0.1")


def traffic(device, seconds, program="ib_write_bw"):
    """@return server and client of a pair that exchanges data"""
    pair = traffic_begin(device, seconds, program)
    wait_for(lambda: len(functions(device.address)) == 2)
    time.sleep(0.5)
    return pair


def daemon_killed(tally, rounds):
    device = Device()
    server, client = traffic(device, 4 + 3 * rounds)
    survived = 0
    for i in range(rounds):
        device.kill_daemon()
        ok, reason, a, b = device.pair(["ibv_rc_pingpong", "-g", "0", "-p", "PORT"])
        tally.result(f"daemon killed, {i + 1}: others open the device", ok, reason, a, b)
        status = ask(device.address)
        if client.popen.poll() is not None:
            break  # a slow machine
        survived += 1
        tally.result(f"daemon killed, {i + 1}: the next one has the living",
                     status and status["counters"]["adopted"] == 2 and status["counters"]["recovered_sockets"] >= 3,
                     str(status))
    codes = client.wait(60), server.wait(20)
    tally.result("traffic went on", codes == (0, 0) and survived > 0, f"exit codes {codes}, {survived} kills",
                 server.output(), client.output())
    tally.result("nothing is left of the daemons", device.is_gone(), device.leftovers())


def daemon_killed_and_process_stopped(tally):
    """A stopped process does not answer the new daemon, and keeps its number."""
    device = Device()
    stopped, other = opener(device), opener(device)
    wait_for(lambda: len(functions(device.address)) == 2)
    number = {f["pid"]: f["number"] for f in functions(device.address)}
    harness.stop(stopped.pid)
    device.kill_daemon()
    ok, reason, a, b = device.pair(["ibv_rc_pingpong", "-g", "0", "-p", "PORT"])
    tally.result("a stopped process: others open the device", ok, reason, a, b)
    states = {f["number"]: f["state"] for f in functions(device.address)}
    tally.result("a stopped process keeps its number",
                 states.get(number[stopped.pid]) == "silent" and states.get(number[other.pid]) == "live", str(states))
    os.kill(stopped.pid, signal.SIGCONT)
    tally.result("a continued process comes over",
                 wait_for(lambda: all(f["state"] == "live" for f in functions(device.address))),
                 str(functions(device.address)))
    other.kill()
    wait_for(lambda: len(functions(device.address)) == 1)
    harness.stop(stopped.pid)
    device.kill_daemon()
    late = device.run("ibv_devinfo")
    code = late.wait(30)
    tally.result("all are stopped: the message names the process",
                 code != 0 and str(stopped.pid) in late.output() and "continue it" in late.output(), "", late.output())
    os.kill(stopped.pid, signal.SIGCONT)
    again = device.run("ibv_devinfo")
    tally.result("continued, the device can be opened", again.wait(30) == 0, "", again.output())
    stopped.kill()
    tally.result("nothing is left of the stopped", device.is_gone(), device.leftovers())


def process_killed(tally):
    for victim in (0, 1):
        device = Device()
        pair = traffic(device, 30)
        pair[victim].kill()
        # The other process ends by itself when its retries are used up, on a busy machine before the test looks.
        gone = wait_for(lambda: pair[victim].pid not in [f["pid"] for f in functions(device.address)])
        tally.result(f"killed {('server', 'client')[victim]}: its function is gone", gone,
                     str(functions(device.address)))
        if victim == 0:
            code = pair[1].wait(60)
            tally.result("its peer gets an error", code not in (None, 0), f"exit code {code}", pair[1].output())
        ok, reason, a, b = device.pair(["ib_write_bw", "-p", "PORT", "-n", "100"])
        tally.result("others go on", ok, reason, a, b)
        pair[1 - victim].kill()
        tally.result("nothing is left of the killed", device.is_gone(), device.leftovers())


def stopped_under_traffic(tally, seconds):
    """The target of each kind of traffic is stopped for longer than retries last, and continues."""
    programs = ("ib_write_bw", "ib_read_bw", "ib_atomic_bw")
    devices = [Device() for _ in programs]
    # With a margin: a program that starts while others keep all CPUs busy takes seconds.
    pairs = [traffic_begin(device, 2 * seconds + 30, program) for device, program in zip(devices, programs)]
    for device in devices:
        wait_for(lambda: len(functions(device.address)) == 2)
    time.sleep(0.5)
    for server, _ in pairs:
        harness.stop(server.pid)
    time.sleep(seconds)
    there = [client.popen.poll() is None for _, client in pairs]
    for server, _ in pairs:
        os.kill(server.pid, signal.SIGCONT)
    for program, (server, client), lived in zip(programs, pairs, there):
        codes = client.wait(60), server.wait(20)
        tally.result(f"{program}: its target is stopped for {seconds} s", lived and codes == (0, 0),
                     f"exit codes {codes}, there at the end of the stop: {lived}", server.output(), client.output())


def files_limited(tally):
    """`ulimit -f` also limits shared memory: no program is ended for that, and traffic goes by UDP."""
    for blocks in (0, 8):
        device = Device()
        ok, reason, server, client = device.pair(
            ["bash", "-c", f'set -o pipefail; (ulimit -f {blocks}; exec ibv_rc_pingpong -g 0 "$@") 2>&1 | cat', "bash",
             "-p", "PORT"])
        tally.result(f"files of {blocks} blocks at most", ok, reason, server, client)
        tally.result("nothing is left of them", device.is_gone(), device.leftovers())


def foreign_user(tally):
    if os.geteuid():
        return
    another = harness.other_user(12345, "several users")
    if not another:
        return
    argv = [*another, "ibv_devinfo"]
    device = Device()
    keep = opener(device)
    wait_for(lambda: functions(device.address))
    other = device.run(*argv)
    code = other.wait(20)
    tally.result("another user is refused, and told what to do",
                 code != 0 and "root" in other.output() and "--allow user=12345" in other.output(), f"exit code {code}",
                 other.output())
    keep.kill()
    wait_for(lambda: not functions(device.address))
    for turn in range(6):  # the daemon of the previous turn still runs, and cannot serve this one
        whose = device.run(*(argv if turn % 2 == 0 else argv[-1:]))
        code = whose.wait(20)
        tally.result(f"users take turns: {turn}", code == 0, f"exit code {code}", whose.output())
    device.is_gone()
    uroced = os.path.join(os.environ["UROCE_BUILD"], "pmd", "uroced")
    subprocess.run([uroced, "--device", device.address, "--stay", "--allow", "user=12345"], check=True)
    other = device.run(*argv)
    tally.result("an allowed user is not refused", other.wait(20) == 0, "", other.output())
    tally.result("a daemon that is to stay stays", ask(device.address)["daemon"]["stay"], str(ask(device.address)))
    ask(device.address, "leave")
    tally.result("and leaves when told", device.is_gone(), device.leftovers())
    subprocess.run([*another, uroced, "--device", device.address, "--stay"], check=True)
    mine = device.run("ibv_devinfo")
    code = mine.wait(20)
    tally.result("another user's daemon is not trusted", code != 0 and "UROCE_ALLOW=user=12345" in mine.output(),
                 f"exit code {code}", mine.output())
    os.kill(ask(device.address)["daemon"]["pid"], signal.SIGTERM)
    tally.result("a daemon that is ended goes", device.is_gone(), device.leftovers())


def port_taken(tally):
    device = Device()
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind((device.address, 4791))
    process = device.run("ibv_devinfo")
    code = process.wait(30)
    tally.result("port 4791 is another program's", code != 0 and "4791" in process.output() and
                 "in use" in process.output(), f"exit code {code}", process.output())
    holder.close()
    process = device.run("ibv_devinfo")
    tally.result("and free again", process.wait(30) == 0, "", process.output())


def daemon_missing(tally):
    device = Device()
    for name, path in (("missing", "/nonexistent/uroced"), ("a folder", "/"), ("no program", harness.__file__)):
        process = device.run("ibv_devinfo", env={"UROCE_UROCED": path})
        code = process.wait(30)
        tally.result(f"the daemon is {name}", code != 0 and "uroce: uroce0: " in process.output() and
                     path in process.output(), f"exit code {code}", process.output())


def descriptors_short(tally):
    device = Device()
    ok, reason, server, client = device.pair(["sh", "-c", 'ulimit -n 40; exec ibv_rc_pingpong -g 0 "$@"', "sh", "-p",
                                              "PORT"])
    tally.result("40 descriptors are enough", ok, reason, server, client)
    process = device.run("sh", "-c", "ulimit -n 12; exec ibv_devinfo")
    code = process.wait(30)
    tally.result("12 are not, and the message says so", code != 0 and "uroce: " in process.output(),
                 f"exit code {code}",
                 process.output())
    tally.result("nothing is left of either", device.is_gone(), device.leftovers())


def misbehaving_visitors(tally):
    """Garbage, silence, and a tool that does not read, at the daemon and at a function."""
    device = Device()
    keep = opener(device)
    wait_for(lambda: functions(device.address))
    number = functions(device.address)[0]["number"]
    rng, connections = random.Random(2), []
    for name in (f"\0uroce/{device.address}", f"\0uroce/{device.address}/{number}"):
        for i in range(300):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.connect(name)  # blocks while too many others wait
            connection.settimeout(5)
            connections.append(connection)
            try:
                if i % 3 == 0:
                    connection.send(rng.randbytes(1 + rng.randrange(3000)))
                elif i % 3 == 1:
                    descriptors = array.array("i", [0, 1, 2])
                    connection.sendmsg([struct.pack("=IHH", MAGIC, rng.randrange(64), 4) + b"abcd"],
                                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            except (ConnectionResetError, BrokenPipeError):
                pass
    greedy = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    greedy.connect(f"\0uroce/{device.address}")
    greedy.setblocking(False)
    try:
        for _ in range(5000):
            greedy.send(struct.pack("=IHH", MAGIC, TOOL, 6) + b"status")
    except (BlockingIOError, ConnectionResetError, BrokenPipeError):
        pass
    ok, reason, server, client = device.pair(["ibv_rc_pingpong", "-g", "0", "-p", "PORT"])
    tally.result("bad visitors stall no other process", ok, reason, server, client)
    status = ask(device.address)
    tally.result("the function is still there", number in [f["number"] for f in status["functions"]], str(status))
    tally.result("they are counted", status["counters"]["bad_messages"] > 50, str(status["counters"]))
    for connection in connections + [greedy]:
        connection.close()
    tally.result("no descriptor is left of them", wait_for(lambda: fds(device.daemon_pid()) < 40),
                 str(fds(device.daemon_pid())))
    tally.result("nor at the function", wait_for(lambda: fds(keep.pid) < 60), str(fds(keep.pid)))
    keep.kill()
    tally.result("nothing is left of the visitors", device.is_gone(), device.leftovers())


def addresses_change(tally):
    """A device on an interface follows the interface's addresses and link."""
    if os.geteuid():
        return
    a, _ = harness.veth_pair()
    side = harness.Side("10.99.0.1", "va", a)
    watch = harness.Process(["stdbuf", "-oL", "ibv_asyncwatch"], side)

    def gids():
        process = harness.Process(["ibv_devinfo", "-v"], side)
        process.wait(20)
        return re.findall(r"GID\[ *(\d+)\]:\s+(\S+?),", process.output()), process.output()

    def events(*words):
        return wait_for(lambda: any(word in watch.output().lower() for word in words))

    wait_for(lambda: "async" in watch.output().lower())
    tally.result("an interface: its address", gids()[0] == [("0", "::ffff:10.99.0.1")], gids()[1])
    a.run("ip", "addr", "add", "10.99.1.7/24", "dev", "va")
    tally.result("an address is added: the program gets an event", events("gid"), "", watch.output())
    tally.result("and it is in the table", wait_for(lambda: ("1", "::ffff:10.99.1.7") in gids()[0]), "", gids()[1])
    a.run("sysctl", "-qw", "net.ipv6.conf.va.disable_ipv6=0")
    a.run("ip", "addr", "add", "fd00:99::1/64", "dev", "va", "nodad")
    tally.result("IPv6 as well", wait_for(lambda: "fd00:99::1" in dict(gids()[0]).values()), "", gids()[1])
    a.run("ip", "addr", "del", "10.99.1.7/24", "dev", "va")
    tally.result("an address is removed", wait_for(lambda: "::ffff:10.99.1.7" not in dict(gids()[0]).values()), "",
                 gids()[1])
    a.run("ip", "link", "set", "va", "down")
    tally.result("the link goes down", events("port err", "port_err"), "", watch.output())
    a.run("ip", "link", "set", "va", "up")
    tally.result("and up", events("port active", "port_active"), "", watch.output())
    watch.kill()


def main():
    args = harness.options(__doc__, ("--seconds", "how long processes open and close at random", 15),
                           ("--rounds", "how often the daemon is killed under traffic", 3),
                           ("--stop", "how long a process is stopped under traffic", 10),
                           ("--only", "run only the test of this name", ""))
    harness.need_programs("ibv_rc_pingpong", "ib_write_bw", "ibv_devinfo")
    tally = harness.Tally("share")
    tests = {"two_and_eight": two_and_eight, "sixty_four": lambda t: sixty_four(t, args.seconds),
             "daemon_killed": lambda t: daemon_killed(t, args.rounds),
             "stopped_under_traffic": lambda t: stopped_under_traffic(t, args.stop),
             "files_limited": files_limited,
             "stopped": daemon_killed_and_process_stopped, "process_killed": process_killed,
             "foreign_user": foreign_user, "port_taken": port_taken, "daemon_missing": daemon_missing,
             "descriptors_short": descriptors_short,
             "visitors": misbehaving_visitors, "addresses": addresses_change}
    for name, test in tests.items():
        if args.only in ("", name):
            test(tally)
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
