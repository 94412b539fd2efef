#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the symbols that libibverbs.so.1 of an rdma-core source tree exports, one NAME@VERSION on each line, from the
tree's version script. symbols_test.py compares ours with such lists:

python3 symbols_list.py RDMA_CORE > libibverbs-65.symbols
"""
import os
import re
import sys


def settings(tree):
    """@return the variables that the tree's CMakeLists.txt sets."""
    text = open(os.path.join(tree, "CMakeLists.txt")).read()
    return dict(re.findall(r'^set\((\w+) "([^"]*)"\)', text, re.M))


def symbols(tree, variables):
    """@return the (name, version) pairs of the version script."""
    text = open(os.path.join(tree, "libibverbs", "libibverbs.map.in")).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"@(\w+)@", lambda match: variables[match[1]], text)
    nodes = re.findall(r"(\w[\w.]*)\s*\{(.*?)\}[^;]*;", text, re.S)
    if len(nodes) < 2 or len(nodes) != text.count("{"):
        sys.exit(f"{tree}: the version script has a form that is not known")
    for version, body in nodes:
        exported = body.split("local:")[0].replace("global:", "")
        for name in re.findall(r"[^\s;]+", exported):
            if not re.fullmatch(r"\w+", name):
                sys.exit(f"{tree}: {name} in node {version} is no name")
            yield name, version


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree = sys.argv[1]
    variables = settings(tree)
    print(f"# Symbols of libibverbs.so.1 of rdma-core {variables['PACKAGE_VERSION']}: by tests/shim/symbols_list.py"
          " from its version script.")
    for line in sorted(f"{name}@{version}" for name, version in symbols(tree, variables)):
        print(line)


main()
