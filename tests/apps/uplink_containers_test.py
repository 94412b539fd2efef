#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two unprivileged containers without any network, joined by vhost-user ports of Open vSwitch with DPDK: programs that
connect through librdmacm, two processes a container at the same time."""
import glob
import os
import shutil

import harness
import ovs
import podman
import uplinks

DRIVERS = ("librte_net_virtio", "librte_bus_vdev", "librte_bus_pci", "librte_mempool_ring")
PROGRAMS = ["ib_write_bw", "ib_send_lat", "rping", "sh", "cat", "sleep"]
PLACE = "/ovs"
TRIES_S = 60


def drivers(tree):
    """Add the module of uplinks, and DPDK's drivers that such a port needs."""
    tree.needed(tree.find("uroce-uplink.so"))
    for name in DRIVERS:
        found = glob.glob(f"/usr/lib/*/dpdk/pmds-*/{name}.so.*")
        if not found:
            harness.skip(f"DPDK's driver {name} is not installed")
        for path in found:
            tree.copy(path)
            tree.needed(path)


def connected(server, client, sides):
    """Run a pair; nobody waits until the server listens, so the client tries again. @return as harness.run_pair"""
    waiting = sides[0].start(*server)
    tried = []

    def works():
        tried.append(sides[1].start(*client))
        return tried[-1].wait(30) == 0 or waiting.popen.poll() is not None
    harness.until(TRIES_S, works)
    codes = [waiting.wait(10), tried[-1].popen.returncode]
    return codes == [0, 0], f"exit codes {codes}", waiting.output(), tried[-1].output()


def pairs(tally, sides):
    to, port = uplinks.DEVICES[0], iter(range(7471, 7500))

    def case(*argv):
        argv = [*argv, "-R", "-F", "-p", str(next(port)), "-m", "1024"]
        return argv, [*argv, to]
    # Keeps both daemons while others come and go.
    keeper = [sides[0].start("rping", "-s", "-a", to, "-p", "7470"),
              sides[1].start("sh", "-c", "until rping -c -a 10.0.0.1 -p 7470 -C 1000000; do sleep 0.2; done")]
    for argv in (("ib_write_bw", "-n", "1000", "-s", "4096"), ("ib_send_lat", "-n", "500"),
                 ("ib_send_lat", "-n", "500", "-e")):
        server, client = case(*argv)
        ok, reason, *outputs = connected(server, client, sides)
        tally.result(f"two containers, only OVS between them: {' '.join(argv)}", ok, reason, *outputs)
    going = [process.popen.poll() for process in keeper]
    tally.result("rping goes on beside them", going == [None, None], str(going), *[p.output() for p in keeper])
    for process in keeper:
        process.kill()


def main():
    args = harness.options(__doc__)
    harness.need_root()
    harness.need_programs("ib_write_bw", "rping", "unshare", "nsenter", "ip")
    uplinks.module()
    if not shutil.which("podman"):
        harness.skip("podman is not installed; scripts/packages install containers")
    try:
        switch = ovs.Switch(2)
    except ovs.Unavailable as error:
        harness.skip(str(error))
    os.chmod(switch.folder, 0o1777)  # the containers' user makes the sockets
    host = podman.Host(os.path.abspath(args.build), PROGRAMS)
    drivers(host.tree)
    host.probe()
    tally = harness.Tally("uplink_containers")
    sides = [podman.Container(host, name, ["--network=none", f"--volume={switch.folder}:{PLACE}"], environment=[
        f"UROCE_DEVICES={address}/24/uplink=net_virtio_user0,path={PLACE}/{number}.sock,server=1"])
             for number, (name, address) in enumerate(zip("ab", uplinks.DEVICES))]
    pairs(tally, sides)
    tally.result("both ports of the switch have received packets", all(switch.packets()), str(switch.packets()))
    switch.close()
    tally.finish()


if __name__ == "__main__":
    main()
