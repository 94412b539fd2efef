#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process with an open device that does nothing: no CPU used, little memory. Says how long opening took."""
import os
import re
import time

import harness

SLEEP_S = 5
TICKS_MAX = 5      # of 10 ms each: 1% of 5 s
RSS_MAX_KIB = 32 * 1024


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])  # utime + stime


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"^VmRSS:\s+(\d+)", f.read(), re.M).group(1))


def main():
    harness.options(__doc__)
    tally = harness.Tally("idle")
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")
    process = harness.Process([program], harness.loopback_sides()[0])
    deadline = time.monotonic() + 10
    while "opened" not in process.output() and time.monotonic() < deadline and process.popen.poll() is None:
        time.sleep(0.05)
    text = process.output()
    tally.result("open: " + text.strip(), "opened" in text, "the device did not open", text)
    if "opened" in text:
        time.sleep(0.5)
        before = cpu_ticks(process.pid)
        time.sleep(SLEEP_S)
        used, rss = cpu_ticks(process.pid) - before, rss_kib(process.pid)
        tally.result(f"idle: {used} CPU ticks in {SLEEP_S} s", used < TICKS_MAX, "an idle device uses the CPU")
        tally.result(f"idle: {rss} KiB resident", rss <= RSS_MAX_KIB, f"more than {RSS_MAX_KIB} KiB")
    process.kill()
    tally.finish()


if __name__ == "__main__":
    main()
