#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The libfabric provider: what fi_info shows, its calls within one process, and libfabric's own fi_pingpong."""
import os

import harness


def info(tally, side):
    for name, argv, has, has_not in (
            ("listed", ["fi_info"], "provider: uroce\n", "uroce;"),
            ("by name", ["fi_info", "-p", "uroce", "-v"], "FI_ORDER_SAS", "uroce;"),
            ("parameters", ["fi_info", "-e"], "FI_UROCE_TX_SIZE", None)):
        process = harness.Process(argv, side)
        code, text = process.wait(60), process.output()
        ok = code == 0 and has in text and not (has_not and has_not in text)
        tally.result("fi_info: " + name, ok, f"exit code {code}, or wrong output", text)


def calls(tally, side, name, env):
    path = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "fabric_check")
    left = harness.Process([path, "leave"], side, env)
    tally.result(f"{name}: leaves an address vector behind", left.wait(60) == 0, "cannot", left.output())
    process = harness.Process([path], side, env)
    tally.cases(name, process.wait(120), process.output())


def pingpong(tally):
    one, two = harness.one_device_sides(1), harness.loopback_sides(2)
    for name, ep, sides in (("one device", "rdm", one), ("two devices", "rdm", two),
                            ("connected, one device", "msg", one),
                            ("connected, two devices", "msg", two), ("datagrams", "dgram", two)):
        common = ["fi_pingpong", "-p", "uroce", "-e", ep, "-d", "uroce0", "-I", "100", "-S", "all", "-c"]
        ok, reason, *outputs = harness.run_pair(common + ["-B", "PORT"], common + ["-P", "PORT", sides[0].address],
                                                sides, 120)
        tally.result("fi_pingpong, " + name, ok, reason, *outputs)


def main():
    harness.options(__doc__)
    harness.need_programs("fi_info", "fi_pingpong")
    tally = harness.Tally("fabric")
    side = harness.loopback_sides()[0]
    info(tally, side)
    for name, env in (("auto", {}), ("inline", {"UROCE_PROGRESS": "inline"}),
                      ("by UDP", {"UROCE_RING": "off"})):
        calls(tally, side, name, env)
    pingpong(tally)
    tally.finish()


if __name__ == "__main__":
    main()
