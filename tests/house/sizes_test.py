#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Functions and files are short: none above FUNCTION and FILE lines, and SHARE of the functions within SHORT. Prints
the share."""
import os
import sys
import tempfile

from c_source import ROOT, bare, functions, read, sources

FOLDERS = ("nic", "pmd", "verbs_shim")
FUNCTION, FILE = 70, 500
SHORT, SHARE = 40, 0.95
# Files that may be longer, and why.
LONGER = {
    "verbs_shim/exp/include/infiniband/verbs_exp_absent.h": "a table: declarations of what is not there",
    "verbs_shim/exp/include/infiniband/verbs_exp_types.h": "a table: types of the experimental verbs, in their order",
}


def measure(root):
    """(how many functions, how many of them are short, what is too long)."""
    count, short, bad = 0, 0, []
    for path in sources(root, *FOLDERS):
        text = read(root, path)
        lines = text.count("\n")
        if lines > FILE and path not in LONGER:
            bad.append(f"{path} has {lines} lines, more than {FILE}")
        if lines <= FILE and path in LONGER:
            print(f"{path} has {lines} lines and needs no exemption")
        for first, last, body in functions(bare(text)):
            count += 1
            short += last - first < SHORT
            if last - first >= FUNCTION:
                name = body.split("(")[0].split()[-1].lstrip("*")
                bad.append(f"{path}: {name} has {last - first + 1} lines, more than {FUNCTION}")
    if short < SHARE * count:
        bad.append(f"{short} of {count} functions have at most {SHORT} lines, less than {SHARE:.0%}")
    return count, short, bad


def planted():
    """What is said of a tree with one function and one file that are too long."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "nic"))
        with open(os.path.join(root, "nic", "long.c"), "w", encoding="utf-8") as f:
            f.write("int f(void)\n{\n" + "\t;\n" * (FUNCTION - 2) + "}\n" + "\n" * FILE)
        with open(os.path.join(root, "nic", "short.c"), "w", encoding="utf-8") as f:
            f.write("int g(void)\n{\n" + "\t;\n" * (FUNCTION - 3) + "}\n")
        return measure(root)[2]


def main():
    count, short, bad = measure(ROOT)
    print(f"{short} of {count} functions ({short / count:.1%}) have at most {SHORT} lines")
    said = planted()
    if len(said) != 3 or "f has 71 lines" not in said[1] or "long.c has" not in said[0]:
        bad.append(f"what was planted is not found: {said}")
    for line in bad:
        print("FAIL", line)
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
