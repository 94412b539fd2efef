#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unprivileged containers: Debian's programs over UDP between two of them, over shared memory within one and within
a pod."""
import json
import os
import shutil
import sys

import cm
import harness
import podman

CONNECTING = ["rping", "ucmatose", "udaddy", "rstream"]
PROGRAMS = ["ib_write_bw", "ib_write_lat", "ib_send_lat", "ib_send_bw", "ib_read_bw", "ib_atomic_bw", "ibv_devinfo",
            "ibv_rc_pingpong", *CONNECTING, "sh", "cat", "env", "grep", "ls", "readlink", "dirname", "sleep"]
COUNT, SIZE = 500, 65536
BANDWIDTH = ["ib_write_bw", "-p", "PORT", "-n", str(COUNT), "-s", str(SIZE)]
LATENCY = ["ib_send_lat", "-p", "PORT", "-n", str(COUNT)]
ATOMICS = ["ib_atomic_bw", "-p", "PORT", "-n", str(COUNT)]
READS = ["ib_read_bw", "-p", "PORT", "-n", str(COUNT), "-s", "8192"]
UD_LATENCY = ["ib_send_lat", "-c", "UD", "-p", "PORT", "-n", str(COUNT)]
PAIRS = [BANDWIDTH, LATENCY, ATOMICS, READS, UD_LATENCY]
# Programs with the least bytes that an operation's packets carry, BTH to ICRC, to the server and back. Bytes, because a
# kernel that takes many packets in one call counts one datagram. ACKs are not counted: one may answer many requests.
CARRIED = [(BANDWIDTH, SIZE, 0), (LATENCY, 12 + 4 + 4, 12 + 4 + 4), (ATOMICS, 12 + 28 + 4, 12 + 4 + 8 + 4),
           (READS, 12 + 16 + 4, 8192), (UD_LATENCY, 12 + 8 + 4 + 4, 12 + 8 + 4 + 4)]
VERIFY = (["/usr/bin/verify", "-s", "-p", "PORT"], ["-q", "2", "-n", "8"])


def name_of(argv):
    return " ".join(word for word in argv if word not in ("-p", "PORT"))


def perftest(argv, sides):
    return harness.run_pair(argv, argv + [sides[0].host], sides, 90)


def verify(sides):
    """Every operation, with every byte checked."""
    server, more = VERIFY
    return harness.run_pair(server, ["/usr/bin/verify", "-c", sides[0].host, "-p", "PORT", *more], sides, 120)


def confined(tally, container):
    """The containers are as restricted as this test claims."""
    code, out = container.run("cat", "/proc/self/status")
    status = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
    nothing = all(int(status.get(kind, "1"), 16) == 0 for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    tally.result("no capability, no new privileges, seccomp, an ordinary user",
                 code == 0 and nothing and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and
                 set(status["Uid"].split()) == {str(podman.USER)}, "", out)
    code, out = container.run("sh", "-c", "echo > /usr/file")
    tally.result("nothing can be written to the root file system", code != 0 and "ead-only" in out, "", out)


def over_udp(tally, a, b):
    """On a shared network: everything goes by UDP, and all bytes through the network's interfaces."""
    for argv, *carried in CARRIED:
        before = [(side.datagrams(), side.received()) for side in (a, b)]
        ok, reason, server, client = perftest(argv, (a, b))
        tally.result(f"two containers: {name_of(argv)}", ok, reason, server, client)
        if ok:
            sent = [side.datagrams() - datagrams for side, (datagrams, _) in zip((a, b), before)]
            came = [side.received() - received for side, (_, received) in zip((a, b), before)]
            tally.result(f"by UDP: {name_of(argv)}", all(sent) and all(map(lambda c, n: c >= COUNT * n, came, carried)),
                         f"datagrams of server and client {sent}, bytes to them {came}")
    ok, reason, server, client = verify((a, b))
    tally.result("two containers: every byte of every operation", ok, reason, server, client)


def over_the_ring(tally, what, a, b, pairs):
    """Two processes in one network namespace: no datagram is sent, and loopback carries fewer bytes than the data."""
    sides = (a, b)
    for argv in pairs:
        sent, received = a.datagrams(), a.received("lo")
        ok, reason, server, client = perftest(argv, sides)
        tally.result(f"{what}: {name_of(argv)}", ok, reason, server, client)
        tally.result(f"{what}, by the ring: {name_of(argv)}", a.datagrams() == sent,
                     f"{a.datagrams() - sent} UDP datagrams")
        if argv is BANDWIDTH:
            tally.result(f"{what}: no data by loopback", a.received("lo") - received < COUNT * SIZE / 10,
                         f"{a.received('lo') - received} bytes")
    sent = a.datagrams()
    ok, reason, server, client = verify(sides)
    tally.result(f"{what}: every byte of every operation", ok and a.datagrams() == sent,
                 reason or f"{a.datagrams() - sent} UDP datagrams", server, client)


def connections(tally, what, a, b):
    """Programs that connect through librdmacm."""
    to = a.address
    for words, server_argv, client_argv in (
            ("ping data", ["rping", "-s", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"],
             ["rping", "-c", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"]),
            ("return status 0", ["ucmatose", "-b", to, "-c", "20", "-C", "10"],
             ["ucmatose", "-s", to, "-c", "20", "-C", "10"]),
            ("return status 0", ["udaddy", "-b", to, "-c", "5"], ["udaddy", "-s", to, "-c", "5"]),
            ("custom", ["rstream", "-b", to, "-T", "v", "-S", "65536", "-C", "100", "-I", "10"],
             ["rstream", "-s", to, "-T", "v", "-S", "65536", "-C", "100", "-I", "10"]),
            ("---", ["ib_send_lat", "-R", "-F", "-n", "200"], ["ib_send_lat", "-R", "-F", "-n", "200", to]),
            ("---", ["ib_write_bw", "-R", "-F", "-n", "200", "-q", "2"],
             ["ib_write_bw", "-R", "-F", "-n", "200", "-q", "2", to])):
        server = harness.Process(server_argv, a)
        harness.until(20, lambda: any(entry["state"] == "listen" for function in functions(a)
                                      for entry in function.get("cm", [])))
        client = harness.Process(client_argv, b)
        codes = client.wait(60), server.wait(10)
        outputs = server.output(), client.output()
        codes = cm.code_of(client_argv, codes[0], outputs[1]), cm.code_of(server_argv, codes[1], outputs[0])
        tally.result(f"{what}: {' '.join(client_argv[:2])}", codes == (0, 0) and all(words in said for said in outputs),
                     f"exit codes {codes}", *outputs)


def ring_off(tally, a):
    """The counters used above do count: the same traffic with the ring off."""
    sent, side = a.datagrams(), a.having("UROCE_RING=off")
    ok, reason, server, client = perftest(LATENCY, (side, side))
    tally.result("one container, ring off: by UDP", ok and a.datagrams() - sent >= COUNT,
                 reason or f"{a.datagrams() - sent} UDP datagrams", server, client)


def device_files(tally, a):
    """The device files that a kernel driver would show, and the installed commands."""
    code, out = a.run("cat", "/sys/class/infiniband/uroce0/node_guid")
    tally.result("device files", code == 0 and len(out.strip()) == 19, "", out)
    code, out = a.run("env", "-u", "LD_PRELOAD", "-u", "LD_LIBRARY_PATH", "uroce", "run", "ibv_devinfo")
    tally.result("the installed uroce run", code == 0 and "uroce0" in out and "PORT_ACTIVE" in out, "", out)
    harness.until(20, lambda: not daemons(a))
    code, out = a.run("uroce", "status")
    tally.result("the installed uroce status, without devices", code == 0 and "No device is open" in out, "", out)


class Opener:
    """A process in a container that has a device open."""

    def __init__(self, container):
        self.container = container
        self.process = container.start("sh", "-c", "echo $$; exec /usr/bin/open_device")
        if not harness.until(20, lambda: "opened" in self.process.output()):
            raise RuntimeError(f"a device cannot be opened: {self.process.output()}")

    def kill(self):
        self.container.run("sh", "-c", f"kill -9 {self.process.output().split()[0]}")
        self.process.wait(20)


def daemons(container):
    """@return devices that have a daemon, according to `uroce status` in the container."""
    code, out = container.run("uroce", "status", "--json")
    return [device for device in json.loads(out)["devices"] if device["daemon"]] if code == 0 else []


def functions(container):
    return [function for device in daemons(container) for function in device["functions"]]


def connected(container):
    """@return how the queue pairs of the container's device reach their peers, once two are connected."""
    ways = [qp["by"] for function in functions(container) for qp in function.get("queue_pairs", []) if "by" in qp]
    return ways if len(ways) == 2 else None


def pod_status(tally, first, second):
    """A process in another PID namespace has no PID here; `uroce status` still shows which program it is."""
    harness.until(20, lambda: not daemons(first))
    held = Opener(first)
    seen = functions(second)
    tally.result("status from the other container", [(f["command"], f["state"], f["pid"]) for f in seen] ==
                 [("open_device", "live", None)], str(seen))
    code, out = second.run("uroce", "status", "--qps")
    tally.result("and in words", code == 0 and "open_device" in out and out.count("in another container") == 2, "", out)
    code, out = first.run("uroce", "status")
    tally.result("status from its own container", code == 0 and "in another" not in out, "", out)
    code, out = second.run("uroce", "stat")
    tally.result("stat from the other container", code == 0 and "visitors" in out, "", out)
    held.kill()


def pod_member(host, pod, name, **more):
    return podman.Container(host, name, [f"--network=container:{pod.name}"], **more)


def pod_other_user(tally, host, pod, first):
    """Another user is refused with a message; if both sides allow each other, it is not."""
    other = pod_member(host, pod, "other-user", user=podman.USER + 1)
    held = Opener(first)
    code, out = other.run("ibv_devinfo")
    tally.result("a container of another user is refused", code != 0 and "UROCE_ALLOW" in out and
                 "another container" in out and "pid 0" not in out, f"exit code {code}", out)
    held.kill()
    harness.until(20, lambda: not daemons(first))
    sides = first.having("UROCE_ALLOW=all"), other.having("UROCE_ALLOW=all", address=first.host)
    sent = pod.datagrams()
    ok, reason, server, client = perftest(LATENCY, sides)
    tally.result("and let in where both say so", ok and pod.datagrams() == sent,
                 reason or f"{pod.datagrams() - sent} UDP datagrams", server, client)


def pod_daemon_dies(tally, host, pod, first, second):
    """The daemon is in the container that opened the device first, and dies with it; the other processes go on."""
    third = pod_member(host, pod, "third")
    harness.until(20, lambda: not daemons(first))
    held = Opener(third)
    port = str(harness.free_port())
    argv = ["ib_write_bw", "-p", port, "-s", "4096", "-D", "6"]
    server = first.start(*argv)
    server.wait_listen(int(port), 20)
    client = second.start(*argv, first.host)
    seen = harness.until(20, lambda: connected(first))
    tally.result("connections in the pod are by memory", seen and set(seen) == {"memory"}, str(functions(first)))
    tally.result("the daemon is where the device was opened first", daemons(third)[0]["daemon"]["pid"] and
                 not daemons(first)[0]["daemon"]["pid"], str(daemons(third)))
    host.ask("kill", third.name)
    held.process.wait(20)
    ok, reason, *outputs = perftest(LATENCY, (first, second))
    tally.result("the daemon's container is killed: others open the device", ok, reason, *outputs)
    codes = client.wait(60), server.wait(20)
    tally.result("traffic went on", codes == (0, 0), f"exit codes {codes}", server.output(), client.output())


def alone(tally, host):
    """Without a network, loopback and the ring work."""
    container = podman.Container(host, "alone", ["--network=none"])
    sent = container.datagrams()
    ok, reason, server, client = perftest(LATENCY, (container, container))
    tally.result("a container without a network", ok and container.datagrams() == sent, reason, server, client)


def as_first_process(tally, host):
    """As `podman run IMAGE PROGRAM`: the program is process 1, and the container ends with it."""
    port, outputs = str(harness.free_port()), []
    argv = ["ib_send_lat", "-p", port, "-n", str(COUNT)]
    server = harness.Process([*host.podman, *host.options("server", ["--network=rdma", "--ip=10.98.0.100", "--rm"],
                                                          podman.USER), *argv])
    pid = harness.until(20, lambda: host.pid("server"))
    server.proc = f"{host.proc}/{pid}"
    listens = server.wait_listen(int(port), 20)
    client = harness.Process([*host.podman, *host.options("client", ["--network=rdma", "--rm"], podman.USER), *argv,
                              "10.98.0.100"])
    codes = client.wait(60), server.wait(20)
    outputs = server.output(), client.output()
    tally.result("programs that are containers", listens and codes == (0, 0), f"exit codes {codes}", *outputs)
    left = host.ask("ps", "--all", "--format", "{{.Names}}").split()
    tally.result("the containers are gone", "server" not in left and "client" not in left, str(left))


def frugal(tally, host):
    """A read-only file system everywhere, and few descriptors."""
    # /dev/shm always exists, unless something else is mounted there.
    container = podman.Container(host, "frugal", ["--network=rdma", "--read-only-tmpfs=false", "--ulimit=nofile=64:64",
                                                  f"--volume={host.tree.root}/tmp:/dev/shm:ro"])
    code, out = container.run("sh", "-c", "echo > /tmp/file || echo > /dev/shm/file")
    tally.result("a container without a place to write", code != 0, "", out)
    ok, reason, server, client = perftest(LATENCY, (container, container))
    tally.result("is enough, and 64 descriptors", ok, reason, server, client)


def main():
    args = harness.options(__doc__, ("--only", "run only the test of this name", ""))
    harness.need_root()
    harness.need_programs("ib_write_bw", "ibv_devinfo", "unshare", "nsenter", "ip")
    if not shutil.which("podman"):
        harness.skip("podman is not installed; scripts/packages install containers")
    build = os.path.abspath(args.build)
    host = podman.Host(build, [*PROGRAMS, harness.verify_path(),
                               os.path.join(build, "tests", "apps", "open_device")])
    host.probe()
    tally = harness.Tally("containers")
    a, b = (podman.Container(host, name, ["--network=rdma"]) for name in ("a", "b"))

    def pod():
        first, second = (pod_member(host, a, name) for name in ("first", "second"))
        for member in (first, second):
            member.host = a.address
        tally.result("a pod: one network namespace, two of processes", first.namespace("net") == second.namespace("net")
                     and first.namespace("pid") != second.namespace("pid"), "")
        over_the_ring(tally, "a pod", first, second, PAIRS[:3])
        pod_status(tally, first, second)
        pod_other_user(tally, host, a, first)
        pod_daemon_dies(tally, host, a, first, second)

    tests = {"confined": lambda: confined(tally, a), "files": lambda: device_files(tally, a),
             "udp": lambda: over_udp(tally, a, b), "ring": lambda: over_the_ring(tally, "one container", a, a, PAIRS),
             "ring_off": lambda: ring_off(tally, a), "pod": pod, "alone": lambda: alone(tally, host),
             "connections": lambda: (connections(tally, "two containers", a, b),
                                     connections(tally, "one container", a, a)),
             "first_process": lambda: as_first_process(tally, host), "frugal": lambda: frugal(tally, host)}
    for name, test in tests.items():
        if args.only in ("", name):
            test()
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
