#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of tracked text files have at most 120 columns, with tab stops every eight. Skips outside of a git checkout."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLUMNS = 120
SKIP = 77
# The corpus is data. A line of seeds is the command line of a run, a line of conformance.tsv a row of a table, one of
# grafana.json a string of JSON.
DATA = ("tests/fuzz/corpus/", "tests/seeds/", "tests/control/seeds/", "docs/conformance.tsv", "docs/grafana.json")


def tracked():
    """@return the names of all files in the repository; None without git or outside of a checkout."""
    try:
        done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z"],
                              capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return None
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else None


def may_be_longer(name, line):
    """Rows of tables cannot be wrapped (elem_table.py reads those of elem.def line by line), nor can URLs."""
    if name == "nic/include/elem.def":
        return line.startswith("ELEM_")
    return name.endswith(".md") and (line.lstrip().startswith("|") or "://" in line)


def main():
    names = tracked()
    if not names:
        print("not a git checkout")
        return SKIP
    long = []
    for name in names:
        if name.startswith(DATA) or not os.path.isfile(os.path.join(ROOT, name)):
            continue
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                columns = len(line.rstrip("\n").expandtabs(8))
                if columns > COLUMNS and not may_be_longer(name, line):
                    long.append(f"{name}:{number}: {columns} columns")
    if long:
        print("\n".join(long))
        return 1
    print(f"no line of {len(names)} files is longer than {COLUMNS} columns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
