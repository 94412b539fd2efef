#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Floods a device with strangers' packets of every class while two processes talk: they go on, if slower, and
nothing of the flood remains.

Two processes talk to each other over RC queue pairs (fi_pingpong), and serve ports, so that datagrams to no
registered service reach one of them. The stranger is an ordinary user of the host, or another host (two network
namespaces).
"""
import json
import os
import subprocess
import time

import harness

# Class: the drop counters of which one must have grown. "daemon" is the device's daemon.
CLASSES = {
    "service_opcodes": [("port", "rx_misrouted_refused")],
    "service_sends": [("port", "rx_misrouted_limited")],
    "functions": [("nic", "rx_no_qp"), ("daemon", "unowned_datagrams")],
    "unknown": [("nic", "rx_no_qp")],
    "icrc": [("nic", "rx_icrc_encapsulated")],
    "truncated": [("nic", "rx_too_short")],
    "noise": [("nic", "rx_bad_opcode")],
    "empty": [("port", "rx_empty"), ("daemon", "unowned_datagrams")],
    "known": [("nic", "rx_bad_source")],
    "cnp": [("nic", "rx_cnp_ignored")],
    "merged": [("port", "rx_misrouted")],
}
STEP_PACKETS_MAX = 800  # PMD_STEP_PACKETS_MAX of pmd/engine/engine_priv.h
RSS_KIB = 4096  # a process may grow by this: pages touched for the first time
WINDOW_S = 3    # length of a flood; messages must arrive in each
ANSWER_S = 30   # limit for `uroce stat` to answer


class Host:
    """Where the device is: a namespace, or this process's."""

    def __init__(self, netns=None):
        self.enter = ["nsenter", f"--net=/proc/{netns.pid}/ns/net"] if netns else []

    def ask(self, *argv):
        done = subprocess.run([*self.enter, harness.UROCE, *argv, "--json"], capture_output=True, text=True,
                                      timeout=ANSWER_S, stdin=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def try_ask(self, *argv):
        """None: no answer in time."""
        try:
            return self.ask(*argv)
        except subprocess.TimeoutExpired:
            return None


class Talk:
    """A server and a client of one device that exchange messages for a long time."""

    def __init__(self, host, side, env):
        self.host, self.address = host, side.address
        port = str(harness.free_port())
        argv = ["fi_pingpong", "-p", "uroce", "-e", "rdm", "-d", "uroce0", "-I", "1000000000", "-S", "64", "-B", port]
        self.server = harness.Process(argv, side, env)
        if not self.server.wait_listen(int(port), 20):
            raise RuntimeError(f"fi_pingpong does not listen: {self.server.output()}")
        self.client = harness.Process(argv[:-2] + ["-P", port, side.address], side, env)
        self.begun = bool(harness.until(30, lambda: len(self.qps() or []) == 2 and self.messages() > 1000))

    def qps(self):
        """@return (function, QPN, state, packets received) of RC queue pairs; None: no answer."""
        said = self.host.try_ask("status", self.address, "--qps")
        if not said or not said["devices"]:
            return None
        return [(f["function"], q["qpn"], q["state"], q["counters"]["rx_packets"])
                for f in said["devices"][0]["functions"]
                for q in f.get("queue_pairs", []) if q["type"] == "RC"]

    def messages(self):
        return sum(q[3] for q in self.qps() or [])

    def lives(self):
        return self.server.popen.poll() is None and self.client.popen.poll() is None

    def counters(self):
        """@return {(group, name): value}, summed over all processes and the daemon; None: no answer."""
        said = self.host.try_ask("stat", self.address, "--all")
        if not said:
            return None
        return {(group, name): c["value"] for device in said["devices"] for group, counters in device.items()
                if isinstance(counters, dict) for name, c in counters.items()}

    def size(self):
        """@return descriptors and resident KiB of each process and the daemon; nothing when the daemon does not
        answer."""
        device = self.host.ask("status", self.address)["devices"][0]
        if not device["daemon"]:
            return {}
        pids = [f["pid"] for f in device["functions"]] + [device["daemon"]["pid"]]
        return {pid: (len(os.listdir(f"/proc/{pid}/fd")), resident(pid)) for pid in pids}

    def end(self):
        self.client.kill()
        self.server.kill()


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def grown(before, after):
    """@return what has grown too much; "" if nothing has."""
    return ", ".join(f"process {pid}: {before[pid]} -> {after.get(pid)} (descriptors, KiB)" for pid in before
                     if pid not in after or after[pid][0] > before[pid][0] or
                     after[pid][1] > before[pid][1] + RSS_KIB)


def dropped(what, before, after):
    """Whether one of these counters has grown."""
    return any(after.get(counter, 0) > before.get(counter, 0) for counter in what)


def counters_if_dropped(what, before, after):
    return after if after and dropped(what, before, after) else None


def flood(tally, name, talk, class_name, stranger, seconds):
    qps, size, before = talk.qps(), harness.until(15, talk.size), talk.counters()
    if not qps:
        tally.result(f"{name}: {class_name}: they talk before it", False, f"queue pairs {qps}", talk.client.output())
        return
    talking = {q[1] for q in qps}
    target = max(qps)[1] if class_name == "merged" else min(qps)[1]
    sender = harness.Process([*stranger.enter, os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "flood"),
                              class_name, stranger.address, talk.address, hex(target), str(seconds)])
    windows, answers, last = [], 0, sum(q[3] for q in qps)
    while sender.popen.poll() is None:
        time.sleep(min(WINDOW_S, seconds))
        now = talk.qps()
        answers += now is not None
        if now is None or {q[1] for q in now} != talking:
            windows.append(0)
            break
        windows.append(sum(q[3] for q in now) - last)
        last += windows[-1]
    code = sender.wait(seconds + 60)
    what = CLASSES[class_name]
    # The daemon reads its socket, and answers, when it gets a CPU, which may be after the flood.
    after = harness.until(15, lambda: before and counters_if_dropped(what, before, talk.counters())) or talk.counters()
    qps = talk.qps() or []
    name = f"{name}: {class_name}"
    tally.result(f"{name}: the conversation goes on", code == 0 and talk.lives() and all(windows) and answers,
                 f"exit code {code}, messages in each window {windows}, {answers} answers", sender.output(),
                 talk.client.output())
    tally.result(f"{name}: its queue pairs live", {q[1] for q in qps if q[2] == "RTS"} == talking, str(qps))
    if not before or not after:
        tally.result(f"{name}: uroce stat answers", False, f"before: {bool(before)}, after: {bool(after)}")
        return
    tally.result(f"{name}: what is dropped is counted", dropped(what, before, after),
                 f"none of {what} grew: {[before.get(c) for c in what]}, {[after.get(c) for c in what]}")
    most = after.get(("port", "lock_packets_max"), None)
    tally.result(f"{name}: no step takes too many packets", most is not None and 0 < most <= STEP_PACKETS_MAX,
                 f"{most}")
    left = harness.until(15, lambda: not grown(size, talk.size()))  # links that only strangers used are closed
    tally.result(f"{name}: nothing stays", size and left,
                 grown(size, talk.size()) or "the daemon did not answer before")
    print(f"     {sender.output().strip()} packets, {sum(windows)} messages, longest hold of the lock "
          f"{after.get(('port', 'lock_held_ns_max'), 0) / 1e6:.1f} ms, most packets {most}", flush=True)


class Stranger:
    def __init__(self, address, enter=()):
        self.address, self.enter = address, list(enter)


def place(tally, name, host, side, stranger, env, classes, seconds):
    talk = Talk(host, side, env)
    try:
        tally.result(f"{name}: they talk", talk.begun, f"{talk.qps()}", talk.server.output(), talk.client.output())
        for class_name in classes if talk.begun else ():
            flood(tally, name, talk, class_name, stranger, seconds)
            if not talk.lives() or not talk.qps():
                talk.end()
                talk = Talk(host, side, env)
    finally:
        talk.end()


def main():
    args = harness.options(__doc__, ("--seconds", "of each class (default: 10)", 10),
                           ("--only", "this class only (default: all)", ""), *harness.EVERY)
    harness.need_programs("fi_pingpong")
    tally = harness.Tally("flood")
    classes = [args.only] if args.only else list(CLASSES)
    sides = harness.loopback_sides(lane=77)
    stranger = Stranger(sides[1].address)
    turn = harness.turn(args, classes)
    place(tally, "a user, shared memory", Host(), sides[0], stranger, {}, classes, args.seconds)
    place(tally, "a user, UDP", Host(), sides[0], stranger, {"UROCE_RING": "off"}, turn, args.seconds)
    if os.geteuid():
        print("SKIP another host: needs root (network namespaces)", flush=True)
    else:
        a, b = harness.veth_pair()
        side = harness.Side("10.99.0.1", netns=a)
        stranger = Stranger("10.99.0.2", ["nsenter", f"--net=/proc/{b.pid}/ns/net"])
        place(tally, "another host, shared memory", Host(a), side, stranger, {}, turn, args.seconds)
        place(tally, "another host, UDP", Host(a), side, stranger, {"UROCE_RING": "off"}, turn, args.seconds)
    tally.finish()


if __name__ == "__main__":
    main()
