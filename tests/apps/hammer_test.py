#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Eight processes change one word and one pair of words of a ninth by all kinds of atomics, some over shared memory
and some over UDP, while the CPU changes them as well: no change is lost or executed twice, and no value is torn."""
import os
import re

import harness

# processes over rings, over UDP; the operations are divided by this
MIXES = (("a few over UDP", 6, 2, 1), ("all over UDP", 0, 8, 50))


def main():
    args = harness.options(__doc__, ("--operations", "how many, of all processes together", 10_000_000))
    tally = harness.Tally("hammer")
    build = os.environ["UROCE_BUILD"]
    program = os.path.join(build, "tests", "apps", "hammer")
    # With a sanitizer there is no library of hooks, and so there are no device files with counters.
    counts = os.path.exists(os.path.join(build, "verbs_shim", "sysfs", "liburoce-sysfs.so"))
    for name, ring, udp, part in MIXES:
        operations = args.operations // part // 8 * 8
        process = harness.Process([program, str(ring), str(udp), str(operations)], harness.one_device_sides()[0])
        code = process.wait(120 + operations // 10_000)
        output = process.output()
        counted = re.search(r"together (\d+)", output)
        tally.result(f"{operations} operations by 8 processes, {name}",
                     code == 0 and counted and int(counted.group(1)) == operations, f"exit code {code}", output)
        if counts:
            tally.result(f"all packets took the intended paths, {name}",
                         code == 0 and "not counted" not in output, f"exit code {code}", output)
        if code == 0:
            print(f"     {output.strip()}", flush=True)
    tally.finish()


if __name__ == "__main__":
    main()
