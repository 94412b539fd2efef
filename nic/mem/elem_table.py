#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of nic/elem.md, out of nic/elem.def.

usage: elem_table.py [--check]

Writes them into the page; with --check only says whether they are what is there (a test).
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- from elem.def, by elem_table.py -->\n", "<!-- end -->\n"
KINDS = {"SIGNED": "integer", "UNSIGNED": "integer", "REAL": "real", "SMALL": "real", "COMPLEX": "complex"}
GO = {"INTEGER": ("integer",), "ORDERED": ("integer", "real"), "ALL": ("integer", "real", "complex")}
FORMS = {"UPDATE": "base, fetch", "FETCH": "fetch", "COMPARE": "compare"}


def rows(text, macro):
    """The arguments of each ELEM_TYPE or ELEM_OP row."""
    lines = re.findall(rf"^{macro}\((.*)\)$", text, re.M)
    if len(lines) != len(re.findall(rf"^{macro}\(", text, re.M)):
        sys.exit(f"nic/elem.def: a row of {macro} is not on a line of its own")
    for line in lines:
        yield [part.strip('" ') for part in re.findall(r'\s*("[^"]*"|[^,"]+)', line)]


def tables(text):
    kinds = {}
    for name, _, kind, *_ in rows(text, "ELEM_TYPE"):
        kinds.setdefault(KINDS[kind], []).append(name)
    out = "| kind | datatypes |\n|---|---|\n"
    out += "".join(f"| {kind} | {' '.join(names)} |\n" for kind, names in kinds.items())
    out += "\n| operation | forms | kinds | the element |\n|---|---|---|---|\n"
    pairs = dict.fromkeys(("base", "fetch", "compare"), 0)
    for name, _, go, forms, sentence in rows(text, "ELEM_OP"):
        out += f"| {name} | {FORMS[forms]} | {', '.join(GO[go])} | {sentence} |\n"
        for form in FORMS[forms].split(", "):
            pairs[form] += sum(len(kinds[kind]) for kind in GO[go])
    return out + "\nThat is " + ", ".join(f"{n} {form}" for form, n in pairs.items()) + " pairs.\n"


def main():
    with open(os.path.join(HERE, os.pardir, "include", "elem.def"), encoding="utf-8") as f:
        made = tables(f.read())
    path = os.path.join(HERE, "elem.md")
    with open(path, encoding="utf-8") as f:
        page = f.read()
    before, rest = page.split(BEGIN)
    new = before + BEGIN + made + END + rest.split(END)[1]
    if "--check" in sys.argv[1:]:
        if new != page:
            sys.exit("nic/elem.md is not what nic/elem.def says: run nic/elem_table.py")
    elif new != page:
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)


if __name__ == "__main__":
    main()
