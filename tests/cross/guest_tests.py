#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of a build folder where there is no meson: in the emulated machine that guest.py boots.

guest_tests.py BUILD [NAME...]: the named tests, or all that are chosen here. Prints a line for each test, what the
failed ones said, and last the line GUEST-RESULT with the numbers of cases.
"""
import concurrent.futures
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import summary  # noqa: E402

BUILD = sys.argv[1]
SKIP = 77  # meson's exit code of a test that skips
SLOWER = 10  # an emulated CPU: the tests' limits are for real ones
SUITES = "unit scenario vectors fuzz shim apps".split()
# Suites of which only these tests are run: the other tests need programs that are not there, or most of an hour.
SOME = {"apps": "utils verify sysfs cross fabric".split()}
# The simulators, with fewer seeds than elsewhere.
SIMULATORS = (("sim", "sim/uroce_sim", 20), ("sim_cm", "sim/cm/uroce_cm_sim", 200),
              ("control", "control/uroce_control", 100))
PERFTEST = ["tests/apps/perftest_test.py", "--every", "11", "--first", "0", "--lanes", "1"]


def is_chosen(test):
    suite = test["suite"][0].split(":")[-1]
    if suite == "unit" and not test["cmd"][0].startswith(BUILD):
        return False  # a script that looks at sources
    return suite in SUITES and test["name"] in SOME.get(suite, [test["name"]])


def tests_of():
    with open(os.path.join(BUILD, "meson-info", "intro-tests.json"), encoding="utf-8") as f:
        tests = [test for test in json.load(f) if is_chosen(test)]
    more = [(name, [os.path.join(BUILD, "tests", path), "--seed", "1", "--seeds", str(seeds)], True)
            for name, path, seeds in SIMULATORS]
    more.append(("perftest_some", [sys.executable, os.path.join(ROOT, PERFTEST[0]), "--build", BUILD, *PERFTEST[1:]],
                 False))
    return tests + [{"name": name, "cmd": command, "env": {}, "workdir": None, "timeout": 180, "is_parallel": parallel}
                    for name, command, parallel in more]


def run(test):
    """@return what tests/summary.py takes of a test"""
    environment, started, command = dict(os.environ, **test["env"]), time.monotonic(), test["cmd"]
    environment["TEST_SLOWER"] = str(SLOWER)
    if not os.path.exists(command[0]):  # the host has its python3 elsewhere
        command = [shutil.which(os.path.basename(command[0])) or command[0], *command[1:]]
    with tempfile.TemporaryFile() as out:  # not a pipe, which processes that stay behind would keep open
        process = subprocess.Popen(command, cwd=test["workdir"] or BUILD, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(test["timeout"] * SLOWER)
            result = {0: "OK", SKIP: "SKIP"}.get(code, f"FAIL, exit code {code}")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            result = "TIMEOUT"
        out.seek(0)
        said = out.read().decode(errors="replace")
    return {"name": test["name"], "result": result, "stdout": said, "seconds": time.monotonic() - started}


def main():
    names = sys.argv[2:]
    tests = [test for test in tests_of() if not names or test["name"] in names]
    total, done = [0, 0, 0], 0

    def count(ran):
        nonlocal total, done
        with contextlib.redirect_stdout(io.StringIO()) as why:
            counts = summary.count_test(ran)
        total, done = [a + b for a, b in zip(total, counts)], done + 1
        print(f"{done}/{len(tests)} {ran['name']} {ran['result']} {ran['seconds']:.0f} s")
        if ran["result"] == "SKIP":
            print(why.getvalue(), end="")
        elif ran["result"] != "OK":
            print("".join(f"    {line}\n" for line in ran["stdout"].splitlines()[-40:]), end="")
        sys.stdout.flush()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(run, test) for test in tests if test["is_parallel"]]
        for ran in concurrent.futures.as_completed(runs):
            count(ran.result())
    for test in tests:
        if not test["is_parallel"]:
            count(run(test))
    print("GUEST-RESULT {} passed, {} failed, {} skipped".format(*total), flush=True)


if __name__ == "__main__":
    main()
