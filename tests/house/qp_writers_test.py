#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Members of struct nic_qp are written by the files that the table in nic/qp/qp.h names, as far as text tells:
assignments, ++ and --, and the list functions, through pointers whose type is seen in the same function. With --list:
prints who writes what."""
import argparse
import collections
import os
import re
import shutil
import sys
import tempfile

from c_source import ROOT, bare, functions, read, sources

HEADER = os.path.join("nic", "qp", "qp.h")
# Structs that are parts of struct nic_qp, and where.
PARTS = {"nic_qp": "", "send_queue": "sq", "requester": "req", "requester_tlp": "req.tlp", "completer": "comp",
         "responder": "resp", "resp_resource": "resp.resource", "cross": "cross", "enabled": "cross.send"}
# Pointers to what is not part of the QP.
LEAVE = {"nic", "pd", "send_cq", "recv_cq", "srq", "owner", "rdm", "rdm_peer"}
CHAIN = r"[A-Za-z_]\w*(?:(?:->|\.)\w+|\[[^][]*(?:\[[^][]*\])?[^][]*\])*"
WRITE = re.compile(r"(?<![\w>.&])(" + CHAIN + r")\s*(?:=(?!=)|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<=|>>=|\+\+|--)|(?:\+\+|--)("
                   + CHAIN + ")")
WHOLE = re.compile(r"(?:^|[;{}]|\n)\s*\*(\w+)\s*=(?!=)")
LISTS = re.compile(r"\blist_(?:init|append|prepend|insert\w*|remove|move\w*)\(([^;]*)\);")
# Planted in a copy, the table being as it is: a file, text of a function that it goes before, and the message.
PLANTED = [("nic/qp/resp.c", "\tstruct responder *resp = &qp->resp;\n", "\tqp->req.psn++;\n", "resp.c writes req.psn"),
           ("nic/qp/comp.c", "\tstruct completer *comp = &qp->comp;\n",
            "\tstruct responder *r = &qp->resp;\n\n\tr->epsn = 1;\n",
            "comp.c writes resp.epsn"),
           ("nic/qp/ud.c", "\tstruct responder *resp = &qp->resp;\n", "\tlist_remove(&qp->lingering);\n",
            "ud.c writes lingering")]


def members(text):
    """The members of the QP, as paths: {path}."""
    found = set()
    for struct, place in PARTS.items():
        body = re.search(r"^struct " + struct + r" \{\n(.*?)^\};", text, re.S | re.M).group(1)
        for declaration in re.findall(r"^\t[^;{}]*;", body, re.M):
            for name in re.findall(r"\b(\w+)(?:\[\w+\])?(?=[,;])", declaration):
                found.add(f"{place}.{name}" if place else name)
    return found


def table(text):
    """{member: files} of the table in the header, and what is wrong with it."""
    rows, bad, known = {}, [], members(bare(text))
    for names, files, _ in re.findall(r"^ \* ([^|\n]+)\|([^|\n]+)\|([^\n]*)$", text, re.M):
        for name in names.split():
            if name in rows:
                bad.append(f"{name} is in the table twice")
            if name.removesuffix(".*") not in known | set(PARTS.values()):
                bad.append(f"{name} is in the table, but no member")
            rows[name] = set(files.split())
    bad += [f"{m} is not in the table" for m in sorted(known) if not rows_for(m, rows)]
    return rows, bad


def pointers(root):
    """Names of members that point to a QP, in the structs of nic/."""
    names = set()
    for path in sources(root, "nic"):
        names |= set(re.findall(r"^\t(?:const )?struct nic_qp \*(\w+);", bare(read(root, path)), re.M))
    return names


def resolve(chain, variables, to_qp):
    """The path in the QP that an expression names; None: none of a QP."""
    steps = [s for s in re.split(r"->|\.", re.sub(r"\[.*?\](?:[^][]*\])?", "", chain))]
    place = variables.get(steps[0])
    for step in steps[1:]:
        if step in to_qp:
            place = ""
        elif place in LEAVE:
            place = None
        elif place is not None:
            place = "resp.resource" if place == "resp.res" else place  # an element of it
            place = f"{place}.{step}" if place else step
    return place


def variables_of(text, to_qp):
    found = {}
    for struct, name in re.findall(r"\bstruct (\w+) \*(?:const )?(\w+)", text):
        if struct in PARTS:
            found[name] = PARTS[struct]
    for name, chain in re.findall(r"\bstruct \w+ \*(\w+) = &(" + CHAIN + ")", text):
        place = resolve(chain, found, to_qp)
        if place and name not in found:
            found[name] = place
    return found


def writes(root):
    """{member: {file: lines}}."""
    found, to_qp = collections.defaultdict(lambda: collections.defaultdict(list)), pointers(root)
    for path in sources(root, "nic"):
        for first, _, text in functions(bare(read(root, path))):
            variables = variables_of(text, to_qp)
            hits = [(m.start(), m.group(1) or m.group(2)) for m in WRITE.finditer(text)]
            hits += [(m.start(1), "->" + m.group(1)) for m in WHOLE.finditer(text) if m.group(1) in variables]
            for m in LISTS.finditer(text):
                hits += [(m.start(), c) for c in re.findall(r"&(" + CHAIN + ")", m.group(1))]
            for at, chain in hits:
                whole = chain.startswith("->")
                if not whole and not re.search(r"->|\.", chain):
                    continue
                place = resolve(chain[2:] if whole else chain, variables, to_qp)
                if place:
                    found[place][os.path.basename(path)].append(first + 1 + text[:at].count("\n"))
    return found


def rows_for(place, rows):
    """The rows for a write to `place`: of the member; or of what it is in, if that is no part by itself or has a row
    with .*; or of all in it."""
    if place in rows:
        return [place]
    steps = place.split(".")
    for n in range(len(steps) - 1, 0, -1):
        whole = ".".join(steps[:n])
        if whole + ".*" in rows:
            return [whole + ".*"]
        if whole in rows and whole not in PARTS.values():
            return [whole]
    return [name for name in rows if name.startswith(place + ".")]


def check(root):
    rows, bad = table(read(root, HEADER))
    used = collections.defaultdict(set)
    for place, files in writes(root).items():
        for name in rows_for(place, rows):
            used[name] |= set(files)
            bad += [f"{f} writes {place}, line {lines[0]}: the table in {HEADER} says {' '.join(sorted(rows[name]))}"
                    for f, lines in files.items() if f not in rows[name]]
    for name, files in rows.items():
        # Also by writing all that the member is in.
        idle = files - used[name] - used[name.rpartition(".")[0]]
        if idle:
            bad.append(f"{name}: the table names {' '.join(sorted(idle))}, which does not write it")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    if parser.parse_args().list:
        for place, files in sorted(writes(ROOT).items()):
            print(place, "|", *(f"{f}:{','.join(map(str, lines))}" for f, lines in sorted(files.items())))
        return 0
    bad = check(ROOT)
    for line in bad:
        print("FAIL", line)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(os.path.join(ROOT, "nic"), os.path.join(copy, "nic"))
        for path, before, planted, wanted in PLANTED:
            text = read(copy, path)
            assert before in text, (path, before)
            with open(os.path.join(copy, path), "w", encoding="utf-8") as f:
                f.write(text.replace(before, before + planted, 1))
            if not any(wanted in line for line in check(copy)):
                print(f"FAIL planted in {path}, not found: {wanted}")
                bad.append(path)
            with open(os.path.join(copy, path), "w", encoding="utf-8") as f:
                f.write(text)
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
