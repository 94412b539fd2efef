#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce with the Linux kernel's rdma_rxe, which runs in a QEMU guest built by this test.

The data verifier (tests/apps/verify) runs on both sides, over uroce here and over rxe there, and checks every byte,
immediate and completion field of every operation in both directions; also with random packet loss in both directions
(netem in the guest, on RoCE packets only), and with uroce's ethdev port, which sees whole frames. Programs of
rdmacm-utils connect in both directions, through the kernel's connection manager in the guest (CM-10).

Needs root (taps, namespaces) and, once, the network for a Debian kernel; otherwise it skips with a message.
UROCE_INTEROP_ONLY runs just the cases whose name contains its value; rxe__CM_10_ends is the name of several.
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import cm  # noqa: E402
import entry  # noqa: E402
import harness  # noqa: E402
import stall  # noqa: E402
from guest import ETHDEV_IP, GUEST_IP, HOST_IP, Guest, network_up  # noqa: E402

SIZES = {1024: "0,1,7,1023,1024,1025,65539,1048576,3145728", 4096: "0,1,7,4095,4096,4097,65539,1048576,3145728"}
RELIABLE, LOSSY = "-t rc -q 2 -n 3 -T 19 -w 60000", "-t rc -q 2 -n 3 -T 17 -w 90000"
UNRELIABLE = "-t uc,ud -q 2 -n 4 -w 3000"
ATTEMPTS = 3  # of a case in which rxe stalls: see stall.py

# name, which end is the client, which end requests, port, loss in percent, options
CASES = [(f"RC MTU {mtu}, {who} requests, {client} connects", client, who, "udp", 0,
          f"{RELIABLE} -m {mtu} -z {SIZES[mtu]}{more}")
         for mtu, client, who, more in ((1024, "uroce", "uroce", ""), (1024, "rxe", "rxe", " -e"),
                                        (4096, "uroce", "rxe", ""), (4096, "rxe", "uroce", " -e"))]
CASES += [
    ("RC MTU 1024, both request at once", "uroce", "both", "udp", 0, f"{RELIABLE} -m 1024 -e -z {SIZES[1024]}"),
    ("RC MTU 4096, both request at once", "uroce", "both", "udp", 0, f"{RELIABLE} -m 4096 -z {SIZES[4096]}"),
    ("UC and UD MTU 1024, uroce requests", "uroce", "uroce", "udp", 0, f"{UNRELIABLE} -m 1024 -z 0,1,1023,1024,9000"),
    ("UC and UD MTU 4096, rxe requests", "uroce", "rxe", "udp", 0, f"{UNRELIABLE} -m 4096 -z 0,1,4095,4096,9000"),
    ("RC MTU 1024, 1% loss, uroce requests", "uroce", "uroce", "udp", 1, f"{LOSSY} -m 1024 -z 1,1024,65539,262144"),
    ("RC MTU 1024, 1% loss, rxe requests", "uroce", "rxe", "udp", 1, f"{LOSSY} -m 1024 -z 1,1024,65539,262144"),
    ("RC MTU 4096, 1% loss, both request", "uroce", "both", "udp", 1, f"{LOSSY} -m 4096 -z 1,4096,65539,262144"),
    ("RC MTU 1024, ethdev port, both request", "uroce", "both", "ethdev", 0, f"{RELIABLE} -m 1024 -z {SIZES[1024]}"),
    ("RC MTU 4096, ethdev port, 1% loss", "uroce", "both", "ethdev", 1, f"{LOSSY} -m 4096 -z 1,4096,65539"),
    ("UD MTU 1024, ethdev port", "uroce", "both", "ethdev", 0, "-t ud -q 2 -n 4 -w 3000 -z 0,1,1024"),
]

BOTH = ("uroce", "rxe")
# name, server, client, what the client prints; TO is the server's address
CM_CASES = [
    ("rping, checked", "rping -s -a TO -C 20 -S 1000 -V -v", "rping -c -a TO -C 20 -S 1000 -V -v", "ping data"),
    ("ucmatose, 5 connections", "ucmatose -b TO -c 5 -C 5", "ucmatose -s TO -c 5 -C 5", "return status 0"),
    ("udaddy, 3 connections", "udaddy -b TO -c 3", "udaddy -s TO -c 3", "return status 0"),
    ("rdma_server and rdma_client", "rdma_server -s TO", "rdma_client -s TO", "end 0"),
    ("rdma_xserver and rdma_xclient, RC", "rdma_xserver -c r", "rdma_xclient -c r -s TO", "end 0"),
    *((f"{name}, data verified", f"{name} -b TO -T v -S 4096 -C 20 -I 5", f"{name} -s TO -T v -S 4096 -C 20 -I 5",
       "custom") for name in ("rstream", "riostream")),
]
# perftest 4.5 crashes if it connects before the server listens again, which uroce waits for and rxe does not: uroce
# listens.
CM_PERFTEST = [(f"{command} -R", f"{command} -R -F -n 50", f"{command} -R -F -n 50 TO", "---")
               for command in ("ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw",
                               "ib_atomic_lat", "ib_atomic_bw", "ib_send_lat -c UD", "ib_send_bw -c UD")]
GROUP, GROUP_HEX = "239.77.0.1", "01004DEF"  # as in /proc/net/igmp
CM_PROGRAMS = {"mckey", *(command.split()[0] for case in CM_CASES + CM_PERFTEST for command in case[1:3])}

# The DREQ (QP 1 in the BTH, attribute 0x0015 in the MAD header) of the guest is spared: the kernel sends that of a
# process that has ended once only, so a server whose DREQ is lost would wait for ever.
LOSS_OUT = """
/bin/tc qdisc add dev eth0 root handle 1: prio &&
/bin/tc qdisc add dev eth0 parent 1:3 netem limit 10000 loss {percent}% &&
/bin/tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 4791 0xffff
    match u32 1 0xffffff at 32 match u16 0x0015 0xffff at 64 flowid 1:1 &&
/bin/tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 4791 0xffff flowid 1:3
""".replace("\n", " ")
LOSS_IN = """
/bin/ip link add ifb9 type ifb && /bin/ip link set ifb9 up &&
/bin/tc qdisc add dev ifb9 root netem limit 10000 loss {percent}% &&
/bin/tc qdisc add dev eth0 ingress &&
/bin/tc filter add dev eth0 parent ffff: protocol ip u32 match ip dport 4791 0xffff
    action mirred egress redirect dev ifb9
""".replace("\n", " ")
LOSS_ON = LOSS_OUT + "&&" + LOSS_IN
LOSS_OFF = "/bin/tc qdisc del dev eth0 root; /bin/tc qdisc del dev eth0 ingress; /bin/ip link del ifb9"


def is_wanted(name):
    return os.environ.get("UROCE_INTEROP_ONLY", "") in name


def check_lives(guest):
    if guest.process.poll() is not None:
        raise RuntimeError("the guest died; its console says:\n" + guest.console_text()[-2000:])


def host_side(port):
    if port == "udp":
        return harness.Side(HOST_IP)
    return harness.Side(ETHDEV_IP, f"{ETHDEV_IP}/24/ethdev=net_af_packet0,iface=ve1", host=HOST_IP)


def case_run(guest, case, number):
    """@return whether it passed, why not, the output of both sides, and whether rxe stalled"""
    name, client, requester, port, _, extra = case
    program, tcp = harness.verify_path(), str(18700 + number)
    direction = "both" if requester == "both" else ("client" if requester == client else "server")
    more = ["-D", direction, "-r", str(number + 1), *extra.split()]
    side, limit, watch = host_side(port), 150, stall.Watch("tap0")
    server = ["-s", "-p", tcp]
    if client == "uroce":
        channel = guest.start("verify -g 1 " + " ".join(server))
        host = harness.Process([program, "-g", "0", "-c", GUEST_IP, "-p", tcp, *more], side)
    else:
        host = harness.Process([program, "-g", "0", *server], side)
        channel = guest.start(f"verify -g 1 -c {HOST_IP} -p {tcp} " + " ".join(more))
    code = host.wait(limit)
    guest_code, guest_output = guest.finish(channel, 20 if code == 0 else 3)
    if guest_code is None:
        guest.start("killall -9 verify").close()
    stalled = watch.end(host.output(), guest_output) and code is not None and guest_code is not None
    ok = code == 0 and guest_code == 0
    return ok, f"uroce side: exit code {code}, rxe side: {guest_code}", host.output(), guest_output, stalled


def verify_cases(guest, tally):
    losing = 0
    for number, case in enumerate(CASES):
        if not is_wanted(case[0]):
            continue
        if case[4] != losing:
            losing = case[4]
            guest.sh(LOSS_ON.format(percent=losing) if losing else LOSS_OFF)
        for attempt in range(1, ATTEMPTS + 1):
            started = time.monotonic()
            ok, reason, *outputs, stalled = case_run(guest, case, number)
            check_lives(guest)
            if not stalled or attempt == ATTEMPTS:
                break
            print(f"     {case[0]}: rxe has requests to send and sends nothing: once more", flush=True)
        tally.result(f"{case[0]} ({time.monotonic() - started:.0f} s)", ok, reason, *outputs)
    if losing:
        guest.sh(LOSS_OFF)


def host_states():
    """@return the states of uroce's connection manager IDs"""
    said = harness.uroce("status", HOST_IP, "--json")
    devices = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    return [entry["state"] for device in devices for function in device["functions"]
            for entry in function.get("cm", [])]


def host_listens():
    return "listen" in host_states()


def guest_listens(guest):
    return "LISTEN" in guest.sh("rdma resource show cm_id")


def cm_case_run(guest, case, server_of):
    """A program of rdmacm-utils; its server runs on the side `server_of`."""
    _, *commands, words = case
    server, client = (command.replace("TO", HOST_IP if server_of == "uroce" else GUEST_IP) for command in commands)
    side = host_side("udp")
    if server_of == "uroce":
        host = harness.Process(server.split(), side)
        listens = harness.until(20, host_listens)
        channel = guest.start(client)
    else:
        channel = guest.start(server)
        listens = harness.until(20, lambda: guest_listens(guest))
        host = harness.Process(client.split(), side)
    host_command, guest_command = (command.split() for command in
                                   ((server, client) if server_of == "uroce" else (client, server)))
    code = host.wait(60)
    code = cm.code_of(host_command, code, host.output())
    guest_code, guest_output = guest.finish(channel, 20 if code == 0 else 3)
    guest_code = cm.code_of(guest_command, guest_code, guest_output)
    if guest_code is None:
        guest.start(f"killall -9 {guest_command[0]}").close()
    client_output = guest_output if server_of == "uroce" else host.output()
    return (listens and code == 0 and guest_code == 0 and words in client_output,
            f"uroce side: exit code {code}, rxe side: {guest_code}", host.output(), guest_output)


def cm_cases(guest, tally, cases, servers=BOTH, how=""):
    """CM-10: the connection manager with the kernel's."""
    for case in cases:
        for server_of in servers:
            name = f"rxe__CM_10_connects {case[0]}, {server_of} listens{how}"
            if is_wanted(name):
                started = time.monotonic()
                ok, reason, *outputs = cm_case_run(guest, case, server_of)
                tally.result(f"{name} ({time.monotonic() - started:.0f} s)", ok, reason, *outputs)
                check_lives(guest)


def cm_multicast(guest, tally):
    """HV-17: each message to a group reaches the member on the other side."""
    receive, send = (f"mckey -m {GROUP} -C 20 -S 1000 {option}-b " for option in ("", "-s "))
    name = "rxe__HV_17_multicast mckey"
    if not is_wanted(name):
        return

    def host_has_joined():
        with open("/proc/net/igmp") as f:
            return GROUP_HEX in f.read()
    for sender in BOTH:
        if sender == "uroce":
            channel = guest.start(receive + GUEST_IP)
            joined = harness.until(20, lambda: GROUP_HEX in guest.sh("cat /proc/net/igmp"))
            host = harness.Process((send + HOST_IP).split(), host_side("udp"))
        else:
            host = harness.Process((receive + HOST_IP).split(), host_side("udp"))
            joined = harness.until(20, host_has_joined)
            channel = guest.start(send + GUEST_IP)
        code = host.wait(30)
        guest_code, output = guest.finish(channel, 20)
        tally.result(f"{name}, {sender} sends", joined and code == 0 and guest_code == 0,
                     f"joined: {joined}, uroce side: exit code {code}, rxe side: {guest_code}", host.output(), output)
        if guest_code is None:
            guest.sh("killall -9 mckey || true")


def cm_ends(guest, tally):
    """CM-10: requests that are refused, and clients that are killed."""
    if not is_wanted("rxe__CM_10_ends"):
        return
    refusal = "RDMA_CM_EVENT_REJECTED, error 8"
    server = harness.Process(["rping", "-s", "-a", HOST_IP], host_side("udp"))
    harness.until(20, host_listens)
    code, output = guest.finish(guest.start(f"rping -c -a {HOST_IP} -p 7999 -C 1"), 20)
    tally.result("rxe__CM_10_ends: uroce refuses a request without a listener",
                 code not in (None, 0) and refusal in output, f"exit code {code}", output)
    channel = guest.start(f"rping -c -a {HOST_IP}")
    harness.until(20, lambda: "established" in host_states())
    guest.sh("killall -9 rping || true")
    channel.close()
    code = server.wait(20)
    tally.result("rxe__CM_10_ends: uroce's server sees that the client on rxe was killed",
                 "DISCONNECT EVENT" in server.output(), f"exit code {code}", server.output())

    channel = guest.start(f"rping -s -a {GUEST_IP}")
    harness.until(20, lambda: guest_listens(guest))
    client = harness.Process(["rping", "-c", "-a", GUEST_IP, "-p", "7999", "-C", "1"], host_side("udp"))
    code = client.wait(20)
    tally.result("rxe__CM_10_ends: rxe refuses a request without a listener",
                 code not in (None, 0) and refusal in client.output(), f"exit code {code}", client.output())
    client = harness.Process(["rping", "-c", "-a", GUEST_IP], host_side("udp"))
    harness.until(20, lambda: "established" in host_states())
    client.kill()
    code, output = guest.finish(channel, 20)
    tally.result("rxe__CM_10_ends: rxe's server sees that the client on uroce was killed",
                 "DISCONNECT EVENT" in output, f"exit code {code}", output)
    if code is None:
        guest.sh("killall -9 rping || true")


def inside(folder, elf, image):
    """Run the cases in this process's own namespace."""
    network_up()
    guest = Guest(elf, image, folder, cpus=2)
    tally = harness.Tally("rxe")
    try:
        guest.wait_ready(120)
        print(guest.console_text().strip().splitlines()[-1], flush=True)
        verify_cases(guest, tally)
        cm_cases(guest, tally, CM_CASES)
        cm_cases(guest, tally, CM_PERFTEST, ("uroce",))
        cm_multicast(guest, tally)
        cm_ends(guest, tally)
        check_lives(guest)
        guest.sh(LOSS_ON.format(percent=1))
        cm_cases(guest, tally, CM_CASES[:2], BOTH, ", 1% loss")
    finally:
        guest.stop()
    tally.finish()


def main():
    args = harness.options(__doc__)
    entry.enter(__file__, args.build, "initramfs.gz", inside, [harness.verify_path(), *sorted(CM_PROGRAMS)])


if __name__ == "__main__":
    main()
