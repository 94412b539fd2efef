#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The table in pmd/engine/engine_priv.h says which file writes each struct of struct pmd_engine: no other file of pmd/
does, as far as text shows. Assignments, ++ and --, atomic writes and addresses that are passed on count as writes;
atomic loads do not. The same
is then planted in copies of files, and has to be found."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join("pmd", "engine", "engine_priv.h")
ROW = re.compile(r"^ \*   (\w+) +(\w+\.c)$", re.M)
# What is planted at the end of a file that may not, and whether it is a write.
PLANTED = [("e->%s.some = 1;", True), ("s->e->%s.some |= 1;", True), ("e->%s.some[2].more -= 1;", True),
           ("e->%s.some++;", True),
           ("--e->%s.some;", True), ("engine->%s = (struct some){0};", True), ("act(&e->%s);", True),
           ("act(&e->%s.some);", True),
           ("__atomic_store_n(&e->%s.some, 1, __ATOMIC_RELAXED);", True),
           ("__atomic_fetch_add(&e->%s.some, 1, __ATOMIC_RELAXED);", True),
           ("r->e.%s.some = 1;", True), ("if (e->%s.some == 1)", False), ("x = e->%s.some;", False),
           ("x = e->%s.some <= 1 - 1;", False),
           ("__atomic_load_n(&e->%s.some, __ATOMIC_RELAXED);", False), ("/* e->%s.some = 1; */", False)]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def bare(text):
    """Without comments and strings; lines stay where they are."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda found: re.sub(r"[^\n]", " ", found.group()), text,
                  flags=re.S)


def writes(text, member):
    """Lines of `text` that write this member of an engine."""
    engine = r"(?:\b\w+(?:->|\.))*\b(?:e|engine)(?:->|\.)"
    path = rf"{engine}{member}\b(?:(?:\.|->)\w+|\[[^\]]*\])*"
    write = re.compile(rf"{path}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|{path}\s*(?:\+\+|--)|"
                       rf"(?:\+\+|--)\s*{path}|(?<!&)&\s*{path}")
    load = re.compile(r"__atomic_load_n\(\s*$")
    return [text.count("\n", 0, found.start()) + 1 for found in write.finditer(text)
            if not (found.group().startswith("&") and load.search(text[:found.start()]))]


def main():
    header, failed = read(HEADER), 0
    writers = dict(ROW.findall(header))
    in_struct = dict(reversed(found) for found in re.findall(r"^\tstruct (pmd_\w+) (\w+);", header, re.M))
    for member in writers:
        if member not in in_struct:
            print(f"FAIL the table of {HEADER} names {member}, which is no struct in struct pmd_engine")
            failed += 1
    for path in sorted(glob.glob(os.path.join(ROOT, "pmd", "**", "*.[ch]"), recursive=True)):
        text = bare(read(path))
        for member, writer in writers.items():
            lines = writes(text, member)
            if os.path.basename(path) == writer:
                if not lines:
                    print(f"FAIL {writer} does not write {member}, of which the table of {HEADER} says it does")
                    failed += 1
                continue
            for line in lines:
                print(f"FAIL {os.path.relpath(path, ROOT)}:{line} writes {member}, which is {writer}'s")
                failed += 1
    if len(writers) < 2:
        print(f"FAIL {HEADER} has no table of writers")
        failed += 1
    for member in writers:
        for line, is_write in PLANTED:
            if bool(writes(bare("\n\t" + line % member + "\n"), member)) != is_write:
                print(f"FAIL {line % member} is {'not ' if is_write else ''}taken for a write")
                failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
