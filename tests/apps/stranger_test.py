#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another user of the host, who knows a connection's addresses and QPNs, sends NAKs, ACKs and SENDs with random
PSNs: the connection goes on, and completes nothing that has not arrived (tests/apps/stranger.c)."""
import json
import os
import re

import harness

RING, SENT_BY_PORT, PLACE = ("rx_beside_link", "rx_local_sport", "rx_bad_source")
PLACES = [f"127.1.{os.getpid() % 256}.{200 + i}" for i in range(2)]  # unused addresses, one for each stranger


def program():
    return os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "stranger")


def queue_pair(process):
    """@return the QPN that the program has printed, once it has."""
    # the program's file offset must not move
    with open(f"/proc/self/fd/{process.out.fileno()}", errors="replace") as f:
        found = re.search(r"local address:.* QPN (0x[0-9a-f]+)", f.read())
    return found and found[1]


def counter(address, name):
    said = harness.uroce("stat", address, "--json")
    devices = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    return sum(device.get("nic", {}).get(name, {"value": 0})["value"] for device in devices)


def connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, env, refused, seconds):
    """An open window of thousands of PSNs, in both directions, for every kind of packet."""
    side, _ = harness.one_device_sides()
    port = harness.free_port()
    lasts = str(seconds + 12 * harness.SLOWER)
    argv = ["stdbuf", "-oL", "ib_send_bw", "-D", lasts, "-s", "65536", "-t", "128", "-p", str(port)]
    case = f"{way}{'' if not env else ', by UDP'}"
    server = harness.Process(argv, side, env)
    server.wait_listen(port, 20)
    client = harness.Process(argv + [side.address], side, env)
    qpns = [harness.until(30, lambda side=side: queue_pair(side)) for side in (server, client)]
    tally.result(f"two queue pairs are up: {case}", all(qpns), str(qpns), server.output(), client.output())
    strangers = [harness.Process([program(), way, side.address, side.address, qpn, str(seconds)] +
                                 ([] if way == "port" else [place])) for qpn, place in zip(qpns, PLACES) if qpn]
    codes = [stranger.wait(seconds + 30) for stranger in strangers]
    sent = [stranger.output().strip() for stranger in strangers]
    tally.result(f"strangers send: {case}", all(code == 0 for code in codes) and
                 all(re.fullmatch(r"\d{4,}", said) for said in sent), str(codes), *sent)
    seen = harness.until(15, lambda: (lambda n: n if n > 1000 else 0)(counter(side.address, refused)))
    tally.result(f"what they send is refused ({refused}): {case}", seen, f"hardly any of {sent}")
    codes = client.wait(60), server.wait(20)
    tally.result(f"the connection lives: {case}", codes == (0, 0), f"exit codes {codes}", client.output(),
                 server.output())


def main():
    args = harness.options(__doc__, ("--seconds", "seconds that each stranger sends", 3))
    harness.need_programs("ib_send_bw", "stdbuf")
    tally = harness.Tally("stranger")
    for way, refused in (("port", RING), ("place", PLACE), ("spoofed", RING)):
        connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, {}, refused, args.seconds)
    for way, refused in (("port", SENT_BY_PORT), ("place", PLACE)):
        connection__SE_04_strangers_of_this_host_do_nothing_to_it(tally, way, {"UROCE_RING": "off"}, refused,
                                                                  args.seconds)
    tally.finish()


if __name__ == "__main__":
    main()
