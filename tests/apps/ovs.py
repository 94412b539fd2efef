# SPDX-License-Identifier: BSD-3-Clause
"""A switch of Debian's Open vSwitch with DPDK, from packages that are unpacked or installed: its two daemons, started
by hand in a temporary folder, without hugepages and with a network namespace of their own."""
import atexit
import os
import shutil
import subprocess
import tempfile

import harness

PACKAGES = ("openvswitch-common", "openvswitch-switch", "openvswitch-switch-dpdk")
# Without hugepages; OVS would add --in-memory, which excludes that.
EAL = "--no-huge --legacy-mem --no-shconf --no-pci -m 512"
START_S = 60


class Unavailable(Exception):
    """There is no such switch here."""


def find(name):
    """@return the path of a file of the packages"""
    unpacked = [os.path.join(os.environ["UROCE_BUILD"], "peers", package) for package in PACKAGES]
    for root in [*unpacked, ""]:
        path = f"{root}/usr/{name}"
        if os.path.exists(path):
            return path
    raise Unavailable(f"there is no {name}; scripts/packages unpack NAME BUILD/peers, for: {' '.join(PACKAGES)}")


class Switch:
    """A bridge with vhost-user ports; ports[n] is the socket of port n, to which OVS connects."""

    def __init__(self, ports, mtu=1500):
        self.daemons = []
        self.programs = {name: find(path) for name, path in (
            ("tool", "bin/ovsdb-tool"), ("database", "sbin/ovsdb-server"), ("vsctl", "bin/ovs-vsctl"),
            ("switch", "lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"))}
        schema = find("share/openvswitch/vswitch.ovsschema")
        self.folder = tempfile.mkdtemp(prefix="uroce-ovs-")
        os.chmod(self.folder, 0o755)
        atexit.register(self.close)
        self.netns = harness.Netns()
        self.environment = {**os.environ, "OVS_PKGDATADIR": os.path.dirname(schema),
                            **{name: self.folder for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR")}}
        self.ports = [f"{self.folder}/{number}.sock" for number in range(ports)]
        try:
            self.start(schema)
            for number, path in enumerate(self.ports):
                self.vsctl("add-port", "bridge", f"port{number}", "--", "set", "Interface", f"port{number}",
                           "type=dpdkvhostuserclient", f"options:vhost-server-path={path}", f"mtu_request={mtu}")
        except Unavailable:
            self.close()
            raise

    def start(self, schema):
        database = f"{self.folder}/conf.db"
        self.socket = f"{self.folder}/db.sock"
        self.must(self.programs["tool"], "create", database, schema)
        self.daemon("database", database, f"--remote=punix:{self.socket}")
        if not harness.until(START_S, lambda: os.path.exists(self.socket)):
            raise Unavailable(f"ovsdb-server does not start: {self.log('database')}")
        self.vsctl("--no-wait", "init")
        # A pool of packets for all ports would need more memory than there is, and OVS would leave a port out.
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
                   "other_config:per-port-memory=true", f"other_config:dpdk-extra={EAL}",
                   f"other_config:pmd-cpu-mask={1 << max(os.sched_getaffinity(0)):x}")
        self.go_on()
        try:
            self.vsctl("add-br", "bridge", "--", "set", "bridge", "bridge", "datapath_type=netdev")
        except Unavailable as error:
            raise Unavailable(f"{error}; {self.log('switch')}") from error

    def go_on(self):
        """Start the switch proper; the database has its bridge and ports."""
        self.daemon("switch", f"unix:{self.socket}")

    def stop(self):
        """Kill the switch proper."""
        process = self.daemons.pop()
        process.kill()
        process.wait()

    def daemon(self, name, *argv):
        enter = ["nsenter", f"--net=/proc/{self.netns.pid}/ns/net"]
        self.daemons.append(subprocess.Popen(
            [*enter, self.programs[name], *argv, f"--unixctl={self.folder}/{name}.ctl",
             f"--log-file={self.folder}/{name}.log"], env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=harness.die_with_parent))

    def must(self, *argv):
        done = subprocess.run(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=2 * START_S, check=False)
        if done.returncode:
            raise Unavailable(f"{' '.join(argv)}: exit code {done.returncode}: {done.stdout.strip()}")
        return done.stdout.strip()

    def vsctl(self, *argv):
        """Run ovs-vsctl, which waits until the switch has done it. @return its output"""
        return self.must(self.programs["vsctl"], f"--db=unix:{self.socket}", f"--timeout={START_S}", *argv)

    def packets(self):
        """@return how many packets each port has received"""
        return [int(self.vsctl("get", "Interface", f"port{number}", "statistics:rx_packets"))
                for number in range(len(self.ports))]

    def log(self, name):
        """@return the last lines of a daemon's log"""
        try:
            with open(f"{self.folder}/{name}.log", encoding="utf-8", errors="replace") as f:
                return "\n".join(f.read().splitlines()[-10:])
        except OSError:
            return "no log"

    def close(self):
        for process in reversed(self.daemons):
            process.kill()
            process.wait()
        self.daemons = []
        shutil.rmtree(self.folder, ignore_errors=True)
