#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the exports of the drop-in libibverbs.so.1 with those of libibverbs.

A symbol that ours lacks could pass our objects to the real library, or keep a program or a driver from being loaded
at all. Checked: the library installed here, and the recorded lists of rdma-core 44 and 65; that nothing is exported
beyond symbols.list; that the preload library covers every function of ours; that a running program can load both; and
that symbols_list.py, which made the list of rdma-core 65, reads a version script.
"""
import argparse
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def exported(library):
    """@return the set of (name, version) that a library defines; version None without version nodes."""
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                         capture_output=True, text=True).stdout
    symbols = set()
    for line in out.splitlines():
        *_, kind, name = line.split()
        name, _, version = name.replace("@@", "@").partition("@")
        if kind in "TtDdBbRrVWi":
            symbols.add((name, version or None))
    return symbols


def listed(path):
    rows = (line.split("#")[0].strip() for line in open(path))
    return {tuple(row.split("@")) for row in rows if row}


SETTINGS = """set(PACKAGE_NAME "RDMA")
set(PACKAGE_VERSION "77.0")
set(IBVERBS_PABI_VERSION "76")
"""
SCRIPT = """/* no { node; */
IBVERBS_1.0 {
	global:
		ibv_b;
		ibv_a;
	local: *;
};

IBVERBS_1.31 {
	global: ibv_b; /* again */
} IBVERBS_1.0;

IBVERBS_PRIVATE_@IBVERBS_PABI_VERSION@ {
	global:
		verbs_register_driver_@IBVERBS_PABI_VERSION@;
};
"""
LISTED = {("ibv_a", "IBVERBS_1.0"), ("ibv_b", "IBVERBS_1.0"), ("ibv_b", "IBVERBS_1.31"),
          ("verbs_register_driver_76", "IBVERBS_PRIVATE_76")}


def script_differs():
    """@return what symbols_list.py finds in a source tree or misses there."""
    with tempfile.TemporaryDirectory() as tree:
        os.mkdir(f"{tree}/libibverbs")
        for path, text in ("CMakeLists.txt", SETTINGS), ("libibverbs/libibverbs.map.in", SCRIPT):
            with open(f"{tree}/{path}", "w") as f:
                f.write(text)
        with open(f"{tree}/list", "w") as f:
            subprocess.run([sys.executable, f"{HERE}/symbols_list.py", tree], check=True, stdout=f)
        if "rdma-core 77.0" not in open(f"{tree}/list").read():
            return {("the release", None)}
        return listed(f"{tree}/list") ^ LISTED


def installed():
    """@return the libibverbs of this machine, not ours."""
    for pattern in ("/usr/lib/*/libibverbs.so.1", "/usr/lib64/libibverbs.so.1", "/usr/lib/libibverbs.so.1"):
        for path in glob.glob(pattern):
            if not any(name == "uroce_ibverbs_marker" for name, _ in exported(path)):
                return path
    return None


def hooks(folder):
    """@return names of the C library that the sysfs hooks define."""
    names = set()
    for path in glob.glob(os.path.join(folder, "hooks_*.c")):
        names |= set(re.findall(r"^HOOK\([^,]+, (\w+),|^HOOK_ALIAS\((\w+),", open(path).read(), re.M))
    return {a or b for a, b in names} | {"uroce_cm_attach", "uroce_sysfs_attach", "uroce_sysfs_bypass"}


def show(title, symbols):
    for name, version in sorted(symbols, key=str):
        print(f"{title}: {name}@{version}")
    return len(symbols)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dropin", required=True)
    p.add_argument("--preload", required=True)
    p.add_argument("--names", required=True, help="what symbols.list means, from symbols.py")
    p.add_argument("--sysfs", required=True, help="the library of hooks")
    p.add_argument("--hooks", required=True, help="the folder of its sources")
    a = p.parse_args()
    ours, bad = exported(a.dropin), 0
    if len(ours) < 150:
        sys.exit(f"{a.dropin} exports only {len(ours)} symbols")
    real = installed()
    if real:
        bad += show(f"exported by {real}, not by ours", exported(real) - ours)
    else:
        print("no libibverbs is installed here to compare with")
    for release in (44, 65):
        bad += show(f"exported by rdma-core {release}, not by ours",
                    listed(f"{HERE}/libibverbs-{release}.symbols") - ours)
    bad += show("misread by symbols_list.py", script_differs())
    bad += show("exported beyond symbols.list", ours - listed(a.names))
    bad += show("in symbols.list, not exported", listed(a.names) - ours)

    # A preload library needs no trampolines: a name that it lacks is found in the program's own library. But it must
    # have all functions that take objects: every public one that the drop-in does not merely pass on.
    preload = {name for name, _ in exported(a.preload)}
    public = {name for name, version in ours if version != "IBVERBS_1.0" and "PRIVATE" not in version}
    passed_on = {"ibv_copy_ah_attr_from_kern", "ibv_register_driver"}
    passed_on |= {name for name in public  # no counter is ours
                  if re.fullmatch(r"ibv_(destroy|(read|set|inc)(_err)?)_comp_cntr", name)}
    needed = (public | {"ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_query_gid_type"}) - passed_on
    bad += show("not in the preload library", {(name, "any") for name in needed - preload})
    bad += show("exported by the preload library for no reason", {(n, None) for n in
                                                                       preload - {n for n, _ in ours} - hooks(a.hooks)})

    # The hooks are the same in both libraries that are preloaded, and not in the drop-in.
    sysfs = {name for name, _ in exported(a.sysfs)}
    if len(hooks(a.hooks)) < 50:
        sys.exit(f"found only {len(hooks(a.hooks))} hooks in {a.hooks}")
    for title, wrong in (("hook not in the preload library", hooks(a.hooks) - preload),
                         ("hook not in the library of hooks", hooks(a.hooks) - sysfs),
                         ("no hook, exported by their library", sysfs - hooks(a.hooks)),
                         ("hook in the drop-in", hooks(a.hooks) & {name for name, _ in ours})):
        bad += show(title, {(name, None) for name in wrong})

    # Programs also load libibverbs while they run; that fails if it needs more static TLS than is left.
    for library in (a.dropin, a.preload, a.sysfs):
        try:
            ctypes.CDLL(library)
        except OSError as error:
            print(f"cannot be loaded at run time: {error}")
            bad += 1
    print(f"{len(ours)} symbols in the drop-in, {len(preload)} in the preload library, {bad} wrong")
    return 1 if bad else 0


sys.exit(main())
