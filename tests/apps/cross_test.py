#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NICs of two processes answer each other's messages by themselves, thousands of times, while both programs
sleep: over shared memory, over UDP, and over lossy UDP. Each message carries a sum that the NIC has calculated from
the previous one."""
import os

import harness

SUM = 3 + 1000000  # added by each round
CASES = (("shared memory", 5000, None), ("UDP", 2000, ()), ("UDP that loses 1% of all packets", 300, ("--loss", "1%")))


def run(tally, name, rounds, side, faults):
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "cross")
    with harness.kept_device(tally, name, side.address, faults or ()) as device:
        process = harness.Process([program, str(rounds)], side, {} if faults is None else {"UROCE_RING": "off"})
        code = device.wait(process, 120)
        output = process.output()
        tally.result(f"{rounds} rounds over {name}", code == 0 and output.split() == [str(rounds * SUM)],
                     f"exit code {code}", output)


def main():
    harness.options(__doc__)
    tally = harness.Tally("cross")
    for name, rounds, faults in CASES:
        if faults:  # long enough for `uroce stat` to look meanwhile
            rounds *= harness.SLOWER
        run(tally, name, rounds, harness.one_device_sides()[0], faults)
    tally.finish()


if __name__ == "__main__":
    main()
