# SPDX-License-Identifier: BSD-3-Clause
"""What a daemon has open, held against what it says it has: each descriptor belongs to something that `uroce status` shows.
What is left over has leaked. Looking changes nothing, and may happen at any time."""
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

LOOKS = 5       # in a row that have to differ before a daemon that has left meanwhile is said to have leaked
PAUSE = 0.02    # seconds between looks
PATIENCE = 10   # seconds until what has just ended is closed at the other end, too


def table(pid, name, column):
    """{inode: fields} of a table of sockets in the process's network namespace."""
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
    """{kind: how many} of a process, without the standard ones."""
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
    """{kind: how many} of the daemon, by its own words, with a tool connected."""
    others = sum(entry["gid"] != status["device"] for entry in status["gids"])
    functions = sum(function["state"] in ("live", "silent") for function in status["functions"])
    return {"UDP sockets": sum(entry["sockets"] for entry in status["gids"]), "listening UNIX sockets": 1 + others,
            "connections": functions + 2 * status.get("keeper", {"sockets": 1}).get("there", True) + 1,
            "anon_inode:[eventpoll]": 1, "anon_inode:[signalfd]": 1, "netlink sockets": int(status["follow"] != "none")}


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
    """@return "" once the daemon accounts for all that it has open, or is not there; else what it does not account for."""
    difference = {}

    def agrees():
        nonlocal difference
        difference = differences(address)
        return not difference
    harness.until(seconds, agrees)
    return text(difference)


def until_gone(address, seconds=20):
    """As settled, of a daemon that is about to leave: by the time it does, it has to have agreed once."""
    looks, difference, end = 0, {}, time.monotonic() + seconds
    while time.monotonic() < end and (now := differences(address)) is not None:
        if not now:
            return ""
        looks, difference = looks + 1, now
        time.sleep(PAUSE)
    return text(difference) if looks >= LOOKS else ""
