# SPDX-License-Identifier: BSD-3-Clause
"""Devices with uplinks, for tests: two network namespaces, a link for the programs' TCP between them, and whatever
joins the devices' DPDK ports. The devices' own addresses are none of the kernel's."""
import contextlib
import glob
import json
import os
import signal

import harness

HOSTS = ("10.99.0.1", "10.99.0.2")       # of the programs' TCP
DEVICES = ("10.0.0.1", "10.0.0.2")
DEVICES_V6 = ("fd77::1", "fd77::2")
PATIENCE_S = 20


class Unavailable(Exception):
    """Such an uplink cannot be made here."""


def module():
    """Skip where uroce was built without uplinks."""
    if not os.path.exists(os.path.join(os.environ["UROCE_BUILD"], "pmd", "uroce-uplink.so")):
        harness.skip("built without uplinks: DPDK's shared libraries are missing")


def need_driver(name):
    """@param name of one of DPDK's drivers: net_memif. Raises Unavailable if it is not installed."""
    if not glob.glob(f"/usr/lib/*/librte_{name}.so.*") and not glob.glob(f"/usr/lib64/librte_{name}.so.*"):
        raise Unavailable(f"DPDK's driver {name} is not installed")


def hosts():
    """@return two namespaces, whose link (va, vb) carries the programs' TCP"""
    return harness.veth_pair(1500)


def link(a, b, mtu):
    """Join the namespaces by another link, for the uplinks: interfaces ua and ub, without addresses."""
    a.run("ip", "link", "add", "ua", "mtu", str(mtu), "type", "veth", "peer", "name", "ub", "mtu", str(mtu),
          "netns", str(b.pid))
    for netns, name in ((a, "ua"), (b, "ub")):
        netns.run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
        netns.run("ip", "link", "set", name, "up")


def sides(spaces, ports, addresses=DEVICES, eal=""):
    """@param ports arguments of the DPDK devices
    @return the two sides"""
    bits = 64 if ":" in addresses[0] else 24
    form = "[{}]" if bits == 64 else "{}"
    return tuple(harness.Side(address, f"{form.format(address)}/{bits}/uplink={port}", netns, host,
                              {"UROCE_EAL": eal} if eal else {})
                 for netns, address, port, host in zip(spaces, addresses, ports, HOSTS))


def joining(side):
    """@return the side, for programs that join the daemon that runs"""
    form = "[{}]" if ":" in side.address else "{}"
    return harness.Side(side.address, form.format(side.address) + "/uplink", side.netns, side.host)


def up(side, more=()):
    """@return what `uroce up` did"""
    with environment(side.env):
        return harness.uroce("up", side.devices, *more, side=side)


@contextlib.contextmanager
def environment(more):
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def kept(tally, what, both, *first):
    """Keep the devices of both sides until the test is done with them, for whatever reason.
    @param first more options of the first device"""
    kept_ones = []
    try:
        for side in both:
            done = up(side, *first if side is both[0] else ())
            kept_ones.append(side)
            tally.result(f"{what}: uroce up {side.devices}", done.returncode == 0, f"exit code {done.returncode}",
                         done.stdout, done.stderr)
        ready = harness.until(PATIENCE_S, lambda: all(status(side).get("link") == "up" for side in both))
        tally.result(f"{what}: links", ready, "not up in time", *map(told, both))
        yield
    finally:
        for side in kept_ones:
            harness.uroce("down", side.address, side=side)
            if not harness.until(PATIENCE_S, lambda side=side: not status(side)):
                kill(daemon(side))


def status(side):
    """@return what `uroce status` says of the device; {}: it is not there"""
    said = harness.uroce("status", side.address, "--json", side=side)
    return json.loads(said.stdout)["devices"][0] if said.returncode == 0 else {}


def told(side):
    """@return what `uroce status` says, for a message"""
    return harness.uroce("status", side.address, side=side).stdout.strip()


def daemon(side):
    """@return the PID of the device's daemon; 0: none"""
    return (status(side).get("daemon") or {}).get("pid") or 0


def guard(pid):
    """@return the PID of the daemon's guard"""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def kill(pid):
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def next_daemon(side, before):
    """Wait for a daemon other than that one. @return its PID; 0: none came"""
    return harness.until(PATIENCE_S, lambda: daemon(side) not in (0, before) and daemon(side)) or 0


def counters(side):
    """@return the counters of the device's uplink, without their common prefix"""
    said = harness.uroce("stat", side.address, "--json", side=side)
    for device in json.loads(said.stdout)["devices"] if said.returncode == 0 else ():
        if "daemon" in device:
            return {name[7:]: entry["value"] for name, entry in device["daemon"].items()
                    if name.startswith("uplink_")}
    return {}


def moved(side):
    """@return how many packets the switch has moved"""
    now = counters(side)
    return now.get("rx_packets", 0) + now.get("tx_packets", 0)
