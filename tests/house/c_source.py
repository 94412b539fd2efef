# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of this folder read of C: files, functions, text without comments."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sources(root, *folders):
    """C files below these folders, as paths from `root`."""
    found = []
    for folder in folders:
        for where, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(where, n), root) for n in names if n.endswith((".c", ".h"))]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def bare(text):
    """The text with comments and strings blanked; lines stay where they are."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", blank, text, flags=re.S)


def functions(text):
    """[(first line, last line, text)] of functions, whose braces are in the first column. Lines count from 0."""
    lines, found = text.split("\n"), []
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at - 1
        while first > 0 and lines[first - 1].strip() and not lines[first - 1].startswith(("#", "}", " *")) and \
                not lines[first - 1].rstrip().endswith((";", "*/")):
            first -= 1
        last = lines.index("}", at)
        found.append((first, last, "\n".join(lines[first:last + 1])))
    return found
