#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/layers finds nothing in this tree, and finds what is planted in a copy of it."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# File, what is planted behind its first include, and what has to be said of it.
PLANTED = [("nic/mem/mem.c", '#include "qp.h"', "nic/mem/mem.c includes qp.h of nic/qp"),
           ("nic/qp/resp.c", '#include "rdm.h"', "nic/qp/resp.c includes rdm.h of nic/rdm"),
           ("pmd/uroced/uroced_slots.c", '#include "links.h"', "uroced_slots.c includes links.h of pmd/link"),
           ("pmd/proto/proto.c", '#include "control.h"', "pmd/proto/proto.c includes control.h of pmd/control")]


def run(root, *options):
    done = subprocess.run([sys.executable, os.path.join(root, "scripts", "layers"), *options], capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder")
    args = parser.parse_args()
    failed = 0
    code, said = run(ROOT, "--check", "--build", args.build)
    if code != 0:
        print(f"FAIL this tree: {said}")
        failed += 1
    with tempfile.TemporaryDirectory() as copy:
        for folder in ("nic", "pmd", "scripts", "docs"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder))
        for file, line, wanted in PLANTED:
            path = os.path.join(copy, file)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace("#include", f"{line}\n#include", 1))
            code, said = run(copy)
            if code == 0 or wanted not in said:
                print(f"FAIL {line} in {file} is not found: {said}")
                failed += 1
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        path = os.path.join(copy, "docs", "architecture.md")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("| `nic/wire` |", "| `nic/wires` |"))
        code, said = run(copy, "--check")
        if code == 0:
            print(f"FAIL a table that is wrong is not found: {said}")
            failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
