#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A wrong configuration gives the user one clear sentence and no crash."""
import os
import socket

import accounts
import harness


def check(tally, name, process, words):
    """The program must end by itself with an error that contains one of `words`, and not by a signal."""
    code, text = process.wait(20), process.output()
    said = [line for line in text.splitlines() if any(word.lower() in line.lower() for word in words)]
    if code is None:
        reason = "did not end"
    elif code < 0 or 128 < code < 160:  # ibv_devinfo exits with 255 when it fails
        reason = f"died from a signal (exit code {code})"
    elif code == 0:
        reason = "succeeded"
    elif not said:
        reason = f"said nothing of {words}"
    else:
        reason = ""
    tally.result(name, not reason, reason, text)


def wrong_configuration(tally):
    for name, devices, words in (
            ("not an address", "nonsense", ["nonsense"]),
            ("address out of range", "127.0.0.999", ["127.0.0.999"]),
            ("unknown option", "127.0.0.1/carrierpigeon", ["carrierpigeon"]),
            ("ethdev without a device", "127.0.0.1/ethdev=", ["ethdev"]),
            ("wildcard", "0.0.0.0", ["0.0.0.0"]),
            ("multicast", "224.1.2.3", ["224.1.2.3"]),
            ("the same address twice", "127.0.0.1 127.0.0.1", ["same address"]),
            ("prefix length out of range", "127.0.0.1/77", ["77"]),
            ("very long", "1" * 5000, ["UROCE_DEVICES"]),
            ("binary", "\x01\x02\x7f", ["UROCE_DEVICES"])):
        side = harness.Side("127.0.0.1", devices)
        check(tally, "UROCE_DEVICES: " + name, harness.Process(["ibv_devinfo"], side), words)


def address_not_ours(tally):
    check(tally, "an address that no interface has", harness.Process(["ibv_devinfo"], harness.Side("192.0.2.55")),
          ["192.0.2.55"])


def port_in_use(tally):
    side = harness.loopback_sides(9)[0]
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind((side.address, 4791))
    check(tally, "port 4791 in use", harness.Process(["ibv_devinfo"], side), ["in use"])
    holder.close()
    process = harness.Process(["ibv_devinfo"], side)
    code = process.wait(20)
    tally.result("port 4791 free again", code == 0, f"exit code {code}", process.output())
    leak = accounts.until_gone(side.address)
    tally.result("and the daemon has kept nothing open", not leak, leak)


def wrong_mtu(tally):
    check(tally, "UROCE_MTU out of range",
          harness.Process(["ibv_devinfo"], harness.loopback_sides()[0], env={"UROCE_MTU": "1000"}), ["UROCE_MTU"])


def missing_driver(tally):
    check(tally, "a driver that does not exist",
          harness.Process(["ibv_devinfo"], harness.Side("127.0.0.1", "10.99.9.9/24/ethdev=net_nosuch0")),
          ["net_nosuch"])


def missing_interface(tally):
    check(tally, "an interface that does not exist",
          harness.Process(["ibv_devinfo"],
                          harness.Side("127.0.0.1", "10.99.9.9/24/ethdev=net_af_packet0,iface=nosuchif")),
          ["nosuchif", "net_af_packet"])


def no_permission(tally):
    if os.geteuid():
        argv = ["ibv_devinfo"]
    else:
        argv = harness.other_user(65534, "AF_PACKET without permission")
        if not argv:
            return
        argv += ["--inh-caps=-all", "--bounding-set=-all", "ibv_devinfo"]
    side = harness.Side("127.0.0.1", "10.99.9.9/24/ethdev=net_af_packet0,iface=lo")
    check(tally, "AF_PACKET without permission", harness.Process(argv, side), ["permission", "CAP_NET_RAW"])


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_devinfo")
    tally = harness.Tally("bad input")
    for test in (wrong_configuration, address_not_ours, port_in_use, wrong_mtu, missing_driver, missing_interface,
                 no_permission):
        test(tally)
    tally.finish()


if __name__ == "__main__":
    main()
