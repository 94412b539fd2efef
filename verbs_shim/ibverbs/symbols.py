#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates from symbols.list: the version script, the assembly with trampolines and aliases, the trampolines'
table.

symbols.py map LIST OUT      version script of the drop-in library
symbols.py asm LIST OUT      trampolines and versioned aliases of the drop-in library
symbols.py table LIST OUT    C table: the target of each trampoline
symbols.py preload LIST OUT  assembly of the preload library: aliases without versions, nothing else
symbols.py names LIST OUT    one exported NAME@VERSION on each line
"""
import sys

MARKER_NODE = "UROCE_0"


class Symbols:
    def __init__(self, path):
        self.private = []   # releases with a private node
        self.later = []     # nodes of releases to come: public ones are empty
        self.ours = []      # (name, version)
        self.aliases = []   # (name, version, target)
        self.tramps = []    # (name, version, failure)
        self.data = []      # (name, version)
        for line in open(path):
            words = line.split("#")[0].split()
            if words:
                self.add(words[0], words[1:])

    def versions(self, version):
        if version not in ("private", "programs"):
            return [version]
        later = [node for node in self.later if "PRIVATE" in node] if version == "programs" else []
        return [f"IBVERBS_PRIVATE_{n}" for n in self.private] + later

    def add(self, kind, words):
        if kind == "private":
            self.private = words
            return
        if kind == "later":
            first, last = (int(number) for number in words[1].split("-"))
            self.later += [words[0] + str(number) for number in range(first, last + 1)]
            return
        for version in self.versions(words[0]):
            if kind == "ours":
                self.ours += [(name, version) for name in words[1:]]
            elif kind == "alias":
                self.aliases.append((words[1], version, words[2]))
            elif kind == "tramp":
                self.tramps += [(name, version, words[1]) for name in words[2:]]
            elif kind == "data":
                self.data.append((words[1], version))
            else:
                sys.exit(f"symbols.list: unknown kind {kind}")

    def all(self):
        rows = self.ours + [a[:2] for a in self.aliases] + [t[:2] for t in self.tramps] + self.data
        if len(rows) != len(set(rows)):
            sys.exit(f"symbols.list: named twice: {sorted(r for r in rows if rows.count(r) > 1)}")
        return rows

    def nodes(self):
        """@return version nodes in the order of the real library's: the public ones build on each other."""
        def order(node):
            kind, number = node.rsplit("_", 1)
            return kind, [int(part) for part in number.split(".")]
        return sorted({version for _, version in self.all()} | set(self.later), key=order)


def version_script(s):
    before = None
    for node in s.nodes():
        names = [name for name, version in s.ours if version == node]
        body = "".join(f"\t\t{name};\n" for name in names)
        yield f"{node} {{\n" + (f"\tglobal:\n{body}" if body else "")
        # Not in a node that .symver puts symbols into: it would hide them.
        yield "\tlocal: *;\n" if node == MARKER_NODE else ""
        public = node.startswith("IBVERBS_1")
        yield "}" + (f" {before}" if public and before else "") + ";\n"
        if public:
            before = node


def default_mark(s, name, version):
    """The one default version of a name is its newest public one."""
    public = [v for n, v in s.all() if n == name and "PRIVATE" not in v]
    newest = max(public, key=lambda v: [int(x) for x in v.rsplit("_", 1)[1].split(".")]) if public else None
    return "@@" if version == newest else "@"


def assembly(s):
    yield '#include "trampoline.h"\n'
    for i, (name, version, target) in enumerate(s.aliases):
        yield f"ALIAS(shim_alias_{i}, {target})\n"
        yield f"\t.symver shim_alias_{i}, {name}{default_mark(s, name, version)}{version}\n"
    for i, (name, version, _) in enumerate(s.tramps):
        yield f"TRAMPOLINE({i})\n"
        yield f"\t.symver shim_tramp_{i}, {name}{default_mark(s, name, version)}{version}\n"
    for name in sorted({name for name, _ in s.data}):
        yield f"DATA(shim_data_{name})\n"
    for i, (name, version) in enumerate(s.data):
        yield f"DATA_ALIAS(shim_data_{i}, shim_data_{name})\n"
        yield f"\t.symver shim_data_{i}, {name}@{version}\n"
    yield f"SLOTS({len(s.tramps)})\n"


def preload(s):
    yield '#include "trampoline.h"\n'
    for name, target in sorted({(name, target) for name, _, target in s.aliases}):
        yield f"ALIAS({name}, {target})\n"


def table(s):
    yield '#include "real.h"\n'
    yield "const struct shim_tramp shim_tramps[] = {\n"
    for name, version, failure in s.tramps:
        yield f'\t{{"{name}", "{version}", {"true" if failure == "null" else "false"}}},\n'
    yield "};\n"


def names(s):
    for name, version in sorted(s.all()):
        yield f"{name}@{version}\n"


def main():
    what, path, out = sys.argv[1:]
    makers = {"map": version_script, "asm": assembly, "table": table, "preload": preload, "names": names}
    text = "".join(makers[what](Symbols(path)))
    with open(out, "w") as f:
        f.write(text)


main()
