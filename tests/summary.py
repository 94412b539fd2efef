#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts test cases in a folder of meson test logs (*.json) and exit codes (*.exit); the last line is the sum.

A cmocka program or an application test runs many cases and prints a line for each; a test that prints no such lines
counts as one. Exit code 0 when nothing failed.
"""
import glob
import json
import os
import re
import sys

CASE = re.compile(r"^\[\s+(OK|FAILED|SKIPPED)\s+\] |^(ok|FAIL|SKIP)\b", re.M)
KIND = {"OK": 0, "ok": 0, "FAILED": 1, "FAIL": 1, "SKIPPED": 2, "SKIP": 2}


def count_test(test):
    counts = [0, 0, 0]
    text = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    seen = set()
    for match in CASE.finditer(text):
        line = text[match.start():text.find("\n", match.start())]
        if match.group(1) and line in seen:
            continue  # cmocka names failed tests twice
        seen.add(line)
        counts[KIND[match.group(1) or match.group(2)]] += 1
    result = test["result"]
    if result == "SKIP":
        why = text.strip().splitlines() or ["says nothing"]
        print(f"skipped: {test['name']}: {why[-1]}")
        return [0, 0, max(1, counts[2])]
    if result not in ("OK", "EXPECTEDFAIL"):
        counts[1] = max(1, counts[1])
        print(f"failed: {test['name']} ({result.lower()})")
    elif not sum(counts):
        counts[0] = 1
    return counts


def main():
    folder = sys.argv[1]
    total = [0, 0, 0]
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path) as f:
            for line in f:
                total = [a + b for a, b in zip(total, count_test(json.loads(line)))]
    for path in sorted(glob.glob(os.path.join(folder, "*.exit"))):
        with open(path) as f:
            code = int(f.read())
        total[{0: 0, 77: 2}.get(code, 1)] += 1
        if code not in (0, 77):
            print(f"failed: {os.path.basename(path)[:-5]} (exit code {code})")
    for path in sorted(glob.glob(os.path.join(folder, "*.missing"))):
        print(f"failed: {os.path.basename(path)[:-8]} (no log)")
        total[1] += 1
    print("{} passed, {} failed, {} skipped".format(*total))
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    main()
