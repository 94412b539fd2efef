# SPDX-License-Identifier: BSD-3-Clause
"""Run the kept cases of tests/seeds: each was a violation once and must pass now.

usage: named_seeds.py UROCE_SIM FOLDER

A case is one line of options in FOLDER/*.txt; lines that begin with # say what it was.
"""
import pathlib
import subprocess
import sys


def main():
    sim, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    ran, failed = 0, 0
    for path in sorted(folder.glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            done = subprocess.run([sim, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace")
            ran += 1
            if done.returncode != 0:
                failed += 1
                print(f"{path.name}:{number} fails: {sim} {line}\n{done.stdout}")
    print(f"{ran} cases, {failed} failed")
    return 0 if ran and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
