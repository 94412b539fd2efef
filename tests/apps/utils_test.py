#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's ibverbs-utils, unmodified, over uroce."""
import re

import harness


def query(tally, sides):
    for argv, patterns in (
            (["ibv_devices"], [r"uroce0\s+[0-9a-f]{16}"]),
            (["ibv_devinfo"], [r"hca_id:\s+uroce0", r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet"]),
            (["ibv_devinfo", "-v"], [r"GID\[\s*0\]:\s+::ffff:" + re.escape(sides[0].address) + ", RoCE v2",
                                     r"atomic_cap:\s+ATOMIC_HCA", r"max_mr_size:\s+0x[0-9a-f]+"]),
            (["ibv_devinfo", "-l"], [r"1 HCAs? found", r"uroce0"])):
        process = harness.Process(argv, sides[0])
        code, text = process.wait(20), process.output()
        missing = [pattern for pattern in patterns if not re.search(pattern, text)]
        tally.result(" ".join(argv), code == 0 and not missing, f"exit code {code}, without {missing}", text)


def several_devices(tally):
    side = harness.Side("127.0.0.1", "127.0.0.1 127.0.0.2 127.0.0.3")
    process = harness.Process(["ibv_devices"], side)
    code, text = process.wait(20), process.output()
    count = len(re.findall(r"^\s*uroce\d+\s", text, re.M))
    tally.result("ibv_devices with three devices", code == 0 and count == 3, f"exit code {code}, {count} devices", text)


def pingpongs(tally, sides):
    cases = []
    for program in ("rc", "uc", "ud", "srq"):
        for extra in ("", "-e", "-c", "-e -c"):
            cases.append((program, extra))
    cases += [(program, f"-m {mtu} -c -s 16384") for program in ("rc", "uc") for mtu in (256, 512, 1024, 2048, 4096)]
    cases += [("srq", f"-m {mtu} -q 16") for mtu in (256, 4096)]
    cases += [("rc", "-s 1048576 -n 50 -c"), ("rc", "-N -c"), ("rc", "-N -e"), ("ud", "-s 2048 -c"),
              ("srq", "-q 4 -s 65536 -n 200")]
    cases += [("xsrq", extra) for extra in ("", "-e", "-s 65536", "-m 256")]
    for program, extra in cases:
        argv = [f"ibv_{program}_pingpong", "-g", "0", "-p", "PORT", "-n", "500", *extra.split()]
        ok, reason, *outputs = harness.run_pair(argv, argv + [sides[0].host], sides, 40)
        if ok and "invalid" in "".join(outputs):
            ok, reason = False, "data check failed"  # the -c option reports errors and exits with 0
        if ok and not all("iters in" in output or "success" in output for output in outputs):
            ok, reason = False, "no result"
        tally.result(" ".join([f"ibv_{program}_pingpong", extra]).strip(), ok, reason, *outputs)


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_rc_pingpong", "ibv_devinfo")
    tally = harness.Tally("ibverbs-utils")
    sides = harness.loopback_sides(0)
    query(tally, sides)
    several_devices(tally)
    pingpongs(tally, sides)
    tally.finish()


if __name__ == "__main__":
    main()
