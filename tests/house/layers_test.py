#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/layers finds nothing in this tree, and finds errors planted in a copy of it."""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# File, the line planted after its first include, and the message it must cause.
PLANTED = [("nic/mem/mem.c", '#include "qp.h"', "nic/mem/mem.c includes qp.h of nic/qp"),
           ("nic/qp/resp.c", '#include "rdm.h"', "nic/qp/resp.c includes rdm.h of nic/rdm"),
           ("pmd/uroced/uroced_slots.c", '#include "links.h"', "uroced_slots.c includes links.h of pmd/link"),
           ("pmd/proto/proto.c", '#include "control.h"', "pmd/proto/proto.c includes control.h of pmd/control"),
           ("pmd/tap/tap.c", '#include "../engine/engine_priv.h"',
            "pmd/tap/tap.c includes engine_priv.h of pmd/engine"),
           ("pmd/port/neigh.c", '  # include <tap.h>', "pmd/port/neigh.c includes tap.h of pmd/tap")]
# An object, the one that takes its place, and what has to be said of the calls in it.
CALLS = [("nic/libnic_wire.a.p/wire_frame.c.o", "nic/libnic_qp.a.p/qp_comp.c.o",
          "nic/wire/frame.c calls cq_push of nic/queue"),
         ("pmd/libpmd_control.a.p/control_services.c.o", "pmd/libpmd_engine.a.p/engine_engine_service.c.o",
          "pmd/control/services.c calls pmd_links_unserve of pmd/link"),
         ("pmd/libpmd_link.a.p/link_strays.c.o", "pmd/libpmd_engine.a.p/engine_engine_host.c.o",
          "pmd/link/strays.c calls pmd_engine_wake of pmd/engine")]


def run(root, *options):
    done = subprocess.run([sys.executable, os.path.join(root, "scripts", "layers"), *options], capture_output=True,
                          text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def objects_link(build, copy):
    """Another build folder with the same objects."""
    for path in glob.glob(os.path.join(build, "[np]*", "*.p", "*.o")):
        link = os.path.join(copy, os.path.relpath(path, build))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(path, link)


def calls_failures(build):
    """How many of the calls and gaps planted in a copy of the build folder are not found."""
    failed = 0
    for file, other, wanted in CALLS:
        if not os.path.exists(os.path.join(build, file)):
            continue  # -Dengine=disabled
        with tempfile.TemporaryDirectory() as copy:
            objects_link(build, copy)
            os.remove(os.path.join(copy, file))
            os.symlink(os.path.join(build, other), os.path.join(copy, file))
            code, said = run(ROOT, "--build", copy)
            if code == 0 or wanted not in said:
                print(f"FAIL the calls of {other} in {file} are not found: {said}")
                failed += 1
            folder = os.path.basename(file).split("_")[0]
            for path in glob.glob(os.path.join(copy, "*", "*.p", folder + "_*.o")):
                os.remove(path)
            code, said = run(ROOT, "--build", copy)
            if code == 0 or "has no objects of" not in said:
                print(f"FAIL without the objects of {folder} none are missed: {said}")
                failed += 1
    with tempfile.TemporaryDirectory() as empty:
        code, said = run(ROOT, "--build", empty)
        if code == 0 or "has no objects of" not in said:
            print(f"FAIL an empty build folder passes: {said}")
            failed += 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder")
    args = parser.parse_args()
    failed = 0
    code, said = run(ROOT, "--check", "--build", args.build)
    if code != 0:
        print(f"FAIL this tree: {said}")
        failed += 1
    build = os.path.abspath(args.build)
    failed += calls_failures(build)
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
