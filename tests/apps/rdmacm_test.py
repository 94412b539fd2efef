#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that connect through librdmacm, unmodified: Debian's rdmacm-utils and perftest -R, in two processes of one
device, through shared memory and by the kernel's UDP, between two devices of a host, and between two hosts."""
import filecmp
import os
import socket
import subprocess
import tempfile

import cm
import harness

SECONDS = 60
# Every program of perftest, RC and UD; with -R it refuses UC itself ("not supported in librdmacm").
PERFTEST = [f"{name} -R" for name in ("ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat",
                                      "ib_read_bw", "ib_atomic_lat", "ib_atomic_bw")]
PERFTEST += ["ib_send_lat -R -c UD", "ib_send_bw -R -c UD", "ib_send_bw -R -m 512 -q 4", "ib_write_bw -R -m 256 -q 2",
             "ib_read_bw -R -m 1024 -q 3", "ib_atomic_bw -R -A CMP_AND_SWAP -q 2", "ib_send_bw -R -c UD -q 2"]
# perftest connects a second time without waiting until the server listens again. uroced waits 0.1 s for that, which may
# be too short on a loaded machine; then perftest 4.5 crashes: try once more, and say so. Few runs need it.
RETRIES_MAX = 3
retried = []
REFUSALS = ("RDMA_CM_EVENT_REJECTED; error: 8", "RDMA_CM_EVENT_UNREACHABLE; error: 1")


def programs(to):
    """@return [(name, server, client, what both print)]"""
    cases = [
        ("rping, 100 pings of 1,000 bytes, checked",
         ["rping", "-s", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"],
         ["rping", "-c", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"], "ping data"),
        ("ucmatose, 20 connections", ["ucmatose", "-b", to, "-c", "20", "-C", "10"],
         ["ucmatose", "-s", to, "-c", "20", "-C", "10"], "return status 0"),
        ("udaddy, 5 connections", ["udaddy", "-b", to, "-c", "5"], ["udaddy", "-s", to, "-c", "5"], "return status 0"),
        ("rdma_server and rdma_client", ["rdma_server", "-s", to], ["rdma_client", "-s", to], "end 0"),
        ("rdma_xserver and rdma_xclient, RC", ["rdma_xserver", "-c", "r"], ["rdma_xclient", "-c", "r", "-s", to],
         "end 0"),
        ("rdma_xserver and rdma_xclient, XRC", ["rdma_xserver", "-c", "x"], ["rdma_xclient", "-c", "x", "-s", to],
         "end 0"),
    ]
    cases.append(("rstream, data verified", ["rstream", "-b", to, "-T", "v"], ["rstream", "-s", to, "-T", "v"],
                  "1m_bw"))
    # riostream polls memory and makes no verbs calls meanwhile, so each message waits for the engine's thread: a few
    # sizes, as the 100,000 messages of each of its own sizes take minutes on two CPUs.
    for size in ("64", "4096", "1048576"):
        options = ["-T", "v", "-S", size, "-C", "20", "-I", "20"]
        cases.append((f"riostream, {size} bytes, data verified", ["riostream", "-b", to, *options],
                      ["riostream", "-s", to, *options], "custom"))
    for command in PERFTEST:
        argv = [*command.split(), "-F", "-n", "200"]
        cases.append((command, argv, [*argv, to], "---"))
    return cases


def run_programs(tally, how, sides, env, which=None):
    """@param which how many of the programs; None: all"""
    for name, server_argv, client_argv, words in programs(sides[0].address)[:which]:
        ok, reason, *outputs = cm.pair(server_argv, client_argv, sides, env)
        if not ok and any(refusal in outputs[1] for refusal in REFUSALS) and len(retried) < RETRIES_MAX:
            retried.append(name)
            print(f"refused, once more: {name}, {how}: {reason}", flush=True)
            harness.until(10, lambda: not cm.ports(sides[0]))
            ok, reason, *outputs = cm.pair(server_argv, client_argv, sides, env)
        if ok and not all(words in output for output in outputs):
            ok, reason = False, f"an output without '{words}'"
        tally.result(f"{name}, {how}", ok, reason, *outputs)
        tally.result(f"{name}, {how}: nobody listens afterwards",
                     harness.until(10, lambda: not cm.ports(sides[0])), str(cm.ports(sides[0])))


def members(side, group):
    """@return how many sockets of the side's network are bound to the RoCE port of a group"""
    family, table = (socket.AF_INET6, "udp6") if ":" in group else (socket.AF_INET, "udp")
    raw = socket.inet_pton(family, group)
    words = [raw[i:i + 4][::-1].hex().upper() for i in range(0, len(raw), 4)]  # as the kernel prints them
    said = subprocess.run([*side.enter(), "cat", f"/proc/net/{table}"], stdout=subprocess.PIPE, text=True, check=True)
    return said.stdout.count("".join(words) + ":12B7")


def multicast(tally, how, receivers, sender, group):
    """mckey: each message to a group reaches each receiver, in whatever process, on whatever device and host."""
    argv = ["mckey", "-m", group, "-C", "50", "-S", "1000"]
    processes = []
    for side in receivers:
        before = members(side, group)
        processes.append(harness.Process([*argv, "-b", side.address], side))
        if not harness.until(20, lambda side=side, before=before: members(side, group) > before):
            tally.result(f"mckey, {how}", False, "a receiver does not join", processes[-1].output())
            return
    processes.append(harness.Process([*argv, "-s", "-b", sender.address], sender))
    codes = [process.wait(20) for process in processes]
    outputs = [process.output() for process in processes]
    tally.result(f"mckey, {how}", codes == [0] * len(processes)
                 and all("data transfers complete" in output for output in outputs), f"exit codes {codes}", *outputs)


def copy(tally, how, sides, env):
    """rcopy: a file over rsockets is the same afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as f:
            f.write(os.urandom(5_000_000))
        server = harness.Process(["rcopy"], sides[0], env)
        ready = harness.until(20, lambda: cm.listens(sides[0]))
        client = harness.Process(["rcopy", source, f"{sides[0].address}:{target}"], sides[1], env)
        code = client.wait(SECONDS)
        server.kill()
        tally.result(f"rcopy, 5 MB, {how}", ready and code == 0 and os.path.exists(target)
                     and filecmp.cmp(source, target, False), f"exit code {code}", server.output(), client.output())


def refused(tally, sides):
    """Nobody listens on the port: the request is rejected, and the client ends with an error. Another program keeps
    the device open: if nobody did, nobody would answer."""
    keeper = harness.Process(["rping", "-s", "-a", sides[0].address, "-p", "7176"], sides[0])
    is_open = harness.until(20, lambda: cm.listens(sides[0]))
    for argv in (["rping", "-c", "-a", sides[0].address, "-C", "1"], ["ucmatose", "-s", sides[0].address, "-c", "1"]):
        client = harness.Process(argv, sides[1])
        code = client.wait(SECONDS)
        tally.result(f"{argv[0]} without a server is rejected, and ends with an error",
                     is_open and code is not None and code > 0 and "RDMA_CM_EVENT_REJECTED" in client.output(),
                     f"exit code {code}, somebody has the device open: {is_open}", client.output())
    keeper.kill()


def status(tally, sides):
    """`uroce status --cm` shows the listener."""
    server = harness.Process(["rping", "-s", "-a", sides[0].address, "-p", "7175"], sides[0])
    harness.until(20, lambda: cm.listens(sides[0]))
    said = harness.uroce("status", sides[0].address, "--cm")
    tally.result("uroce status --cm: a listener", "listens on TCP port 7175: " in said.stdout, "", said.stdout,
                 said.stderr)
    server.kill()


def without_hooks(tally, side):
    """A program that cannot connect because it was not started with the hooks says so, and what to do. One that does
    not want to connect does not."""
    if os.path.exists("/dev/infiniband/rdma_cm"):
        print("SKIP programs without hooks: the kernel has /dev/infiniband/rdma_cm", flush=True)
        return
    library = os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "ibverbs", "dropin")
    words = "uroce: librdmacm will not find /dev/infiniband/rdma_cm and cannot connect: start the program with uroce"
    for program in ("rstream", "rdma_server"):
        for how, before, times in (("--no-sysfs", ["--no-sysfs"], 1), ("LD_LIBRARY_PATH", None, 1), ("hooks", [], 0)):
            # With the hooks, a client, which ends; without them, a server ends as well.
            argv = [program if times else program.replace("server", "client"), "-s", side.address, "-p",
                    str(harness.free_port())]
            if before is None:
                process = harness.Process(argv, None, {"LD_LIBRARY_PATH": library, "UROCE_DEVICES": side.devices})
            else:
                process = harness.Process([*before, *argv], side)
            code = process.wait(SECONDS)
            said = process.output().count(words)
            tells = "what to do" if times else "nothing of that"
            tally.result(f"{argv[0]}, {how}: ends with an error, and says {tells}",
                         code not in (None, 0) and said == times, f"exit code {code}, said {said} times",
                         process.output())
    process = harness.Process(["--no-sysfs", "ib_send_lat", "-p", str(harness.free_port()), side.host], side)
    code = process.wait(SECONDS)
    tally.result("ib_send_lat without -R, --no-sysfs: does not say it", code is not None
                 and words not in process.output(), f"exit code {code}", process.output())


def ipv6_sides(hosts):
    """@return sides on IPv6 addresses of the interfaces, which they get"""
    sides = []
    for number, (host, name) in enumerate(zip(hosts, ("va", "vb")), 1):
        host.netns.run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=0")
        host.netns.run("ip", "addr", "replace", f"fd99::{number}/64", "dev", name, "nodad")
        sides.append(harness.Side(f"fd99::{number}", netns=host.netns))
    return sides


def addresses_of_host(tally, netns):
    """The server has an address of an interface; the client has another one of it, or a loopback address."""
    server, other = (harness.Side(address, netns=netns) for address in ("10.99.0.3", "10.99.0.4"))
    for side in (server, other):
        netns.run("ip", "addr", "add", f"{side.address}/24", "dev", "va")
    run_programs(tally, "two addresses of a host that are not loopback", (server, other), None, 3)
    run_programs(tally, "from a loopback device", (server, harness.Side("127.0.0.9", netns=netns)), None, 3)


def main():
    harness.options(__doc__)
    harness.need_programs("rping", "ucmatose", "udaddy", "rstream", "ib_send_lat")
    tally = harness.Tally("rdmacm")
    device, two = harness.one_device_sides(9), harness.loopback_sides(10)
    run_programs(tally, "shared memory", device, None)
    run_programs(tally, "UDP", device, cm.UDP)
    run_programs(tally, "two devices", two, None)
    if os.geteuid() == 0:
        hosts = harness.veth_sides()
        run_programs(tally, "two hosts", hosts, None)
        addresses_of_host(tally, hosts[0].netns)
        multicast(tally, "three processes on two hosts", (*hosts, hosts[1]), hosts[0], "239.99.0.1")
        hosts = ipv6_sides(hosts)
        multicast(tally, "IPv6, two hosts", hosts, hosts[0], "ff0e::99")
    else:
        print("SKIP: two hosts: needs root to make network namespaces", flush=True)
    multicast(tally, "three processes on two devices", (*two, two[0]), two[1], f"239.99.{os.getpid() % 250}.2")
    for how, sides, env in (("shared memory", device, None), ("UDP", device, cm.UDP), ("two devices", two, None)):
        copy(tally, how, sides, env)
    refused(tally, two)
    status(tally, two)
    without_hooks(tally, two[0])
    tally.finish()


if __name__ == "__main__":
    main()
