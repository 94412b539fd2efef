#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fabtests' fi_ubertest with fabric/ubertest.conf, through shared memory or over UDP.

Its own verdict is not enough: its exit code reflects only some errors, and a server ends at the first error.
"""
import os
import re

import harness

CONF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fabric", "ubertest.conf")
AT_ONCE = 100  # tests: it keeps 12 MiB for each
SECONDS = 900


def run(sides, env, first, last):
    """@return (the number of tests, what is wrong or "", the client's output, the server's)"""
    common = ["fi_ubertest", "-q", "PORT"]
    _, reason, server, client = harness.run_pair(
        common + ["-x", "-s", sides[0].address],
        common + ["-u", CONF, "-y", str(first), "-z", str(last), "-s", sides[1].address, sides[0].address],
        sides, SECONDS, env)
    loaded = re.search(r"Test configurations loaded: (\d+)", client)
    if not loaded:
        return 0, reason or "no tests", client, server
    count = min(int(loaded[1]), last) - first + 1
    good = len(re.findall(r"^Ending test \d+ / \d+, result: Success$", client, re.M))
    good += len(re.findall(r"^Skipping test ", client, re.M))
    if good != count:
        reason = f"{good} of {count} went well" + (f", {reason}" if reason else "")
    elif "UNVERIFIED" in client + server:
        reason = "data that was not verified"
    return int(loaded[1]), reason, client, server


def main():
    args = harness.options(__doc__, ("--udp", "by the kernel's UDP, without shared memory"))
    harness.need_programs("fi_ubertest")
    tally = harness.Tally("ubertest")
    sides, env = (harness.loopback_sides(), {"UROCE_RING": "off"}) if args.udp else (harness.one_device_sides(), {})
    first, end = 1, 1
    while first <= end:
        end, reason, *outputs = run(sides, env, first, first + AT_ONCE - 1)
        tally.result(f"{first} to {min(end, first + AT_ONCE - 1)}", not reason, reason, *outputs)
        first += AT_ONCE
    tally.finish()


if __name__ == "__main__":
    main()
