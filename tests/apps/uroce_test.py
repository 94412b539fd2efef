#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The uroce command next to real programs: devices that stay, what it reports about them, captures, faults, and its
own options and messages."""
import contextlib
import io
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import accounts
import harness

UROCE = os.path.join(harness.ROOT, "scripts", "uroce")
ADDRESS = f"127.{2 + os.getpid() % 250}.9.1"
SIDES = (harness.Side(ADDRESS), harness.Side(ADDRESS))  # two processes, one device
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(UROCE))


def uroce(*argv, seconds=60):
    """@return (exit code, stdout, stderr)"""
    result = subprocess.run([UROCE, *argv], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    return result.returncode, result.stdout, result.stderr


def uroce_json(*argv):
    code, out, err = uroce(*argv, "--json")
    if code:
        raise RuntimeError(f"uroce {' '.join(argv)}: exit code {code}: {err}")
    return json.loads(out)


def functions():
    devices = uroce_json("status", ADDRESS)["devices"]
    return [function for function in devices[0]["functions"] if function["answers"]] if devices else []


class Pair:
    """Two programs that exchange data for a long time."""

    def __init__(self, *more):
        port = str(harness.free_port())
        argv = ["ibv_rc_pingpong", "-g", "0", "-p", port, "-n", "100000000", *more]
        self.server = harness.Process(argv, SIDES[0])
        self.server.wait_listen(int(port), 20)
        self.client = harness.Process(argv + [ADDRESS], SIDES[1])
        self.connected = harness.until(20, self.running)

    def running(self):
        """@return whether both QPs have sent something."""
        found = functions()
        return len(found) == 2 and all(q["counters"]["rx_packets"] for f in found for q in f.get("queue_pairs", [0])
                                       if q) and all(f.get("queue_pairs") for f in found)

    def end(self):
        self.server.kill()
        self.client.kill()


def version():
    """@return what meson.build says: everything else has to agree with it."""
    with open(os.path.join(harness.ROOT, "meson.build"), encoding="utf-8") as f:
        return re.search(r"version: '(.*?)'", f.read()).group(1)


# ---- by itself --------------------------------------------------------------------------------------------------


def usage(tally):
    for argv, code, pattern in (
            ([], 2, r"usage: uroce"),
            (["--help"], 0, r"uroce fault --loss 1%"),
            (["--version"], 0, rf"\Auroce {re.escape(version())}\n\Z"),
            (["run", "--version"], 0, rf"\Auroce run {re.escape(version())}\n\Z"),
            (["nonsense"], 2, r"no command 'nonsense'; there are: "),
            (["status", "127.0.0.250"], 3, r"^uroce: no device '127.0.0.250' is open .*; there are: "),
            (["stat", "--qp", "1"], 2, r"is not a queue pair number; uroce status --qps lists them"),
            (["stat", "--qp", "0xfefefe", "127.0.0.250"], 3, r"no device"),
            *((["stat", "--watch", value], 2, rf"'{value}' is not a time above 0") for value in
              ("-1", "0", "nan", "inf", "90000", "x")),
            *((["stat", "--watch", "1", "--count", value], 2, rf"'{value}' is not a count") for value in
              ("-1", "0", "1.5")),
            (["fault", "--loss", "1"], 2, r"'1' is not a share of packets; write 1% or 0.01"),
            (["fault", "--loss", "101%"], 2, r"is not a share of packets"),
            (["fault", "--delay", "5"], 2, r"is not a time up to 10s; write 200us"),
            (["fault", "127.0.0.250", "--loss", "1%"], 3, r"no device"),
            (["fault", "clear", "127.0.0.250"], 3, r"no device"),
            (["capture", "/nonexistent/file"], 1, r"cannot write /nonexistent/file"),
            (["up", "127.0.0.1x"], 1, r"is neither an address nor an interface"),
            (["up", "203.0.113.77"], 1, r"^uroce: 203\.0\.113\.77 is not an address of this host; ip address .*are$"),
            (["up", ADDRESS, "--allow", "user=nobody-of-this-name"], 1, r"nobody-of-this-name"),
            (["down", "127.0.0.250"], 3, r"no device"),
            (["run", "--help"], 0, r"usage: ")):
        got, out, err = uroce(*argv)
        tally.result(f"uroce {' '.join(argv)}", got == code and re.search(pattern, out + err, re.M) is not None,
                     f"exit code {got}, expected {code} and {pattern}", out + err)
    for command in ("up", "down", "status", "stat", "capture", "fault"):
        got, out, err = uroce(command, "--help")
        tally.result(f"uroce {command} --help", got == 0 and f"usage: uroce {command}" in out, f"exit code {got}", err)


def completion(tally):
    for argv, expected in ((["0", "st"], "stat status"), (["1", "fault", "c"], "clear"),
                           (["1", "fault", "--lo"], "--loss"), (["2", "fault", "--link", ""], "down up"),
                           (["3", "capture", "f", "--direction", "t"], "tx"), (["1", "status", "--q"], "--qps")):
        code, out, _ = uroce("words", *argv)
        tally.result(f"completion of {argv}", code == 0 and out.split() == expected.split(), f"says {out.split()}")


def stays(tally):
    code, out, err = uroce("up", ADDRESS)
    tally.result("up", code == 0 and ADDRESS in out, f"exit code {code}", out + err)
    first = uroce_json("status", ADDRESS)["devices"][0]
    tally.result("status of a device that is not open", first["daemon"]["stay"] and not first["functions"],
                 "not kept", json.dumps(first))
    code, out, err = uroce("up", ADDRESS)
    again = uroce_json("status", ADDRESS)["devices"][0]
    tally.result("up again is the same daemon", code == 0 and again["daemon"]["pid"] == first["daemon"]["pid"],
                 "another", out + err)
    code, _, err = uroce("up", ADDRESS, "--allow", "all")
    tally.result("up with other rights", code == 1 and "uroce down first" in err, f"exit code {code}", err)
    accounted(tally, "up, status, up")
    code, out, err = uroce("down", ADDRESS)
    gone = harness.until(10, lambda: uroce("status", ADDRESS)[0] == 3)
    tally.result("down", code == 0 and gone, f"exit code {code}", out + err)


def accounted(tally, what):
    """Apart from what it reports, the daemon has nothing open."""
    leak = accounts.settled(ADDRESS)
    tally.result(f"{what}: the daemon has kept nothing", not leak, leak)


def other_users(tally):
    """A user who may use a device may not control it, nor its processes, which belong to other users."""
    if os.geteuid():
        return
    another = harness.other_user(12345, "several users")
    if not another:
        return
    def foreigner(*argv):
        result = subprocess.run([*another, UROCE, *argv], capture_output=True, text=True, timeout=60,
                                stdin=subprocess.DEVNULL, check=False)
        return result.returncode, result.stdout + result.stderr
    uroce("up", ADDRESS)
    keep = harness.Process(["ibv_asyncwatch"], SIDES[0])  # in use, so that the daemon does not leave
    harness.until(20, functions)
    code, text = foreigner("status", ADDRESS)
    tally.result("another user's device: status says whose it is", code == 0 and "is a device of user root" in text,
                 f"exit code {code}", text)
    for argv, way in ((["stat"], ()), (["fault", "show"], ()), (["fault", "clear"], ()), (["down"], ()),
                      (["capture", "/dev/null"], ("--device",))):
        for place in ((*way, ADDRESS), ()) if argv[0] != "capture" else ((*way, ADDRESS), ("--seconds", "1")):
            code, text = foreigner(*argv, *place)
            tally.result(f"another user's device: {' '.join((*argv, *place))} says whose it is",
                         "is a device of user root"
                         in text and "use another address" in text and "No " not in text and
                         (code == 1 or place[0] == "--seconds"), f"exit code {code}", text)
    code, text = foreigner("up", ADDRESS)
    tally.result("another user's device: up says whose it is", code == 1 and "is a device of user root" in text,
                 f"exit code {code}", text)
    keep.kill()
    uroce("down", ADDRESS)
    harness.until(10, lambda: uroce("status", ADDRESS)[0] == 3)
    uroce("up", ADDRESS, "--allow", "user=12345")
    keep = harness.Process(["ibv_asyncwatch"], SIDES[0])
    harness.until(20, functions)
    code, text = foreigner("status", ADDRESS)
    tally.result("an allowed user may look", code == 0 and "ibv_asyncwatch" in text, f"exit code {code}", text)
    for argv, words in ((["down", ADDRESS], "for the user who runs the daemon"),
                        (["fault", ADDRESS, "--loss", "1%"], "for the user who runs the daemon"),
                        (["capture", "/dev/null", "--device", ADDRESS, "--seconds", "2"],
                         "captures and faults are for the user who runs the process")):
        code, text = foreigner(*argv)
        tally.result(f"an allowed user may not: {argv[0]}", code == 1 and words in text, f"exit code {code}", text)
    pid = uroce_json("status", ADDRESS)["devices"][0]["daemon"]["pid"]
    harness.stop(pid)
    try:
        code, text, _ = uroce("status", ADDRESS)
    finally:
        os.kill(pid, signal.SIGCONT)
    tally.result("a stopped daemon is not taken for none", code == 0 and "does not answer" in text
                 and "none" not in text,
                 f"exit code {code}", text)
    keep.kill()
    accounted(tally, "other users")
    uroce("down", ADDRESS)


# ---- with programs ----


def services(tally):
    """How the ports that a function serves are shown; test_pmd_services tests that the daemon reports which."""
    from uroce_cmd import status
    facts = {"function": 3, "pid": 42, "command": "x", "uid": 0, "since": 0, "answers": False, "elsewhere": False}
    for ports, expected in (([], None), ([1000], "serves port 1000"), ([7, 1000], "serves ports 7, 1000"),
                            (list(range(1, 31)), "serves ports 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 18 others")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status.print_function({**facts, "services": ports}, 0)
        lines = [line.strip() for line in out.getvalue().splitlines() if "serves" in line]
        tally.result(f"status: {len(ports)} services", lines == ([expected] if expected else []), "other words",
                     out.getvalue())


def looks(tally):
    pair = Pair()
    try:
        found = functions()
        pids = sorted(f["pid"] for f in found)
        tally.result("status: processes", pair.connected and pids == sorted((pair.server.pid, pair.client.pid))
                     and all(f["command"] == "ibv_rc_pingpong" and f["qps"] == 1 for f in found), "not both",
                     json.dumps(found), pair.server.output(), pair.client.output())
        qps = {q["qpn"]: q for f in found for q in f["queue_pairs"]}
        tally.result("status: QPs name each other", len(qps) == 2 and all(
            q["peer_qpn"] in qps and (q["peer"], q["state"], q["by"]) == (ADDRESS, "RTS", "memory")
            for q in qps.values())
            and {n >> 16 for n in qps} == {f["function"] for f in found}, "they do not", json.dumps(qps))
        code, text, _ = uroce("status", ADDRESS, "--qps")
        tally.result("status: text", code == 0 and all(f"0x{n:06x}" in text for n in qps), f"exit code {code}", text)

        stat = uroce_json("stat", ADDRESS)["devices"]
        nic = next(d["nic"] for d in stat if "nic" in d)
        tally.result("stat: sum of both", nic["tx_packets"]["value"] > 0 and nic["tx_packets"]["sentence"]
                     and any("daemon" in d for d in stat), "nothing", json.dumps(stat)[:1000])
        one = min(qps)
        code, text, _ = uroce("stat", "--qp", hex(one), ADDRESS)
        tally.result("stat --qp", code == 0 and f"QP 0x{one:06x}" in text and "Packets sent." in text,
                     f"exit code {code}", text)
        code, text, err = uroce("stat", ADDRESS, "--watch", "0.3", "--count", "3", "--json")
        lines = [json.loads(line) for line in text.splitlines()]
        tally.result("stat --watch: growth", code == 0 and len(lines) == 3 and next(
            d["nic"] for d in lines[2]["devices"] if "nic" in d)["rx_packets"]["per_second"] > 0,
                     f"exit code {code}", err)
        code, text, _ = uroce("stat", "--qp", hex(one ^ 1), ADDRESS)
        tally.result("stat of a QP that does not exist", code == 3, f"exit code {code}", text)

        harness.stop(pair.client.pid)
        code, text, _ = uroce("status", ADDRESS)
        pair.client.popen.send_signal(signal.SIGCONT)
        tally.result("status: a process that is stopped", code == 0 and text.count("does not answer") == 1
                     and str(pair.server.pid) in text, f"exit code {code}", text)
    finally:
        pair.end()


class Pcapng:
    """The contents of a file: packets as (interface, time, direction, bytes), interfaces' names, statistics."""

    def __init__(self, path):
        self.packets, self.names, self.statistics = [], [], {}
        with open(path, "rb") as file:
            data = file.read()
        at = 0
        while at < len(data):
            kind, length = struct.unpack_from("=II", data, at)
            self.block(kind, data[at + 8:at + length - 4])
            assert struct.unpack_from("=I", data, at + length - 4)[0] == length
            at += length

    def block(self, kind, body):
        if kind == 1:
            assert struct.unpack_from("=H", body)[0] == 101
            self.names.append(self.options(body[8:])[2].decode())
        elif kind == 6:
            interface, high, low, caplen, length = struct.unpack_from("=IIIII", body)
            assert caplen == length
            flags = struct.unpack("=I", self.options(body[20 + (caplen + 3 & ~3):])[2])[0]
            self.packets.append((interface, high << 32 | low, flags, body[20:20 + caplen]))
        elif kind == 5:
            options = self.options(body[12:])
            self.statistics[struct.unpack_from("=I", body)[0]] = tuple(
                struct.unpack("=Q", options[code])[0] for code in (4, 5))

    @staticmethod
    def options(data):
        found = {}
        while len(data) >= 4:
            code, length = struct.unpack_from("=HH", data)
            found[code] = data[4:4 + length]
            data = data[4 + (length + 3 & ~3):]
        return found


def tshark(tally, name, path, *expected, script=None):
    if not shutil.which("tshark"):
        print(f"     (tshark is not installed: {name} not decoded)")
        return
    result = harness.tshark(path, "-T", "fields", "-e", "frame.protocols", "-e", "_ws.col.Info", "-e", "_ws.malformed",
                            "-e", "ip.checksum.status", script=script)
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    summary = harness.tshark(path, script=script).stdout  # fields have the column as it is before the script's turn
    wrong = [line for line in lines if "infiniband" not in line[0] or line[2] or "Malformed" in line[1]]
    tally.result(f"tshark: {name}", result.returncode == 0 and lines and not wrong
                 and all(word in summary for word in expected),
                 f"{len(lines)} packets, wrong: {wrong[:3]}", result.stderr)


def icrc_holds(packet):
    """Whether the ICRC of an IPv4 packet without options is right."""
    masked = bytearray(b"\xff" * 8 + packet[:-4])
    for at in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, checksums, the BTH's byte with FECN and BECN
        masked[8 + at] = 0xff
    return zlib.crc32(masked) == struct.unpack("<I", packet[-4:])[0]


def captures(tally, folder, ring):
    """A capture started before the programs has all their packets, through shared memory and sockets alike."""
    case = f"capture (UROCE_RING={ring})"
    uroce("up", ADDRESS)
    path = os.path.join(folder, "all.pcapng")
    capture = harness.Process([UROCE, "capture", path, "--device", ADDRESS])
    started = harness.until(20, lambda: os.path.exists(path) and "capturing" in capture.output())
    # Long enough that most packets come after the captures have begun.
    argv = ["ibv_rc_pingpong", "-g", "0", "-p", "PORT", "-n", "1500", "-s", "3000", "-c"]
    ok, reason, *outputs = harness.run_pair(argv, argv + [ADDRESS], SIDES, 60, {"UROCE_RING": ring})
    time.sleep(0.2)
    capture.popen.send_signal(signal.SIGINT)
    code = capture.wait(20)
    text = capture.output()
    found = Pcapng(path)
    # On a slow machine the capture does not keep up with two programs that only exchange packets. It counts the packets
    # it loses.
    lost = {i: found.statistics.get(i, (0, 0))[1] for i in (0, 1)}
    said = re.search(r"(\d+) packets written(?:, (\d+) lost)?", text)
    tally.result(case, started and ok and code == 0 and said and int(said[1]) == len(found.packets)
                 and int(said[2] or 0) == sum(lost.values()), f"exit code {code}, {reason}, {lost}", text, *outputs)
    times = [packet[1] for packet in found.packets]
    tally.result(f"{case}: in the order of time, each with its ICRC", times == sorted(times) and len(times) > 0
                 and all(icrc_holds(packet[3]) for packet in found.packets), "not so")
    tally.result(f"{case}: an interface a process, each with its statistics", len(found.names) == 2 and
                 found.statistics == {i: (sum(p[0] == i for p in found.packets) + lost[i], lost[i]) for i in (0, 1)},
                 f"{found.names}, {found.statistics}")
    # A process that opens the device is captured some milliseconds later: compare what both ends captured.
    both = max(min((packet[1] for packet in found.packets if packet[0] == i), default=0) for i in (0, 1))
    for i in (0, 1):
        sends = [packet for packet in found.packets if packet[1] >= both and packet[3][28] <= 4]
        sent = {packet[3][37:40] for packet in sends if packet[0] == i and packet[2] == 2}  # PSNs
        received = {packet[3][37:40] for packet in sends if packet[0] == 1 - i and packet[2] == 1}
        tally.result(f"{case}: what process {i} sends arrives", len(sent) > 200
                     and len(sent - received) <= lost[1 - i] and len(received - sent) <= 64 + lost[i],
                     f"{len(sent)} sent, {len(sent - received)} of them missing, {lost}")
    tshark(tally, f"a conversation, UROCE_RING={ring}", path, "RC Send First", "RC Send Last", "RC Acknowledge")


def live_captures(tally, folder):
    pair = Pair()
    try:
        mine = [f for f in functions() if f["pid"] == pair.client.pid][0]
        qpn = mine["queue_pairs"][0]["qpn"]
        path = os.path.join(folder, "live.pcapng")
        code, _, err = uroce("capture", path, "--device", ADDRESS, "--qp", hex(qpn), "--direction", "tx", "--count",
                             "50")
        found = Pcapng(path)
        tally.result("capture --qp --direction tx --count", code == 0 and len(found.packets) == 50 and
                     {p[2] for p in found.packets} == {2} and len(found.names) == 1 and "50 packets" in err,
                     f"exit code {code}, {len(found.packets)} packets", err)
        tshark(tally, "a live one", path, "RC Send")
        code, _, err = uroce("capture", path, "--device", ADDRESS, "--seconds", "0.5")
        tally.result("capture --seconds", code == 0 and len(Pcapng(path).names) == 2, f"exit code {code}", err)
        with open(path, "wb") as out:
            result = subprocess.run([UROCE, "capture", "-", "--device", ADDRESS, "--count", "3"], stdout=out,
                                    stderr=subprocess.PIPE, text=True, timeout=60)
        tally.result("capture to a pipe", result.returncode == 0 and len(Pcapng(path).packets) == 3,
                     f"exit code {result.returncode}", result.stderr)
    finally:
        pair.end()


def extended_captures(tally, folder):
    """Packets with uroce's own opcodes, which its Wireshark script decodes."""
    uroce("up", ADDRESS)
    path = os.path.join(folder, "extended.pcapng")
    capture = harness.Process([UROCE, "capture", path, "--device", ADDRESS, "--count", "1000"])
    started = harness.until(20, lambda: os.path.exists(path) and "capturing" in capture.output())
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "hammer")
    code = harness.Process([program, "2", "0", "100000"], SIDES[0]).wait(60)
    tally.result("capture of extended atomics", started and code == 0 and capture.wait(20) == 0, f"exit code {code}",
                 capture.output())
    script = os.path.join(harness.ROOT, "scripts", "uroce.lua")
    tshark(tally, "extended atomics", path, "RC Masked Compare and Swap", "RC Masked Fetch and Add",
           "RC Extended Atomic Acknowledge", "RC Compare Swap", script=script)


def element_packet(opcode, extension, payload):
    """@return an IPv4 packet with a BTH, from 127.0.0.2 to 127.0.0.3."""
    bth = struct.pack(">BBHII", opcode, 0x40 | (-len(payload) & 3) << 4, 0xffff, 0x123456, 0x80000007)
    body = bth + extension + payload + bytes(-len(payload) & 3) + bytes(4)
    udp = struct.pack(">HHHH", 0xc000, 4791, 8 + len(body), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(body), 0, 0x4000, 64, 17, 0, bytes((127, 0, 0, 2)),
                     bytes((127, 0, 0, 3)))
    return ip + udp + body


def element_captures(tally, folder):
    """Operations on elements, written by hand, because no program of this test uses them."""
    path = os.path.join(folder, "elements.pcap")
    sums = struct.pack(">QIBBBBI", 0x7f0000001000, 0x51525354, 2, 7, 0, 0, 3)
    swap = struct.pack(">QIBBBBI", 64, 7, 12, 4, 0, 0, 1)
    packets = [element_packet(0xc4, sums, bytes(range(24))), element_packet(0xc5, swap, bytes(8)),
               element_packet(0xc6, struct.pack(">I", 0x1f000001), bytes(4))]
    run = struct.pack(">QIBBBBI", 0, 7, 2, 7, 1, 0, 2)
    packets.append(element_packet(0xc4, run, struct.pack(">QQQQ", 0x1000, 1, 0x2000, 2)))
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))  # LINKTYPE_RAW
        for packet in packets:
            f.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
    script = harness.DISSECTOR
    tshark(tally, "operations on elements", path, "RC Elements", "RC Fetch Elements", "RC Elements Acknowledge",
           script=script)
    with open(path, "ab") as f:  # operands are missing
        for packet in element_packet(0xc4, sums, bytes(20)), element_packet(0xc4, run, bytes(24)):
            f.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
    if shutil.which("tshark"):
        result = harness.tshark(path, "-Y", "uroce.malformed", "-T", "fields", "-e", "frame.number", script=script)
        tally.result("tshark: malformed operations on elements", result.stdout.split() == ["5", "6"], result.stdout,
                     result.stderr)


def fault_counters(name):
    """@return the sum over all processes; None while there is none."""
    found = uroce_json("fault", "show", ADDRESS)["functions"]
    return sum(f["counters"][name] for f in found) if found else None


def last_ack_was_lost(outputs):
    """Whether one side of a ping-pong is done with correct data, and the other one could no longer reach it."""
    done = [output for output in outputs if "2000 iters" in output]
    rest = [output for output in outputs if "transport retry counter exceeded" in output]
    return len(done) == len(rest) == 1 and done != rest and "invalid" not in "".join(outputs)


def faults(tally):
    """A program started later is subject to the device's faults, and gets through."""
    uroce("up", ADDRESS)
    code, out, err = uroce("fault", ADDRESS, "--loss", "1%", "--duplicate", "1%", "--reorder", "1%", "--corrupt",
                           "0.5%", "--seed", "7")
    tally.result("fault before there is a process", code == 0 and "seed 7" in out, f"exit code {code}", out + err)
    argv = ["ibv_rc_pingpong", "-g", "0", "-p", "PORT", "-n", "2000", "-c"]
    pair = Pair("-s", "5000")
    try:
        rules = [f["rules"] for f in uroce_json("fault", "show", ADDRESS)["functions"]]
        tally.result("fault: a process that opens the device later has it", len(rules) == 2 and all(
            len(r) == 1 and r[0]["loss"] == 10000000 and r[0]["seed"] == 7 for r in rules), "not so", str(rules))
        hit = harness.until(60, lambda: all(fault_counters(name) for name in
                                    ("fault_lost", "fault_duplicated", "fault_reordered", "fault_corrupted")))
        tally.result("fault: each kind has met packets, and the connection lives", hit and pair.running(), "not all",
                     uroce("fault", "show", ADDRESS)[1])
        code, text, _ = uroce("fault", "show", ADDRESS)
        words = "1% lost, 1% duplicated, 0.5% corrupted, 1% held back for 3 others (seed 7)"
        tally.result("fault show", code == 0 and words in text, f"exit code {code}", text)
        icrc = uroce_json("stat", ADDRESS)["devices"]
        icrc = next(d["nic"] for d in icrc if "nic" in d)["rx_icrc_encapsulated"]["value"]
        tally.result("fault: corruption is found by the ICRC", icrc > 0, "no packet was")
    finally:
        pair.end()
    for _ in range(3):
        ok, reason, *outputs = harness.run_pair(argv, argv + [ADDRESS], SIDES, 120)
        if ok or not last_ack_was_lost(outputs):
            break
        print("again: the first side was done and has left, and the other one asks in vain for the last ACK",
              flush=True)
    tally.result("ibv_rc_pingpong -c with faults", ok and "invalid" not in "".join(outputs), reason, *outputs)
    code, out, err = uroce("fault", "clear", ADDRESS)
    tally.result("fault clear", code == 0, f"exit code {code}", out + err)


def fault_of_a_qp(tally):
    pair = Pair()
    try:
        found = functions()
        rules = lambda: [f["rules"] for f in uroce_json("fault", "show", ADDRESS)["functions"]]  # noqa: E731
        tally.result("fault: cleared for processes that open the device later", rules() == [[], []], "not so",
                     str(rules()))
        code, out, err = uroce("fault", ADDRESS, "--delay", "100us", "--jitter", "50us", "--direction", "both")
        delayed = harness.until(20, lambda: fault_counters("fault_delayed"))
        tally.result("fault --delay", code == 0 and delayed, f"exit code {code}", out + err)
        code, out, err = uroce("fault", ADDRESS, "--link", "down")
        links = {f["link"] for f in functions()}
        tally.result("fault --link down", code == 0 and links == {"down"}, f"exit code {code}, {links}", out + err)
        uroce("fault", "clear", ADDRESS)
        links = {f["link"] for f in functions()}
        tally.result("fault clear: the link is up", links == {"up"}, str(links))
        pair.end()  # it may have given up meanwhile
        pair = Pair()
        found = functions()
        tally.result("the device works again", pair.connected, "it does not", pair.client.output())
        code, out, err = uroce("fault", ADDRESS, "--qp", hex(found[0]["queue_pairs"][0]["qpn"] ^ 1), "--loss", "5%")
        tally.result("fault of a QP that does not exist", code == 3 and not out, f"exit code {code}", err)
        mine = [f for f in found if f["pid"] == pair.client.pid][0]
        code, out, err = uroce("fault", ADDRESS, "--qp", hex(mine["queue_pairs"][0]["qpn"]), "--loss", "100%")
        ended = pair.client.wait(60)
        tally.result("fault --qp --loss 100%: the connection fails", code == 0 and ended not in (0, None)
                     and "transport retry counter exceeded" in pair.client.output(), f"client: {ended}", out + err,
                     pair.client.output())
    finally:
        pair.end()
        accounted(tally, "captures and faults")
        uroce("down", ADDRESS)


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_rc_pingpong")
    tally = harness.Tally("uroce")
    usage(tally)
    completion(tally)
    stays(tally)
    other_users(tally)
    services(tally)
    looks(tally)
    with tempfile.TemporaryDirectory() as folder:
        captures(tally, folder, "on")
        captures(tally, folder, "off")
        live_captures(tally, folder)
        extended_captures(tally, folder)
        element_captures(tally, folder)
    faults(tally)
    fault_of_a_qp(tally)
    tally.finish()


if __name__ == "__main__":
    main()
