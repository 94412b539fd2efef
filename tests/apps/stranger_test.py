#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another user of the host, who knows a connection's addresses and QPNs, sends NAKs, ACKs and SENDs with PSNs at random beside it:
it goes on, and nothing of it completes that did not arrive (tests/apps/stranger.c)."""
import json
import os
import re

import harness

RING, SENT_BY_PORT = ("rx_beside_link", "rx_local_sport")
PLACE = "127.1.255.9"  # an address of nobody's


def program():
    return os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "stranger")


def queue_pairs(address):
    """QPNs of the device's connections that are up."""
    said = harness.uroce("status", address, "--qps", "--json")
    devices = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    return [qp["qpn"] for device in devices for function in device["functions"]
            for qp in function.get("queue_pairs", []) if qp["state"] == "RTS"]


def counter(address, name):
    said = harness.uroce("stat", address, "--json")
    devices = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    return sum(device.get("nic", {}).get(name, {"value": 0})["value"] for device in devices)


def connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, env, refused, seconds):
    """An open window of thousands of PSNs, in both directions of every kind of packet."""
    side, _ = harness.one_device_sides()
    port = harness.free_port()
    argv = ["ib_send_bw", "-D", str(2 * seconds + 6), "-s", "65536", "-t", "128", "-p", str(port)]
    case = f"{way}{'' if not env else ', by UDP'}"
    server = harness.Process(argv, side, env)
    server.wait_listen(port, 20)
    client = harness.Process(argv + [side.address], side, env)
    qpns = harness.until(20, lambda: (lambda found: found if len(found) == 2 else None)(queue_pairs(side.address)))
    tally.result(f"two queue pairs are up: {case}", bool(qpns), str(qpns), server.output(), client.output())
    strangers = [harness.Process([program(), way, side.address, side.address, hex(qpn), str(seconds)] +
                                 ([] if way == "port" else [PLACE])) for qpn in qpns or []]
    codes = [stranger.wait(seconds + 30) for stranger in strangers]
    sent = [stranger.output().strip() for stranger in strangers]
    tally.result(f"strangers send: {case}", all(code == 0 for code in codes) and
                 all(re.fullmatch(r"\d{4,}", said) for said in sent), str(codes), *sent)
    if refused:
        seen = counter(side.address, refused)
        tally.result(f"what they send is refused ({refused}): {case}", seen > 1000, f"{seen} of {sent}")
    codes = client.wait(60), server.wait(20)
    tally.result(f"the connection lives: {case}", codes == (0, 0), f"exit codes {codes}", client.output(), server.output())


def main():
    args = harness.options(__doc__, ("--seconds", "that each stranger sends for", 3))
    harness.need_programs("ib_send_bw")
    tally = harness.Tally("stranger")
    for way, refused in (("port", RING), ("place", None), ("spoofed", RING)):
        connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, {}, refused, args.seconds)
    for way, refused in (("port", SENT_BY_PORT), ("place", None)):
        connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, {"UROCE_RING": "off"}, refused, args.seconds)
    tally.finish()


if __name__ == "__main__":
    main()
