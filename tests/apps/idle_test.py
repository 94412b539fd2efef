#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with an open device that are idle use no CPU and little memory: one process, which also prints how long
opening took, and sixty-four that have all sent to each other."""
import os
import re
import tempfile
import time

import harness

SLEEP_S = 5
TICKS_MAX = 5      # of 10 ms each: 1% of 5 s
RSS_MAX_KIB = 32 * 1024
CROWD = 64
CROWD_RSS_MAX_KIB = 8 * 1024  # for each, beyond shared libraries
CROWD_SETTLE_S = 4            # rings without traffic give their memory back


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])  # utime + stime


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"^VmRSS:\s+(\d+)", f.read(), re.M).group(1))


def own_kib(pid):
    """@return a process's resident memory beyond files: private memory, and memory shared with other functions."""
    with open(f"/proc/{pid}/status") as f:
        return sum(int(kib) for kib in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", f.read(), re.M))


def crowd(tally):
    side = harness.one_device_sides(1)[0]
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "crowd")
    with tempfile.TemporaryDirectory() as folder:
        processes = [harness.Process([program, folder, str(CROWD)], side) for _ in range(CROWD)]
        deadline = time.monotonic() + 120
        while not all("done" in p.output() for p in processes) and time.monotonic() < deadline and \
                all(p.popen.poll() is None for p in processes):
            time.sleep(0.1)
    silent = [p for p in processes if "done" not in p.output()]
    tally.result(f"{CROWD} processes, each sends to each", not silent, f"{len(silent)} did not end",
                 *[p.output() for p in silent[:3]])
    if not silent:
        most = max(own_kib(p.pid) for p in processes)
        time.sleep(CROWD_SETTLE_S)
        before = sum(cpu_ticks(p.pid) for p in processes)
        time.sleep(SLEEP_S)
        used = sum(cpu_ticks(p.pid) for p in processes) - before
        kib = max(own_kib(p.pid) for p in processes)
        tally.result(f"{CROWD} idle: {used} CPU ticks in {SLEEP_S} s", used < TICKS_MAX, "idle devices use the CPU")
        tally.result(f"{CROWD} idle: {kib} KiB of its own resident in the largest ({most} just after the traffic)",
                     kib <= CROWD_RSS_MAX_KIB, f"more than {CROWD_RSS_MAX_KIB} KiB")
    for process in processes:
        process.kill()


def one(tally):
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


def main():
    harness.options(__doc__)
    os.environ.pop("MALLOC_PERTURB_", None)  # of meson: it fills memory that DPDK 24 leaves alone
    tally = harness.Tally("idle")
    one(tally)
    crowd(tally)
    tally.finish()


if __name__ == "__main__":
    main()
