# SPDX-License-Identifier: BSD-3-Clause
"""Compares what a daemon has open with what it says it has: each descriptor must belong to something that `uroce
status` shows; any other has leaked. The check changes nothing and may run at any time."""
import collections
import os
import re
import sys
import time

import harness

sys.path.insert(0, os.path.join(harness.ROOT, "scripts"))
sys.dont_write_bytecode = True
from uroce_cmd import proto  # noqa: E402
from uroce_cmd.devices import LISTENING  # noqa: E402

LOOKS = 5       # consecutive looks that must differ before a daemon that has meanwhile left counts as leaking
PAUSE = 0.02    # seconds between looks
PATIENCE = 10   # seconds for the other end to close as well what has just ended


def table(pid, name, column):
    """@return {inode: fields} from a table of sockets in the process's network namespace."""
    try:
        with open(f"/proc/{pid}/net/{name}", errors="replace") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return {}
    return {row[column]: row for row in rows if len(row) > column}


def sockets(pid):
    """{inode: kind}"""
    kinds = {inode: "UDP sockets" for name in ("udp", "udp6") for inode in table(pid, name, 9)}
    kinds.update({inode: "netlink sockets" for inode in table(pid, "netlink", -1)})
    for inode, row in table(pid, "unix", 6).items():
        kinds[inode] = "listening UNIX sockets" if int(row[3], 16) & LISTENING else "connections"
    return kinds


def descriptors(pid):
    """@return {kind: how many} of a process's descriptors, without the standard ones."""
    kinds, found = sockets(pid), collections.Counter()
    for fd in set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        inode = re.match(r"socket:\[(\d+)\]", target)
        found[kinds.get(inode.group(1), "other sockets") if inode else re.sub(r":\[\d+\]$", "", target)] += 1
    return found


def said(status):
    """@return {kind: how many} that the daemon says it has, with a tool connected."""
    others = sum(entry["gid"] != status["device"] for entry in status["gids"])
    watches = status["follow"] != "none" or any(entry["gid"].startswith("fe80:") for entry in status["gids"])
    functions = sum(function["state"] in ("live", "silent") for function in status["functions"])
    return {"UDP sockets": sum(entry["sockets"] for entry in status["gids"]), "listening UNIX sockets": 1 + others,
            "connections": functions + 2 * status.get("keeper", {"sockets": 1}).get("there", True) + 1,
            "anon_inode:[eventpoll]": 1, "anon_inode:[signalfd]": 1, "netlink sockets": int(watches)}


def differences(address):
    """@return {kind: (found, said)} where these differ; None when there is no daemon."""
    try:
        with proto.Connection(proto.daemon_name(address), "the daemon") as connection:
            status = connection.ask("status")
            found, expected = descriptors(connection.pid), said(status)
    except (proto.UroceError, OSError):
        return None
    return {kind: (found.get(kind, 0), expected.get(kind, 0)) for kind in sorted(set(found) | set(expected))
            if found.get(kind, 0) != expected.get(kind, 0)}


def text(difference):
    return "; ".join(f"the daemon has {found} {kind} and accounts for {told}"
                     for kind, (found, told) in (difference or {}).items())


def settled(address, seconds=PATIENCE):
    """@return "" once the daemon accounts for everything it has open, or is gone; otherwise what it does not account
    for."""
    difference = {}

    def agrees():
        nonlocal difference
        difference = differences(address)
        return not difference
    harness.until(seconds, agrees)
    return text(difference)


def until_gone(address, seconds=20):
    """As settled, for a daemon that is about to leave: the two must have agreed once before it leaves."""
    looks, difference, end = 0, {}, time.monotonic() + seconds
    while time.monotonic() < end and (now := differences(address)) is not None:
        if not now:
            return ""
        looks, difference = looks + 1, now
        time.sleep(PAUSE)
    return text(difference) if looks >= LOOKS else ""
