#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program that was linked with a release of libibverbs to come, with the drop-in library: it starts and works, and
when it calls a function that the drop-in lacks, it is told which."""
import argparse
import subprocess
import sys


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run", required=True, help="scripts/uroce-run")
    p.add_argument("--build", required=True)
    p.add_argument("program")
    a = p.parse_args()
    bad = 0
    for words, code, wanted in ([], 0, ""), (["call"], 127, "ibv_of_tomorrow, version IBVERBS_1.19"):
        done = subprocess.run([a.run, "--build", a.build, "--", a.program] + words, capture_output=True, text=True,
                              timeout=60)
        good = done.returncode == code and done.stdout == "works\n" and wanted in done.stderr
        print(f"{'ok' if good else 'FAIL'}: {words}: exit code {done.returncode}, {done.stdout!r}, {done.stderr!r}")
        bad += not good
    return 1 if bad else 0


sys.exit(main())
