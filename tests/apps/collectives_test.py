#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that NICs run by themselves (collectives/): many rounds of each by 2 to 16 processes, over shared
memory and over lossy UDP, while no thread of any program runs. Also checks that a missing engine thread is noticed,
and what happens when a process dies."""
import os
import re
import signal
import subprocess

import harness

KINDS = ("barrier", "broadcast", "allreduce")
SIZES = (2, 3, 5, 8, 16)
PATHS = (("shared memory", {}, ()), ("UDP that loses 1% of all packets", {"UROCE_RING": "off"}, ("--loss", "1%")))
SECONDS = 240  # for a busy machine


def start(side, env, *argv):
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "collectives")
    return harness.Process([program, "-l", str(SECONDS), *map(str, argv)], side, env)


def rounds(tally, side, path, env, device, count):
    for size in SIZES:
        for kind in KINDS:
            process = start(side, env, "-s", "-b", 1000, "-n", size, "-r", count, kind)
            code, output = device.wait(process, SECONDS + 10), process.output()
            said = re.fullmatch(rf"{kind}, {size} processes: {count} rounds, (.*)", output.strip())
            tally.result(f"{kind} by {size} processes, over {path}", code == 0 and said, f"exit code {code}", output)
            if said:
                print(f"     | {said.group(1)}", flush=True)


def asleep_in_the_library(tally, side):
    """Three processes wait for a fourth that comes late. Waiting by polling would use CPU time throughout."""
    late_s = 0.5
    for kind in KINDS:
        process = start(side, {}, "-n", 4, "-r", 1000, "-b", 1000, "-p", int(late_s * 1000), kind)
        code, output = process.wait(SECONDS + 10), process.output()
        said = re.search(r"CPU time ([0-9.]+) s of these threads", output)
        asleep = said and float(said.group(1)) < 3 * late_s / 10
        tally.result(f"{kind}, asleep in fi_cntr_wait", code == 0 and asleep, f"exit code {code}", output)


def without_engine_threads(tally, side):
    """Without engine threads somebody would have to call the library, and nobody does: the queued work must not
    finish."""
    argv = ("-s", "-n", 2, "-r", 10, "barrier")
    for limit in (3, 15, 60):  # longer limits if not everything was queued in time
        process = start(side, {"UROCE_PROGRESS": "inline"}, "-l", limit, *argv)
        code, output = process.wait(limit + 60), process.output()
        queued = "2 of 2 batches had been let go" in output
        if queued:
            break
    tally.result("without the NICs' threads nothing happens",
                 code == 1 and queued and f"not done in {limit} s" in output, f"exit code {code}", output)
    process = start(side, {}, *argv)
    code, output = process.wait(SECONDS + 10), process.output()
    tally.result("and with them it does", code == 0, f"exit code {code}", output)


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def death(tally, side):
    """A process dies during rounds: the others must not wait for it."""
    process = start(side, {}, "-s", "-n", 3, "-r", 100000000, "-b", 100, "allreduce")
    members = harness.until(30, lambda: len(found := children(process.pid)) == 3 and found)
    if members and harness.until(30, lambda: "trig_fired" in harness.uroce("stat", side.address).stdout):
        os.kill(members[1], signal.SIGKILL)
    code, output = process.wait(60), process.output()
    left = [pid for pid in members or [] if os.path.exists(f"/proc/{pid}")]
    tally.result("a process dies", code == 1 and "process 1 of 3 was killed by signal 9" in output and not left,
                 f"exit code {code}, {len(left)} processes left", output)


def main():
    args = harness.options(__doc__, ("--rounds", "of each collective", 10000))
    tally = harness.Tally("collectives")
    for path, env, faults in PATHS:
        side = harness.one_device_sides()[0]
        with harness.kept_device(tally, path, side.address, faults) as device:
            rounds(tally, side, path, env, device, args.rounds)
    side = harness.one_device_sides()[0]
    asleep_in_the_library(tally, side)
    without_engine_threads(tally, side)
    death(tally, side)
    tally.finish()


if __name__ == "__main__":
    main()
