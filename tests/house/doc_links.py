#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every relative link in a document leads to a file, and every path of a source file that one names exists."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"\b((?:nic|pmd|verbs_shim|scripts|docs|tests)/[\w/.-]+\.(?:c|h|def|py|md|map|list))\b")
SKIPPED = (".", "build", "node_modules")  # and what begins like them


def documents():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith(SKIPPED)]
        for name in names:
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def main():
    lost, seen = [], 0
    for path in documents():
        with open(path, encoding="utf-8") as f:
            text = f.read()
        here = os.path.relpath(path, ROOT)
        for target in LINK.findall(text):
            seen += 1
            if not os.path.exists(os.path.join(os.path.dirname(path), target)):
                lost.append(f"{here}: there is no {target}")
        for target in PATH.findall(text):
            seen += 1
            if not os.path.exists(os.path.join(ROOT, target)):
                lost.append(f"{here}: there is no {target}")
    if lost or seen < 50:
        sys.exit("\n".join(sorted(set(lost))) or f"only {seen} links found")
    print(f"{seen} links and paths lead somewhere")


if __name__ == "__main__":
    main()
