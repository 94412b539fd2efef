#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Uplinks over DPDK ports of all kinds that need no hardware: AF_PACKET and AF_XDP over veth, memif to another uroce
and through DPDK's testpmd, vhost-user ports of Open vSwitch with DPDK. Two network namespaces, two processes a side;
the switch's daemon is killed and comes back."""
import os
import shutil
import signal
import subprocess
import tempfile

import harness
import ovs
import uplink_test
import uplinks


def folder():
    """@return a folder of the test's, for sockets that both namespaces see"""
    made = tempfile.TemporaryDirectory(prefix="uroce-uplink-")
    os.chmod(made.name, 0o755)
    return made


class Ports:
    """The arguments of both devices, what is between them, and the IB MTUs that they carry."""

    def __init__(self, spaces):
        self.ports, self.mtus = (), (512, 1024)

    def crashed(self):
        """@return whether what is between the devices has crashed"""
        return False

    def close(self):
        pass


class AfPacket(Ports):
    def __init__(self, spaces):
        uplinks.need_driver("net_af_packet")
        super().__init__(spaces)
        uplinks.link(*spaces, 4500)
        self.ports, self.mtus = [f"net_af_packet0,iface={name}" for name in ("ua", "ub")], (1024, 4096)


class AfXdp(Ports):
    def __init__(self, spaces):
        uplinks.need_driver("net_af_xdp")
        super().__init__(spaces)
        uplinks.link(*spaces, 1500)
        self.ports = [f"net_af_xdp0,iface={name}" for name in ("ua", "ub")]


class Memif(Ports):
    """One side is the server of the other."""

    def __init__(self, spaces):
        uplinks.need_driver("net_memif")
        super().__init__(spaces)
        self.folder = folder()
        self.ports = [f"net_memif0,role={role},socket-abstract=no,socket={self.folder.name}/memif"
                      for role in ("server", "client")]

    def close(self):
        self.folder.cleanup()


class Testpmd(Ports):
    """DPDK's testpmd forwards between two memifs. DPDK 22.11's memif server sometimes crashes when a client is killed:
    it unmaps the client's memory while a core still polls it."""

    def __init__(self, spaces):
        uplinks.need_driver("net_memif")
        super().__init__(spaces)
        program = shutil.which("dpdk-testpmd")
        if not program:
            raise uplinks.Unavailable("there is no dpdk-testpmd (package dpdk)")
        self.folder = folder()
        sockets = [f"{self.folder.name}/{number}" for number in range(2)]
        devices = [word for number, path in enumerate(sockets) for word in (
            "--vdev", f"net_memif{number},role=server,socket-abstract=no,socket={path}")]
        cpus = ",".join(map(str, os.sched_getaffinity(0)))
        self.process = subprocess.Popen(
            [program, "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256",
             "--lcores", f"0@({cpus}),1@({cpus})", *devices, "--", "--forward-mode=io", "--total-num-mbufs=8192"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=harness.die_with_parent)
        if not harness.until(20, lambda: all(map(os.path.exists, sockets))):
            self.close()
            raise uplinks.Unavailable("testpmd does not start")
        self.ports = [f"net_memif0,role=client,socket-abstract=no,socket={path}" for path in sockets]

    def crashed(self):
        return self.process.poll() == -signal.SIGSEGV

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.folder.cleanup()


class Ovs(Ports):
    """vhost-user ports of Open vSwitch, which connects to the devices."""

    def __init__(self, spaces):
        uplinks.need_driver("net_virtio")
        super().__init__(spaces)
        try:
            self.switch = ovs.Switch(2)
        except ovs.Unavailable as error:
            raise uplinks.Unavailable(str(error)) from error
        self.ports = [f"net_virtio_user0,path={path},server=1" for path in self.switch.ports]

    def close(self):
        self.switch.close()


def switch_restarts(tally, sides, switch):
    """Open vSwitch ends, and a new one connects to the devices."""
    states = []
    for step, state in ((switch.stop, "down"), (switch.go_on, "up")):
        step()
        harness.until(uplinks.PATIENCE_S, lambda state=state: links(sides) == {state})
        states.append(links(sides))
    tally.result("uroce status tells that the switch is gone, and back", states == [{"down"}, {"up"}], str(states))
    reached(tally, sides)


def links(sides):
    return {uplinks.status(side).get("link") for side in sides}


ATTEMPTS = 3
KINDS = {"af_packet": AfPacket, "af_xdp": AfXdp, "memif": Memif, "testpmd": Testpmd, "ovs": Ovs}


def reached(tally, sides):
    """Whatever is between the devices needs a moment until it forwards."""
    argv = ["ib_send_lat", "-F", "-p", "PORT", "-n", "10", "-m", "512"]
    results = []

    def works():
        results.append(harness.run_pair(argv, argv + [sides[0].host], sides, 20))
        return results[-1][0]
    ok = harness.until(60, works)
    tally.result("one device reaches the other", ok, results[-1][1], *results[-1][2:])
    return ok


class Attempt(harness.Tally):
    """Keeps results until it is known whether they count."""

    def __init__(self, name):
        super().__init__(name)
        self.results = []

    def result(self, case, ok, reason="", *outputs):
        print(f"     done: {case}" if ok else f"     not done: {case}: {reason}", flush=True)
        self.results.append((case, ok, reason, *outputs))


def attempt(name, steps):
    """@return the results of a kind of ports, and whether what is between the devices has crashed"""
    tally, spaces, kind = Attempt(name), uplinks.hosts(), None
    try:
        kind = KINDS[name](spaces)
        sides = uplinks.sides(spaces, kind.ports)
        with uplinks.kept(tally, name, sides):
            if reached(tally, sides):
                for step in (uplink_test.matrix, uplink_test.data, uplink_test.programs, uplink_test.connections,
                             uplink_test.daemon_dies):
                    if not steps or step.__name__ in steps.split(","):
                        step(tally, sides, *[kind.mtus] if step is uplink_test.matrix else
                             [kind.mtus[-1]] if step is uplink_test.data else [])
                if name == "ovs":
                    switch_restarts(tally, sides, kind.switch)
            crashed = kind.crashed()
        return tally.results, crashed
    finally:
        if kind:
            kind.close()
        for space in spaces:
            space.close()


def run(name, tally, steps):
    """Results do not count if what is between the devices has crashed, unless it crashes each time."""
    for number in range(ATTEMPTS):
        try:
            results, crashed = attempt(name, steps)
        except uplinks.Unavailable as error:
            if number > 0:
                raise
            print(f"SKIP {name}: {error}", flush=True)
            return
        if not crashed:
            break
        print(f"NOTE {name} has crashed, so these results do not count: once more", flush=True)
    for result in results:
        tally.result(*result)
    if crashed:
        tally.result(f"{name} does not crash", False, f"it crashed {ATTEMPTS} times")


def main():
    args = harness.options(__doc__, ("--only", f"kinds of ports, separated by commas: {', '.join(KINDS)}", ""),
                           ("--steps", "only these, separated by commas", ""))
    harness.need_programs("ib_write_bw", "rping", "fi_pingpong", "nsenter", "unshare")
    harness.need_root()
    uplinks.module()
    tally = harness.Tally("uplink_ports")
    for name in args.only.split(",") if args.only else KINDS:
        print(f"-- {name}", flush=True)
        run(name, tally, args.steps)
    tally.finish()


if __name__ == "__main__":
    main()
