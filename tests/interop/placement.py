#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""FLUSH and ATOMIC WRITE (IBTA A19) with the Linux kernel's rdma_rxe, in either direction.

rdma_rxe has them since Linux 6.3, and rdma-core since 45: the guest gets kernel and libibverbs of Debian 13, whatever
this machine's Debian is. The program of tests/interop/placement runs on both sides, over uroce here and over rxe there,
also while packets get lost. The data verifier shows that other operations work with this kernel as well.

What rxe of Linux 6.12 does not do decides what can be tested:
- Its ICRC of a FLUSH is wrong: each end drops the other's. All frames between here and the guest pass relay.py,
  which corrects that.
- Only persistent memory can be flushed for persistence. The guest gets some, by QEMU; uroce takes any file.
- It does not answer a duplicate of a FLUSH, and when it sends a FLUSH or an ATOMIC WRITE again, it names address 0,
  which uroce does not take for a duplicate. So only requests of uroce get lost.
- Its FLUSHes do not count against its max_rd_atomic, and its provider's ibv_post_send of an ATOMIC WRITE sends an R_Key
  of 0: see side.c and cases.c.

Needs root (taps, namespaces) and, once, the network for Debian's packages; otherwise it skips with a message.
UROCE_INTEROP_ONLY runs just the cases whose name contains its value.
"""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import entry  # noqa: E402
import harness  # noqa: E402
import rxe  # noqa: E402
from guest import GUEST_IP, HOST_IP, Guest, network_up  # noqa: E402
from relay import Relay  # noqa: E402

LOSS = 3  # percent
# Of the guest's persistent memory, which begins as a block device, make one that can be mapped and registered.
DAX, DAX_UP = "/dev/dax0.0", """
cd /sys/bus/nd/devices/region0 && echo namespace0.0 > /sys/bus/nd/drivers/nd_pmem/unbind &&
echo 6c1b9a1e-5f0e-4f3c-9d6b-0d7f5a3a2e11 > dax0.0/uuid && echo ram > dax0.0/mode &&
echo namespace0.0 > dax0.0/namespace && echo dax0.0 > /sys/bus/nd/drivers/dax_pmem/bind && test -c /dev/dax0.0
""".replace("\n", " ")

# name, which end requests, port, options
# First rxe requests: from that the relay learns whether its ICRCs are right.
CASES = [(f"{who} requests", who, "udp", "") for who in ("rxe", "uroce")]
CASES += [(f"ethdev port, {who} requests", who, "ethdev", "") for who in ("rxe", "uroce")]
LOSSY = (f"{LOSS}% loss, uroce requests", "uroce", "udp", "-T 17 -n 100")
# Of rxe.py's: the operations that Linux 6.1 has as well.
OTHERS = ("RC MTU 1024, both request at once", "RC MTU 4096, rxe requests, uroce connects",
          "UC and UD MTU 1024, uroce requests", "UC and UD MTU 4096, rxe requests")


def program_path():
    return os.path.join(os.environ["UROCE_BUILD"], "tests", "interop", "placement")


def case_run(guest, tally, case, number):
    name, requester, port, options = case
    side, tcp = rxe.host_side(port), str(18800 + number)
    started = time.monotonic()
    if requester == "uroce":
        channel = guest.start(f"placement -s -g 1 -p {tcp} -m {DAX}")
        host = harness.Process([program_path(), "-c", GUEST_IP, "-g", "0", "-p", tcp, *options.split()], side)
    else:
        host = harness.Process([program_path(), "-s", "-g", "0", "-p", tcp], side)
        channel = guest.start(f"placement -c {HOST_IP} -g 1 -p {tcp} {options}")
    code = host.wait(150)
    guest_code, guest_output = guest.finish(channel, 20 if code == 0 else 3)
    if guest_code is None:
        guest.start("killall -9 placement").close()
    client, server = (((code, host.output()), (guest_code, guest_output)) if requester == "uroce" else
                      ((guest_code, guest_output), (code, host.output())))
    tally.cases(f"{name} ({time.monotonic() - started:.0f} s)", client[0], client[1])
    tally.result(f"{name}: the server ends well", server[0] == 0, f"exit code {server[0]}", server[1])
    rxe.check_lives(guest)
    return client[1]


def cases_run(guest, tally):
    for number, case in enumerate(CASES):
        if not rxe.is_wanted(case[0]):
            continue
        said = case_run(guest, tally, case, number)
        for line in re.findall(r"^SKIP (.*)$", said, re.M):
            print(f"SKIP {case[0]}: {line}", flush=True)
        tally.result(f"{case[0]}: memory is flushed for persistence", "such a region" not in said, "refused", said)


def lossy_run(guest, tally):
    if not rxe.is_wanted(LOSSY[0]):
        return
    guest.sh(rxe.LOSS_IN.format(percent=LOSS))
    case_run(guest, tally, LOSSY, len(CASES))
    lost = int(re.search(r"dropped (\d+)", guest.sh("/bin/tc -s qdisc show dev ifb9"))[1])
    tally.result(f"{LOSSY[0]}: packets are lost: {lost}", lost, "none")
    guest.sh("/bin/tc qdisc del dev eth0 ingress; /bin/ip link del ifb9")


def others_run(guest, tally):
    for number, case in enumerate(rxe.CASES):
        if case[0] in OTHERS and rxe.is_wanted(case[0]):
            started = time.monotonic()
            ok, reason, *outputs = rxe.case_run(guest, case, number)
            tally.result(f"{case[0]} ({time.monotonic() - started:.0f} s)", ok, reason, *outputs)
            rxe.check_lives(guest)


def inside(folder, elf, image):
    """Run the cases in this process's own namespace."""
    network_up()
    relay = Relay("tap0")
    guest = Guest(elf, image, folder, cpus=2, relay=relay, persistent=True)
    relay.start()
    tally = harness.Tally("placement")
    try:
        guest.wait_ready(180)
        print(guest.console_text().strip().splitlines()[-1], flush=True)
        guest.sh(DAX_UP)
        cases_run(guest, tally)
        lossy_run(guest, tally)
        others_run(guest, tally)
    finally:
        guest.stop()
    print(f"ICRC of FLUSH from rxe: right: {relay.right}, corrected: {relay.corrected}; to rxe: made rxe's: "
          f"{relay.spoiled}", flush=True)
    tally.finish()


def main():
    args = harness.options(__doc__)
    entry.enter(__file__, args.build, "initramfs.gz", inside, [harness.verify_path(), program_path()], *entry.NEWER)


if __name__ == "__main__":
    main()
