# SPDX-License-Identifier: BSD-3-Clause
"""Counts a device's resources: descriptors and shared memory of its processes, socket names, sockets, and what
`uroce status` reports. Two equal counts show that nothing has leaked in between."""
import collections
import json
import os
import re
import socket
import struct
import subprocess
import time

import accounts
import mesh
import harness

STEADY_SECONDS = 10

def udp_inodes(address):
    """@return the sockets on the device's RoCE port."""
    word = "%08X:12B7" % struct.unpack("=I", socket.inet_aton(address))
    with open("/proc/net/udp") as f:
        return {line.split()[9] for line in f if word in line}


def descriptors(pid, udp):
    """{kind: how many}, without the standard ones"""
    kinds = collections.Counter()
    for fd in set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        inode = re.match(r"socket:\[(\d+)\]", target)
        if inode and inode.group(1) in udp:
            target = "UDP socket of the device"
        elif inode:
            target = "another socket"
        kinds[re.sub(r"pipe:\[\d+\]", "pipe", target)] += 1
    return dict(kinds)


def mappings(pid):
    """{shared memory object: number of mappings}"""
    with open(f"/proc/{pid}/maps") as f:
        shared = [line.split(None, 5) for line in f if line.split()[1][3] == "s"]
    return dict(collections.Counter(row[5].strip() if len(row) > 5 else "anonymous" for row in shared))


def status(address):
    """What `uroce status --json` reports, without values that differ from process to process."""
    command = [os.path.join(harness.ROOT, "scripts", "uroce"), "status", address, "--json"]
    facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["devices"][0]
    functions = sorted((f["state"], f["answers"], f["command"], f.get("qps")) for f in facts["functions"])
    return {"device": facts["device"], "addresses": facts["addresses"], "problem": facts["problem"],
            "functions": functions}


def count(many, daemon):
    """@return counts seen from outside, so that looking changes nothing. `daemon`: its status."""
    address = many.address
    sockets = udp_inodes(address)
    mine = re.compile(rf"@uroce/{re.escape(address)}(/\d+)?$")
    names = collections.Counter()
    for name, listening in mesh.unix_names():
        if listening and mine.match(name):
            names[f"listening as {re.sub(r'/[0-9]+$', '/N', name)}"] += 1
        elif mine.match(name) or name.startswith(f"@mesh{many.file.name}/"):
            names["connections and members"] += 1
    pids = {"the daemon": daemon["daemon"]["pid"], "a third party": many.processes[mesh.FIRST].pid,
            "the other third party": many.processes[mesh.SECOND].pid}
    found = {"names": dict(names),
             "files in /dev/shm": [f for f in os.listdir("/dev/shm") if re.search("uroce|rte_|dpdk", f)]}
    for who, pid in pids.items():
        found[f"descriptors of {who}"] = descriptors(pid, sockets)
        found[f"shared memory of {who}"] = mappings(pid)
    # the daemon keeps a socket for each number up to the highest ever used
    told = sum(gid["sockets"] for gid in daemon["gids"])
    own = found["descriptors of the daemon"].pop("UDP socket of the device", 0)
    found["UDP sockets, beside those that the daemon says it has"] = len(sockets) - told
    found["descriptors of UDP sockets in the daemon, beside those"] = own - told
    found["descriptors that the daemon does not account for"] = accounts.text(accounts.differences(address))
    return found


def take(many, like=None):
    """Count the resources of a settled mesh. What has just been closed may still be open at the other end: waits
    until nothing changes, or until the counts equal `like`. @return {what: value}"""
    end = time.monotonic() + STEADY_SECONDS
    said = {"status": status(many.address)}
    while time.monotonic() < end and like and said["status"] != like["status"]:
        said = {"status": status(many.address)}
    daemon = mesh.ask_daemon(many.address)
    end = time.monotonic() + STEADY_SECONDS
    before, now = None, None
    while time.monotonic() < end and (now is None or dict(now, **said) != (like or before)):
        time.sleep(0.1)
        before, now = now and dict(now, **said), count(many, daemon)
    return dict(now, **said)


def differences(before, after):
    """@return a list of sentences, one for each difference."""
    return [f"{what}: {before[what]} before, {after[what]} after" for what in before if before[what] != after[what]]
