#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon of a device with functions that misbehave: speaks pmd/proto/proto.h to it, in the role of functions."""
import array
import ctypes
import errno
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import accounts
import harness
from share_test import MAGIC, Device, ask, fds, functions, opener, wait_for

UPLINK = 152 + 4  # bytes of proto_join.uplink and proto_join.vlan
JOIN, WELCOME, DEVICE, WHOIS, ADOPT, ADOPTED, TOOL, TEXT, END, KEEPER, SERVICES = 1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 14
FOLLOW_NONE = 0


def gid(address):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address)


def send(connection, kind, data, *descriptors):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([struct.pack("=IHH", MAGIC, kind, len(data)) + data], rights)


def receive(connection):
    """@return (type, payload, descriptors), (None, ...) at the end"""
    try:
        data, rights, _, _ = connection.recvmsg(65536, 4096)
    except ConnectionResetError:
        return None, b"", []
    descriptors = array.array("i")
    for _, _, numbers in rights:
        descriptors.frombytes(numbers[:len(numbers) - len(numbers) % 4])
    return (struct.unpack("=IHH", data[:8])[1] if data else None), data[8:], list(descriptors)


class Function:
    """A function played by the test. `listener` and `udp` are sockets, `keeper` a descriptor."""

    def __init__(self, address):
        self.join = gid(address) + b"\0" * 16 + struct.pack("=I", FOLLOW_NONE) + b"\0" * UPLINK
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(20)
        self.connection.connect(f"\0uroce/{address}")
        send(self.connection, JOIN, self.join)
        kind, data, descriptors = receive(self.connection)
        assert kind == WELCOME, (kind, data)
        self.number = struct.unpack_from("=I", data)[0]
        self.listener = socket.socket(fileno=descriptors[0])
        self.listener.settimeout(20)
        self.listener.listen(64)
        self.keeper = descriptors[1]
        self.udp = socket.socket(fileno=descriptors[2])

    def lose(self):
        """The connection ends, while the function lives."""
        self.connection.close()

    def visited(self):
        """@return the connection of the next visitor, after its first message, and that message."""
        visitor, _ = self.listener.accept()
        visitor.settimeout(20)
        return visitor, receive(visitor)[0]

    def adopted(self):
        return struct.pack("=IIQ", self.number, 1, 0) + self.join

    def come_over(self):
        """Answer a daemon that asks. @return whether the daemon accepts the answer."""
        visitor, kind = self.visited()
        if kind != ADOPT:
            visitor.close()
            return False
        send(visitor, ADOPTED, self.adopted(), self.keeper)
        self.connection = visitor
        kind, _, descriptors = receive(visitor)
        for fd in descriptors:  # the daemon has them
            os.close(fd)
        return kind == DEVICE

    def datagrams(self):
        """@return how many datagrams have come."""
        count = 0
        try:
            while self.udp.recv(100, socket.MSG_DONTWAIT):
                count += 1
        except BlockingIOError:
            return count

    def end(self):
        for sock in (self.listener, self.udp, self.connection):
            sock.close()
        os.close(self.keeper)


def uroced():
    return os.path.join(os.environ["UROCE_BUILD"], "pmd", "uroced")


def start(device):
    subprocess.run([uroced(), "--device", device.address], check=True)


def sockets(address):
    """@return the sockets on the RoCE port of an address, by inode."""
    local = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(address))) + f":{4791:04X}"
    with open("/proc/net/udp", encoding="ascii") as lines:
        return {fields[9] for fields in map(str.split, lines) if fields[1] == local}


def throw(address, number, count):
    """Send datagrams to a QP of function `number`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(count):
            sock.sendto(b"\x64\0\xff\xff\0" + bytes([number]) + b"\0\0" + b"\0" * 8, (address, 4791))


def counter(device, name):
    return ask(device.address)["counters"].get(name)


def state(device, number):
    return {f["number"]: f["state"] for f in functions(device.address)}.get(number)


def options(tally):
    """Impossible options are refused with a message instead of ignored."""
    for argv, words in ((["--device", ",".join(f"127.3.3.{i}" for i in range(1, 18))],
                         "up to 16 addresses; name fewer"),
                        (["--device", ",".join(f"127.3.3.{i}" for i in range(1, 180))], "the list is too long"),
                        (["--device", "127.3.3.3", "--iface", "no-such-if"], "no interface 'no-such-if'"),
                        (["--device", "203.0.113.5", "--iface", "lo"], "name others, or leave out --iface")):
        result = subprocess.run([uroced(), *argv], capture_output=True, text=True, check=False)
        tally.result(f"uroced {' '.join(argv)[:40]}", result.returncode == 1 and words in result.stderr,
                     f"exit code {result.returncode}", result.stderr)


def connection_lost(tally):
    """A function that has lost its connection is still a function: it keeps its number and the packets for it."""
    device = Device()
    start(device)
    function = Function(device.address)
    throw(device.address, function.number, 3)
    tally.result("datagrams come to the function", function.datagrams() == 3, "they do not")
    function.lose()
    wait_for(lambda: state(device, function.number) != "live")
    throw(device.address, function.number, 50)
    ask(device.address)  # the daemon has had its turn since
    got = function.datagrams()
    tally.result("a function that lost the connection: its datagrams are its own", got == 50 and
                 counter(device, "unowned_datagrams") == 0, f"{got} of 50, {ask(device.address)}")
    tally.result("it is asked to come back, and does",
                 function.come_over() and state(device, function.number) == "live"
                 and counter(device, "came_back") == 1, str(ask(device.address)))
    function.lose()
    tally.result("and again", wait_for(function.come_over), str(ask(device.address)))
    function.lose()
    function.listener.close()
    gone = wait_for(lambda: state(device, function.number) is None)
    throw(device.address, function.number, 50)
    drained = wait_for(lambda: counter(device, "unowned_datagrams") == 50)
    tally.result("one that is really gone is not asked, and its datagrams are counted", gone and drained,
                 str(ask(device.address)))
    function.end()
    tally.result("nothing is left of the lost", device.is_gone(), device.leftovers())


def no_descriptors(tally):
    """A daemon, then a function, that has no descriptors for visitors: it waits, and does not spin."""
    device = Device()
    start(device)
    function = Function(device.address)
    pid = device.daemon_pid()
    used = fds(pid)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, used + 1))
    silent = []
    for _ in range(4):
        silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        silent[-1].connect(f"\0uroce/{device.address}")
    status = ask(device.address)  # once silent visitors have been dropped
    tally.result("a daemon without descriptors", status and 0 < status["counters"].get("no_descriptors", 0) < 1000,
                 str(status))
    for sock in silent:
        sock.close()
    function.end()
    tally.result("nothing is left of it", device.is_gone(), device.leftovers())

    process = opener(device)
    wait_for(lambda: functions(device.address))
    number = functions(device.address)[0]["number"]
    old = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, old[1]))
    tool = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tool.settimeout(20)
    tool.connect(f"\0uroce/{device.address}/{number}")
    send(tool, TOOL, b"stats")
    time.sleep(1)  # time in which it would spin
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, old)
    kind, text, _ = receive(tool)
    waited = [row for row in json.loads(text or "{}").get("control", []) if row[0] == "visitors_waiting"]
    tally.result("a function without descriptors: visitors wait", kind == TEXT and waited and 0 < waited[0][1] < 1000,
                 str((kind, waited)))
    tool.close()
    process.kill()
    tally.result("nothing is left of it either", device.is_gone(), device.leftovers())


def connect(name):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(20)
    connection.connect(name)
    return connection


def descriptors_thrown(tally):
    """Unsolicited descriptors, with messages of each kind and in each state of a connection: none is kept."""
    device = Device()
    start(device)
    function, process = Function(device.address), opener(device)
    wait_for(lambda: len(functions(device.address)) == 2)
    number = [f["number"] for f in functions(device.address) if f["number"] != function.number][0]
    # For an address that does not come.
    waits = gid("127.255.255.254") + b"\0" * 16 + struct.pack("=I", FOLLOW_NONE) + b"\0" * UPLINK
    before, many = fds(process.pid), list(range(3)) * 8  # 24: the most that a message may have

    def throw_at(name, *first):
        for kind in range(64):
            connection = connect(name)
            try:
                for message in (*first, (kind, b"abcd", *many), (kind, waits, *many)):
                    send(connection, *message)
            except (BrokenPipeError, ConnectionResetError):
                pass
            connection.close()

    daemon = f"\0uroce/{device.address}"
    for words, first in (("at once", ()), ("while it waits for an address", ((JOIN, waits),)),
                         ("after a question", ((WHOIS, gid(device.address)),)),
                         ("after a command", ((TOOL, b"stats"),))):
        throw_at(daemon, *first)
        leak = accounts.settled(device.address)
        tally.result(f"descriptors thrown at the daemon {words}: none stays", not leak, leak)
    throw_at(f"{daemon}/{number}")
    throw_at(f"{daemon}/{number}", (TOOL, b"status"))
    tally.result("descriptors thrown at a function: none stays", wait_for(lambda: fds(process.pid) == before),
                 f"{before} before, {fds(process.pid)} after")
    # few: a function that loses its connection repeatedly is asked ever later
    for kind in (0, JOIN, ADOPTED, SERVICES, 63):
        send(function.connection, kind, b"abcd", *many)
        function.lose()
        wait_for(function.come_over)
    leak = accounts.settled(device.address)
    tally.result("descriptors thrown by a function: none stays", not leak, leak)
    function.end()
    process.kill()
    tally.result("nothing is left of descriptors thrown", device.is_gone(), device.leftovers())


def stranger_takes_no_place(tally):
    """The daemon has room for 64 connections that have not identified themselves; a stranger's do not end any of
    them."""
    another = harness.other_user(12345, "a stranger at a full daemon")
    if not another:
        return
    device = Device()
    start(device)
    function = Function(device.address)  # so that the daemon does not leave
    waiting = [connect(f"\0uroce/{device.address}") for _ in range(64)]
    send(waiting[-1], TOOL, b"stats")  # once this is answered, all have been accepted
    receive(waiting[-1])
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
            f"s.connect('\\0uroce/{device.address}'); print(s.recv(4096)[12:])")
    said = subprocess.run([*another, sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          timeout=20)
    try:
        send(waiting[0], TOOL, b"stats")
        kind = receive(waiting[0])[0]
    except BrokenPipeError:
        kind = None
    tally.result("a stranger is refused, and takes no other process's place",
                 "is a device of user" in said.stdout and kind == TEXT,
                 f"the first was told {kind}", said.stdout + said.stderr)
    for connection in waiting:
        connection.close()
    function.end()
    tally.result("nothing is left of the stranger", device.is_gone(), device.leftovers())


def squat(address, first, last):
    """In a process of another user: listen under the names of functions (0: the daemon's), read what visitors send,
    and hang up."""
    poller = select.poll()
    names = {}
    for number in range(int(first), int(last) + 1):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.bind(f"\0uroce/{address}/{number}" if number else f"\0uroce/{address}")
        sock.listen(8)
        poller.register(sock, select.POLLIN)
        names[sock.fileno()] = sock
    print("listens", flush=True)
    while True:
        for fd, _ in poller.poll():
            visitor, _ = names[fd].accept()
            print("visitor", flush=True)
            visitor.recv(4096)
            visitor.close()


def squatter(address, another, first, last):
    """@return the process, once it listens."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import uroced_test as u; u.squat(*sys.argv[2:])"
    process = harness.Process([*another, sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__)),
                               address, str(first), str(last)])
    wait_for(lambda: "listens" in process.output())
    return process


def names_held(tally):
    """Another user listens under the names of an unused device: programs are told so promptly."""
    another = harness.other_user(54321, "names that another user holds")
    if not another:
        return
    for what, first, last, said in (("the daemon", 0, 0, "is a device of user 54321"),
                                    ("all functions", 1, 254, "user 54321 ")):
        device = Device()
        holder = squatter(device.address, another, first, last)
        process = opener(device)
        ended = wait_for(lambda: process.popen.poll() is not None)
        tally.result(f"a stranger has the name of {what}: the error says whose it is",
                     ended and said in process.output(), process.output())
        visits = holder.output().count("visitor")
        if first == 0:
            tally.result("a stranger has the name of the daemon: it is not asked again and again", visits < 10,
                         f"{visits} visits")
        process.kill()
        holder.kill()
        tally.result(f"nothing is left of names of {what}", device.is_gone(), device.leftovers())


LIMIT = 256  # limit on the user's open files, which also limits descriptors in flight
ADDRESSES, FUNCTIONS = 10, 40


def passes_descriptors():
    """Whether a program unrelated to uroce can pass descriptors. @return "" or why not."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        for _ in range(20):
            socket.send_fds(a, [b"x"], [0, 1, 2])
    except OSError as error:
        return str(error)
    finally:
        a.close()
        b.close()
    return ""


def linked(device):
    """@return how the device's queue pairs that have peers reach them."""
    status = json.loads(harness.uroce("status", device.address, "--json").stdout or '{"devices": []}')["devices"]
    return [qp["by"] for d in status for f in d["functions"] for qp in f.get("queue_pairs", []) if "by" in qp]


def talking(device):
    """Two programs that exchange data for a long time. @return (their processes, how they reach each other)"""
    port = harness.free_port()
    argv = ["ibv_rc_pingpong", "-g", "0", "-p", str(port), "-n", "100000000"]
    server = device.run(*argv)
    server.wait_listen(port, 20)
    pair = [server, device.run(*argv, "127.0.0.1")]
    wait_for(lambda: len(linked(device)) == 2)
    return pair, linked(device)


def few_files_by_user(tally):
    """A device's sockets are kept for the next daemon for as long as the user's other programs can pass descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    device = Device()
    process = opener(device)
    wait_for(lambda: functions(device.address))
    limit = ask(device.address).get("keeper", {}).get("limit")
    tally.result("a daemon that a program starts knows the program's limit", limit == LIMIT, str(ask(device.address)))
    process.kill()
    device.is_gone()
    daemon = [uroced(), "--device", ",".join([device.address[:-1] + str(i) for i in range(1, 1 + ADDRESSES)])]
    subprocess.run(daemon, check=True)
    processes = [opener(device) for _ in range(5)]
    wait_for(lambda: len(functions(device.address)) == 5)
    device.kill_daemon()
    subprocess.run(daemon, check=True)
    processes.append(opener(device))
    wait_for(lambda: len([f for f in functions(device.address) if f["state"] == "live"]) == 6)
    status = ask(device.address)
    tally.result("few files, few sockets: they are kept", status["counters"]["recovered_sockets"] == 6 * ADDRESSES and
                 not status["problem"] and status.get("keeper", {}).get("sockets") == 7 * ADDRESSES, str(status))
    processes += [opener(device) for _ in range(FUNCTIONS - 2 - len(processes))]
    wait_for(lambda: len(functions(device.address)) == FUNCTIONS - 2, 60)
    pair, ways = talking(device)
    tally.result("few files, many sockets: links are made", ways == ["memory"] * 2, str(ways),
                 *[p.output() for p in pair])
    why = passes_descriptors()
    tally.result("other programs pass descriptors", not why, why)
    status = ask(device.address)
    tally.result("and the shortage is reported", "ulimit -n" in status.get("problem", "") and
                 status["counters"].get("keeper_bounded", 0) > 0, str(status))
    leak = accounts.settled(device.address)
    tally.result("nothing of that stays with the daemon", not leak, leak)
    device.kill_daemon()
    subprocess.run(daemon, check=True)
    late = opener(device)
    processes.append(late)
    everybody = wait_for(lambda: len([f for f in functions(device.address) if f["state"] == "live"]) == FUNCTIONS + 1,
                         60)
    status = ask(device.address) or {"counters": {}}
    tally.result("killed all the same: functions come over and get new sockets", everybody and
                 status["counters"].get("sockets_lost") == 1, str(status), late.output())
    tally.result("those that talked go on", all(p.popen.poll() is None for p in pair) and
                 linked(device) == ["memory"] * 2, str(linked(device)), *[p.output() for p in pair])
    ok, reason, *outputs = harness.run_pair(["ibv_rc_pingpong", "-g", "0", "-p", "PORT"],
                                            ["ibv_rc_pingpong", "-g", "0", "-p", "PORT", "127.0.0.1"],
                                            (device.side, device.side), 60, {"UROCE_RING": "off"})
    tally.result("and others reach each other by their sockets", ok, reason, *outputs)
    for process in processes + pair:
        process.kill()
    tally.result("nothing is left of many sockets", device.is_gone(), device.leftovers())


def few_files(tally):
    """The kernel does not count root's descriptors in flight, so another user's program checks."""
    if os.geteuid():
        few_files_by_user(tally)
        return
    another = harness.other_user(12345, "descriptors in flight")
    if another:
        argv = [*another, sys.executable, os.path.abspath(__file__), "--only", "few_files"]
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=250,
                                stdin=subprocess.DEVNULL, env=dict(os.environ, HOME="/"))
        tally.cases("as another user", result.returncode, result.stdout + result.stderr)


SO_ATTACH_REUSEPORT_CBPF = 51


def steer_all(sock):
    """Have the kernel give all datagrams for sockets that share an address to the first of them. @return the result."""
    code = struct.pack("=HBBI", 0x06, 0, 0, 0)  # return 0
    buffer = array.array("B", code)
    program = struct.pack("@HP", 1, buffer.buffer_info()[0])
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)
    except OSError as error:
        return error.strerror
    return ""


class Member(Function):
    """A function of another user who is allowed: a process of that user joins, and hands over what it was given."""

    def __init__(self, address, another):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = ("import sys, socket; sys.path.insert(0, sys.argv[1]); import uroced_test as u;"
                "u.member(sys.argv[2], socket.socket(fileno=int(sys.argv[3])))")
        self.process = subprocess.Popen([*another, sys.executable, "-c", code,
                                         os.path.dirname(os.path.abspath(__file__)),
                                         address, str(b.fileno())], pass_fds=[b.fileno()], stdin=subprocess.DEVNULL)
        b.close()
        _, descriptors, _, _ = socket.recv_fds(a, 16, 8)
        self.given = len(descriptors)
        self.connection, self.listener, self.udp = (socket.socket(fileno=fd) for fd in (
            descriptors[0], descriptors[1], descriptors[-1]))
        self.keeper = descriptors[2] if self.given == 4 else None
        self.control = a

    def end(self):
        self.process.kill()
        self.process.wait()
        for sock in (self.listener, self.udp, self.connection, self.control):
            sock.close()
        if self.keeper is not None:
            os.close(self.keeper)


def member(address, control):
    """In a process of another user: join, and pass on what comes."""
    connection = connect(f"\0uroce/{address}")
    send(connection, JOIN, gid(address) + b"\0" * 16 + struct.pack("=I", FOLLOW_NONE) + b"\0" * UPLINK)
    kind, _, descriptors = receive(connection)
    assert kind == WELCOME, kind
    socket.socket(fileno=os.dup(descriptors[0])).listen(64)  # the name is this user's
    socket.send_fds(control, [b"x"], [connection.fileno(), *descriptors])
    control.recv(1)


def members(tally):
    """An allowed user has the sockets of its own function and no others, and cannot redirect other functions'
    packets."""
    another = harness.other_user(12345, "members of a device")
    if not another:
        return
    device = Device()
    subprocess.run([uroced(), "--device", device.address, "--allow", "user=12345"], check=True)
    owner = Function(device.address)
    guest = Member(device.address, another)
    tally.result("a member gets no keeper", guest.given == 3 and guest.keeper is None, f"{guest.given} descriptors")
    why = steer_all(guest.udp)
    throw(device.address, owner.number, 10)
    got = owner.datagrams()
    tally.result("a member cannot steer other functions' packets", why == "Operation not permitted" and got == 10,
                 f"'{why}', {got} of 10")
    owner.end()
    guest.end()
    tally.result("nothing is left of the member", device.is_gone(), device.leftovers())


def only_members_live(tally):
    """The daemon is killed while only members have the device: the next one starts, and they get new sockets."""
    another = harness.other_user(12345, "members of a device")
    stranger = harness.other_user(54321, "a stranger under a function's name")
    if not another:
        return
    for who in ("the owner", "the member"):
        device = Device()
        trust = {"UROCE_ALLOW": "user=0"}
        daemon = [uroced(), "--device", device.address, "--allow", "user=12345"]
        subprocess.run([*daemon, "--stay"], check=True)
        keep = device.run(*another, os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device"), env=trust)
        here = wait_for(lambda: len(functions(device.address)) == 1)
        # A stranger under a name without a function changes nothing.
        holder = squatter(device.address, stranger, 200, 200)
        device.kill_daemon()
        if who == "the owner":
            subprocess.run(daemon, check=True)
        argv = [*(another if who == "the member" else []), "ibv_rc_pingpong", "-g", "0", "-p", "PORT"]
        ok, reason, *outputs = harness.run_pair(argv, [*argv, "127.0.0.1"], (device.side, device.side), 60,
                                                {**trust, "UROCE_RING": "off"})
        status = ask(device.address) or {"functions": [], "counters": {}}
        tally.result(f"only a member lives, {who} starts the next daemon: others open the device", here and ok, reason,
                     *outputs, str(status))
        tally.result(f"only a member lives, {who} starts the next daemon: the member is a function again",
                     [f["state"] for f in status["functions"]] == ["live", "foreign"] and
                     status["counters"].get("sockets_lost") == 1, str(status), keep.output())
        tally.result(f"only a member lives, {who} starts the next daemon: there are no sockets for a stranger's name",
                     status["gids"][0]["sockets"] < 10, str(status["gids"]))
        keep.kill()
        holder.kill()
        tally.result(f"nothing is left of the member and {who}", device.is_gone(), device.leftovers())


def two_users_live(tally):
    """The daemon is killed while only members of two users have the device. One of them starts the next daemon,
    which may not have the other's function: that function keeps what it has."""
    users = harness.other_user(12345, "members of a device"), harness.other_user(54321, "another member")
    if not all(users):
        return
    device = Device()
    trust = {"UROCE_ALLOW": "user=0"}
    open_device = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")
    subprocess.run([uroced(), "--device", device.address, "--allow", "all", "--stay"], check=True)
    keep = [device.run(*user, open_device, env=trust) for user in users]
    here = wait_for(lambda: len(functions(device.address)) == 2)
    before = sockets(device.address)
    device.kill_daemon()
    late = device.run(*users[0], open_device, env=trust)
    adopted = wait_for(lambda: any(f["state"] == "live" and f["uid"] == 12345 for f in functions(device.address)))
    time.sleep(2)  # time in which a daemon that considers the sockets lost would start anew
    status = ask(device.address) or {"counters": {}}
    tally.result("two users live, one starts the next daemon: its function is taken over", here and adopted,
                 str(status), late.output())
    tally.result("two users live, one starts the next daemon: nobody loses sockets",
                 status["counters"].get("sockets_lost") == 0
                 and len(before & sockets(device.address)) == 2, str(status), f"{before} -> {sockets(device.address)}")
    for process in (*keep, late):
        process.kill()
    tally.result("nothing is left of the two users", device.is_gone(), device.leftovers())


LIBC = ctypes.CDLL(None, use_errno=True)
# AUDIT_ARCH_..., sendmsg, socket
SYSCALLS = {"x86_64": (0xc000003e, 46, 41), "aarch64": (0xc00000b7, 211, 198)}
SENDMSG, SOCKET = 1, 2


def without(call, error, first=None):
    """In a process that is about to run a program: have the kernel refuse a system call with this errno (seccomp),
    if its first argument is `first`."""
    arch, number = SYSCALLS[os.uname().machine][0], SYSCALLS[os.uname().machine][call]
    argument = [(0x20, 0, 0, 16), (0x15, 0, 1, first)] if first is not None else []
    code = b"".join(struct.pack("=HBBI", *line) for line in (
        (0x20, 0, 0, 4), (0x15, 0, 3 + len(argument), arch),           # of this architecture,
        (0x20, 0, 0, 0), (0x15, 0, 1 + len(argument), number), *argument,  # the call:
        (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7fff0000)))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    if LIBC.prctl(38, 1, 0, 0, 0) or LIBC.prctl(22, 2, program, 0, 0):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        os._exit(99)


def cannot_ask(tally):
    """A program that cannot send to the daemon is told why, with its own words for each errno."""
    if os.uname().machine not in SYSCALLS:
        return
    device = Device()
    start(device)
    function = Function(device.address)
    for error, words in ((errno.EPERM, "a sandbox"), (errno.ENOBUFS, "no memory"), (errno.EIO, "cannot be asked")):
        result = subprocess.run(device.side.command(["ibv_devinfo"]),
                                env=dict(os.environ, UROCE_DEVICES=device.address),
                                capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                                preexec_fn=lambda: without(SENDMSG, error))  # noqa: B023: runs at once
        said = result.stdout + result.stderr
        tally.result(f"sendmsg fails with {errno.errorcode[error]}: the message says so",
                     result.returncode not in (0, 99)
                     and words in said and "version" not in said, f"exit code {result.returncode}", said)
    function.end()
    tally.result("nothing is left of the programs that could not ask", device.is_gone(), device.leftovers())


def no_netlink(tally):
    """A sandbox that denies a program netlink sockets, as systemd's RestrictAddressFamilies= does: the device opens."""
    if os.uname().machine not in SYSCALLS:
        return
    device = Device()
    result = subprocess.run(device.side.command(["ibv_devinfo"]), env=dict(os.environ, UROCE_DEVICES=device.address),
                            capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
                            preexec_fn=lambda: without(SOCKET, errno.EAFNOSUPPORT, socket.AF_NETLINK))
    tally.result("a device opens without netlink", result.returncode == 0 and "PORT_ACTIVE" in result.stdout,
                 result.stdout + result.stderr)
    tally.result("nothing is left of it", device.is_gone(), device.leftovers())


def hostile_keeper(tally):
    """A keeper that shows the same message for ever."""
    device = Device()
    start(device)
    function = Function(device.address)
    device.kill_daemon()
    a, b = (socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2) for _ in range(2))  # does not support SO_PEEK_OFF
    for sock in (a, b):
        sock.bind((0, 0))
    a.sendto(struct.pack("=IHH", MAGIC, KEEPER, 320) + bytes(320), (b.getsockname()[0], 0))
    os.close(function.keeper)
    function.keeper = os.dup(b.fileno())
    start(device)
    visitor, kind = function.visited()
    send(visitor, ADOPTED, function.adopted(), function.keeper)
    function.connection = visitor
    try:
        status = ask(device.address)
    except TimeoutError:
        status = None
    tally.result("a keeper without an end does not keep the daemon", kind == ADOPT and status is not None, str(status))
    function.end()
    tally.result("nothing is left of the keeper", device.is_gone(), device.leftovers())


def other_address(tally):
    """A device without a daemon, opened by an address other than its first."""
    device, other = Device(), Device()
    both = f"{device.address},{other.address}"
    subprocess.run([uroced(), "--device", both], check=True)
    first, second = opener(device), opener(other)
    tally.result("two addresses are one device", wait_for(lambda: len(functions(other.address)) == 2),
                 str(ask(device.address)))
    for late, address in ((opener, other), (opener, device)):
        device.kill_daemon()
        process = late(address)
        status = wait_for(lambda: len(functions(address.address)) > 2 and ask(address.address))
        tally.result(f"opened by {address.address}: the device is the same", status and
                     status["device"] == device.address and status["counters"]["adopted"] == 2, str(status),
                     process.output())
        process.kill()
        wait_for(lambda: len(functions(address.address)) == 2)
    # Each of the two has one address, and the first ends: the remaining one has never had the address asked for.
    second.kill()
    wait_for(lambda: len(functions(device.address)) == 1)
    device.kill_daemon()
    process = opener(other)
    status = wait_for(lambda: len(functions(other.address)) > 1 and ask(other.address))
    tally.result("opened by an address that no function has", status and status["device"] == device.address,
                 str(status), process.output())
    first.kill()
    process.kill()
    tally.result("nothing is left of two addresses", device.is_gone() and other.is_gone(), device.leftovers())


def name_taken(tally):
    """The name of an address is taken when the next daemon looks: functions keep the address all the same."""
    device, other = Device(), Device()
    subprocess.run([uroced(), "--device", f"{device.address},{other.address}"], check=True)
    processes = [opener(device), opener(other)]
    wait_for(lambda: len(functions(device.address)) == 2)
    device.kill_daemon()
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    holder.bind(f"\0uroce/{other.address}")
    start(device)
    status = wait_for(lambda: len([f for f in functions(device.address) if f["state"] == "live"]) == 2 and
                      ask(device.address))
    sockets = {g["gid"]: g["sockets"] for g in status["gids"]} if status else {}
    tally.result("an address whose name is taken stays", sockets.get(other.address, 0) > 2, str(ask(device.address)))
    tally.result("and the problem is reported", status and other.address in status["problem"], str(status))
    holder.close()
    tally.result("its name is claimed when it is free", wait_for(lambda: ask(other.address)), str(ask(device.address)))
    for process in processes:
        process.kill()
    tally.result("nothing is left of the names", device.is_gone() and other.is_gone(), device.leftovers())


def many_tools(tally):
    """A function has room for a few tools; the next one is told so."""
    device = Device()
    process = opener(device)
    wait_for(lambda: functions(device.address))
    number, tools, last = functions(device.address)[0]["number"], [], None
    for _ in range(40):
        tools.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        tools[-1].settimeout(20)
        tools[-1].connect(f"\0uroce/{device.address}/{number}")
        send(tools[-1], TOOL, b"status")
        last = receive(tools[-1])
    tally.result("one tool too many gets an error", last[0] == TEXT and b"as many tools" in last[1], str(last))
    send(tools[0], TOOL, b"stats")
    rows = {row[0]: row[1] for row in json.loads(receive_json(tools[0]))["control"]}
    tally.result("and is counted", rows["tools_refused"] == 8, str(rows))
    for tool in tools:
        tool.close()
    process.kill()
    tally.result("nothing is left of the tools", device.is_gone(), device.leftovers())


def receive_json(connection):
    """A tool's answer; the end of the previous answer is skipped."""
    text = b""
    while True:
        kind, data, _ = receive(connection)
        if kind == TEXT:
            text += data
        elif text or kind != END:
            return text


def foreign_program(tally):
    """A program in the place of a build tree's daemon is not run if another user has put it there."""
    device = Device()
    library = os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "ibverbs", "dropin", "libibverbs.so.1")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.makedirs(f"{folder}/build/lib")
        os.makedirs(f"{folder}/pmd")
        shutil.copy(library, f"{folder}/build/lib/")
        with open(f"{folder}/pmd/uroced", "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ntouch {folder}/ran\nexit 1\n")
        os.chmod(f"{folder}/pmd/uroced", 0o755)
        os.chown(f"{folder}/pmd/uroced", 12345, 12345)
        env = dict(os.environ, UROCE_DEVICES=device.address, LD_LIBRARY_PATH=f"{folder}/build/lib")
        result = subprocess.run(["ibv_devinfo"], env=env, capture_output=True, text=True, check=False)
        tally.result("another user's uroced is not run",
                     result.returncode != 0 and not os.path.exists(f"{folder}/ran")
                     and "install it there or set UROCE_UROCED" in result.stderr, result.stderr)
        os.chown(f"{folder}/pmd/uroced", 0, 0)
        result = subprocess.run(["ibv_devinfo"], env=env, capture_output=True, text=True, check=False)
        tally.result("one's own is", os.path.exists(f"{folder}/ran"), result.stderr)


class Interface:
    """An interface of the test's own, and a process that has all its addresses."""

    def __init__(self):
        self.netns = harness.Netns()
        self.run("ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
        self.run("sysctl", "-qw", "net.ipv6.conf.d0.disable_ipv6=1")
        self.address("add", "10.98.0.1")
        self.run("ip", "link", "set", "d0", "up")
        self.run("ip", "link", "set", "d1", "up")
        self.side = harness.Side("10.98.0.1", "d0", self.netns)
        self.process = self.opener()
        wait_for(lambda: (self.status() or {}).get("functions"))

    def run(self, *argv):
        self.netns.run(*argv)

    def address(self, verb, address):
        self.run("ip", "addr", verb, f"{address}/32", "dev", "d0")

    def opener(self, side=None):
        program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")
        return harness.Process([program], side or self.side)

    def status(self, address="10.98.0.1"):
        """The daemon's status; the names are those of the namespace."""
        code = ("import sys, json; sys.path.insert(0, sys.argv[1]); import share_test; "
                f"print(json.dumps(share_test.ask('{address}')))")
        return json.loads(self.inside(code))

    def inside(self, code):
        """Run Python in the network namespace. @return what it prints."""
        return subprocess.run(["nsenter", f"--net=/proc/{self.netns.pid}/ns/net", sys.executable, "-c", code,
                               os.path.dirname(os.path.abspath(__file__))], capture_output=True, text=True,
                              check=True).stdout

    def end(self, tally, address="10.98.0.1"):
        """End the process; until the daemon of the address leaves, it has open what it says it has."""
        self.process.kill()
        code = f"import sys; sys.path.insert(0, sys.argv[1]); import accounts; print(accounts.until_gone('{address}'))"
        leak = self.inside(code).strip()
        tally.result("and the daemon has kept nothing", not leak, leak)

    def gids(self):
        return {entry["gid"]: entry["index"] for entry in self.status()["gids"]}

    def wait_gids(self, expected):
        return wait_for(lambda: self.gids() == expected)

    def hears(self, address, name):
        """Whether a socket has the RoCE port of a link-local address, now or soon: the kernel does not refuse."""
        code = ("import socket\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\ns.settimeout(0.2)\n"
                f"try:\n s.connect(('{address}', 4791, 0, socket.if_nametoindex('{name}')))\n s.send(b'?')\n"
                " s.recv(1)\nexcept TimeoutError: print('yes')\nexcept OSError: pass")
        return wait_for(lambda: self.inside(code).strip())

    def names_of(self, address):
        """@return the interfaces to which sockets of a link-local address are bound"""
        listed = self.inside("import subprocess; print(subprocess.run(['ss', '-Huan'], capture_output=True).stdout)")
        return re.findall(rf"\[{address}\]%(\w+):4791", listed)

    def kill_daemon(self):
        pid = self.status()["daemon"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}/fd") or not os.access(f"/proc/{pid}/exe", os.R_OK))


def places_kept(tally):
    """GIDs are used by their index: a new daemon leaves each in its place, with empty entries between them."""
    device = Interface()
    for address in ("10.98.0.2", "10.98.0.3"):
        device.address("add", address)
    tally.result("three addresses", device.wait_gids({"10.98.0.1": 0, "10.98.0.2": 1, "10.98.0.3": 2}),
                 str(device.gids()))
    device.address("del", "10.98.0.2")
    device.wait_gids({"10.98.0.1": 0, "10.98.0.3": 2})
    device.kill_daemon()
    other = device.opener()
    wait_for(lambda: device.status() and len(device.status()["functions"]) == 2)
    tally.result("a new daemon: each address has its place", device.gids() == {"10.98.0.1": 0, "10.98.0.3": 2},
                 str(device.status()), other.output())
    other.kill()
    device.end(tally)


def kernel_silent(tally):
    """A daemon that cannot ask for the addresses leaves them as they are."""
    device = Interface()
    pid = device.status()["daemon"]["pid"]
    old = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, old[1]))
    device.address("add", "10.98.0.2")
    time.sleep(0.5)  # time to learn of it
    resource.prlimit(pid, resource.RLIMIT_NOFILE, old)
    tally.result("addresses that cannot be listed come later", device.wait_gids({"10.98.0.1": 0, "10.98.0.2": 1}),
                 str(device.status()))
    counters = device.status()["counters"]
    tally.result("and the existing ones stay", counters.get("kernel_silent", 0) > 0 and counters["gids_removed"] == 0
                 and counters["link_changes"] == 0, str(counters))
    device.end(tally)


def slow_function(tally):
    """An address goes and comes back while a process that has an older socket is stopped."""
    device = Interface()
    device.address("add", "10.98.0.2")
    device.wait_gids({"10.98.0.1": 0, "10.98.0.2": 1})
    harness.stop(device.process.pid)
    device.address("del", "10.98.0.2")
    device.wait_gids({"10.98.0.1": 0})
    device.address("add", "10.98.0.2")
    given_up = wait_for(lambda: device.status()["counters"]["gids_refused"], 60)
    tally.result("an address that a stopped process holds is refused", given_up and "10.98.0.2" in
                 device.status()["problem"], str(device.status()))
    os.kill(device.process.pid, signal.SIGCONT)
    tally.result("and comes back with the process", device.wait_gids({"10.98.0.1": 0, "10.98.0.2": 1}),
                 str(device.status()))
    device.end(tally)


def interface_again(tally):
    """An interface is removed and made again: its link-local address now belongs to another interface index."""
    device = Interface()
    device.run("sysctl", "-qw", "net.ipv6.conf.d0.disable_ipv6=0")
    device.run("ip", "addr", "add", "fe80::98/64", "dev", "d0", "nodad")

    def make_again():
        device.run("ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
        device.address("add", "10.98.0.1")
        device.run("ip", "addr", "add", "fe80::98/64", "dev", "d0", "nodad")
        for name in ("d0", "d1"):
            device.run("ip", "link", "set", name, "up")

    tally.result("a link-local address", wait_for(lambda: "fe80::98" in device.gids()), str(device.status()))
    device.run("ip", "link", "del", "d0")
    wait_for(lambda: not device.gids())
    make_again()
    tally.result("it is there again with the interface", wait_for(lambda: "fe80::98" in device.gids(), 30) and
                 device.hears("fe80::98", "d0"), str(device.status()))
    device.kill_daemon()
    device.run("ip", "link", "del", "d0")
    make_again()
    other = device.opener()

    tally.result("and if the next daemon finds sockets of the old interface",
                 wait_for(lambda: device.names_of("fe80::98") == ["d0"] * 3), str(device.names_of("fe80::98")),
                 str(device.status()))
    other.kill()
    device.end(tally)


def address_away(tally):
    """One of the two addresses of a device leaves the host for a while: programs open the device by the other."""
    interface = Interface()
    interface.run("ip", "link", "add", "e0", "type", "veth", "peer", "name", "e1")
    for address in ("10.98.0.8", "10.98.0.9"):
        interface.run("ip", "addr", "add", f"{address}/32", "dev", "e0")
    interface.run(uroced(), "--device", "10.98.0.8,10.98.0.9")
    sides = [harness.Side(address, netns=interface.netns) for address in ("10.98.0.8", "10.98.0.9")]

    def sockets_of(address):
        return {entry["gid"]: entry["sockets"] for entry in interface.status("10.98.0.8")["gids"]}[address]

    def clients_of(address):
        return int(interface.inside(f"print(open('/proc/net/unix').read().count('@uroce/{address}'))"))

    def joined(number):
        return wait_for(lambda: len(interface.status("10.98.0.8")["functions"]) == number)

    openers = [interface.opener(sides[0])]
    joined(1)
    interface.run("ip", "addr", "del", "10.98.0.9/32", "dev", "e0")
    openers.append(interface.opener(sides[0]))
    tally.result("a device of which an address is away is opened by another", joined(2) and
                 sockets_of("10.98.0.8") == 3 and sockets_of("10.98.0.9") == 2, openers[1].output())
    asked = clients_of("10.98.0.9")
    openers.append(interface.opener(sides[1]))
    wait_for(lambda: clients_of("10.98.0.9") > asked)
    interface.run("ip", "addr", "add", "10.98.0.9/32", "dev", "e0")
    tally.result("and by that address as soon as it is back", joined(3) and sockets_of("10.98.0.9") == 4,
                 openers[2].output(), str(interface.status("10.98.0.8")))
    for process in openers:
        process.kill()
    interface.end(tally, "10.98.0.8")


def link_local(tally):
    """A device that follows no interface has a link-local address, which comes, goes and comes back."""
    interface = Interface()

    def make(*addresses):
        interface.run("ip", "link", "add", "e0", "type", "veth", "peer", "name", "e1")
        for name in ("e0", "e1"):
            interface.run("ip", "link", "set", name, "up")
        for address in addresses:
            interface.run("ip", "addr", "add", address, "dev", "e0", *["nodad"] * (":" in address))

    def is_heard():
        return interface.hears("fe80::8", "e0")

    def joined(number):
        return wait_for(lambda: len((interface.status("10.98.0.8") or {"functions": []})["functions"]) == number)

    def is_bound(least):
        """Whether the sockets are those of e0, at least so many; a number that was just released still has one."""
        return wait_for(lambda: set(interface.names_of("fe80::8")) == {"e0"} and
                        len(interface.names_of("fe80::8")) >= least)

    make("10.98.0.8/32")
    interface.run(uroced(), "--device", "10.98.0.8,fe80::8", "--stay")
    side, itself = (harness.Side(address, netns=interface.netns) for address in ("10.98.0.8", "fe80::8"))
    interface.run("ip", "addr", "add", "fe80::8/64", "dev", "e0", "nodad")
    tally.result("a link-local address that comes later is served", is_heard(), str(interface.status("10.98.0.8")))
    first = interface.opener(itself)
    joined(1)
    first.kill()
    joined(0)
    interface.run("ip", "link", "del", "e0")
    make("10.98.0.8/32", "fe80::8/64")
    first = interface.opener(itself)
    tally.result("the next program has it on the interface that was made again", joined(1) and is_bound(2),
                 str(interface.names_of("fe80::8")))
    first.kill()
    joined(0)
    interface.run("ip", "link", "del", "e0")
    first = interface.opener(itself)
    early = joined(1)
    make("10.98.0.8/32", "fe80::8/64")
    tally.result("and a program that came before it was made again", early and is_bound(2),
                 str(interface.names_of("fe80::8")))
    first.kill()
    os.kill(interface.status("10.98.0.8")["daemon"]["pid"], signal.SIGKILL)
    wait_for(lambda: not interface.status("10.98.0.8"))

    interface.run(uroced(), "--device", "fe80::8,10.98.0.8")
    openers = [interface.opener(side)]
    joined(1)
    interface.run("ip", "link", "del", "e0")
    make("10.98.0.8/32", "fe80::8/64")
    openers.append(interface.opener(itself))
    tally.result("and one beside another", joined(2) and is_bound(3), str(interface.names_of("fe80::8")))
    os.kill(interface.status("10.98.0.8")["daemon"]["pid"], signal.SIGKILL)
    openers.append(interface.opener(side))
    joined(3)
    openers.append(interface.opener(itself))
    tally.result("a program opens the next daemon's device by it", joined(4) and is_heard(),
                 openers[-1].output(), str(interface.status("10.98.0.8")))
    for process in openers:
        process.kill()
    interface.end(tally, "10.98.0.8")


def two_link_locals(tally):
    """The link-local addresses of a device move to another interface, one after the other."""
    interface = Interface()
    interface.run("ip", "link", "add", "e0", "type", "veth", "peer", "name", "e1")
    side = harness.Side("fe80::9", netns=interface.netns)
    openers = []

    def add(address, name):
        interface.run("ip", "addr", "add", f"{address}/64", "dev", name, "nodad")

    def remove(address, name):
        interface.run("ip", "addr", "del", f"{address}/64", "dev", name)

    def another_joins():
        openers.append(interface.opener(side))
        return wait_for(lambda: len(interface.status("fe80::9")["functions"]) == len(openers))

    for name in ("e0", "e1"):
        interface.run("ip", "link", "set", name, "up")
    for address in ("fe80::8", "fe80::9"):
        add(address, "e0")
    interface.run(uroced(), "--device", "fe80::8,fe80::9")
    another_joins()
    remove("fe80::8", "e0")
    add("fe80::8", "e1")
    joined = another_joins()
    add("fe80::9", "e1")
    remove("fe80::9", "e0")
    add("fe80::9", "e0")
    time.sleep(4)  # more than the daemon takes to leave an interface without addresses
    tally.result("an address stays where it is when the key moves, and when it was away for a moment",
                 joined and another_joins() and set(interface.names_of("fe80::9")) == {"e0"} and
                 interface.status("fe80::9")["counters"]["gids_removed"] == 0, str(interface.status("fe80::9")))
    remove("fe80::9", "e0")
    tally.result("it moves when its interface no longer has any",
                 wait_for(lambda: set(interface.names_of("fe80::9")) == {"e1"}), str(interface.names_of("fe80::9")))
    for process in openers:
        process.kill()
    interface.end(tally, "fe80::9")


def too_many_addresses(tally):
    device = Interface()
    for i in range(2, 18):
        device.address("add", f"10.98.0.{i}")
    tally.result("addresses without room are counted and reported",
                 wait_for(lambda: device.status()["counters"]["gids_refused"] == 1) and len(device.gids()) == 16 and
                 "more addresses" in device.status()["problem"], str(device.status()))
    device.address("add", "10.98.0.18")
    device.address("del", "10.98.0.1")
    wait_for(lambda: "10.98.0.1" not in device.gids())
    other = device.opener(harness.Side("10.98.0.1", netns=device.netns))
    refused = other.wait(20)
    tally.result("the one that has gone is not taken for one of them", refused == 1 and
                 "10.98.0.1 has gone from the interface" in other.output(), other.output(), str(device.status()))
    device.end(tally)


def main():
    args = harness.options(__doc__, ("--only", "run only the test of this name", ""))
    harness.need_programs("ibv_devinfo")
    tally = harness.Tally("uroced")
    tests = [options, connection_lost, no_descriptors, descriptors_thrown, few_files, cannot_ask, no_netlink,
             hostile_keeper, other_address, name_taken, many_tools]
    if os.geteuid() == 0:  # needs interfaces of its own, and other users
        tests += [stranger_takes_no_place, names_held, members, only_members_live, two_users_live,
                  foreign_program, places_kept, kernel_silent, slow_function, interface_again, address_away, link_local,
                  two_link_locals, too_many_addresses]
    for test in tests:
        if args.only in ("", test.__name__):
            test(tally)
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
