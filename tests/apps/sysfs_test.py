#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Device files in /sys and /dev, as programs see them that know nothing of uroce: ls, cat, find, bash, Python,
ibstat, perftest's counters, UCX, hwloc; with hooks of the C library, in both packagings, and in a mount namespace.

Cases whose programs are not installed are skipped.
"""
import ipaddress
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import harness

DEV = "/sys/class/infiniband/uroce0"
PORT = DEV + "/ports/1"
# its PCI function: no domain that a kernel uses by itself, four hex digits, below a host bridge and a port
PLACE = r"/sys/devices/pciff(..):00/ff\1:00:01\.0/ff\1:01:00\.0"
RUN = os.path.join(harness.ROOT, "scripts", "uroce-run")
# in a mount namespace: without the hooks, as a program that they do not reach
UNPRELOADED = ["env", "-u", "LD_PRELOAD"]

# What a machine with another driver's device shows: run as root in a mount namespace.
OTHER_DEVICE = """
mount -t tmpfs none /sys/class && mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 || exit 99
mkdir -p /sys/class/net /sys/class/infiniband /sys/class/infiniband_verbs/uverbs4 /dev/infiniband
ln -s ../../devices/virtual/net/lo /sys/class/infiniband/other_0
echo 7 >/sys/class/infiniband_verbs/abi_version
echo other_0 >/sys/class/infiniband_verbs/uverbs4/ibdev
mkdir -p /sys/class/pci_bus/fffe:07
mknod /dev/infiniband/uverbs4 c 231 196
exec "$@"
"""

HIDING = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/devices/virtual/misc && exec "$@"', "sh"]


class Runner:
    """Runs commands under uroce-run with some options, and checks what they print."""

    def __init__(self, tally, address, *options, before=()):
        self.tally, self.address, self.options, self.before = tally, address, list(options), list(before)
        self.name = " ".join(["uroce-run"] + self.options)

    def output(self, argv, env=None):
        environment = {"UROCE_DEVICES": self.address, **(env or {})}
        process = harness.Process(self.before + [RUN] + self.options + argv, env=environment)
        code = process.wait(60)
        return code, process.output()

    def check(self, case, argv, *patterns, code=0, absent=(), env=None):
        """Every pattern must be in the output, and none of `absent`."""
        if argv[0] == RUN or shutil.which(argv[0]):
            got, text = self.output(argv, env)
            missing = [p for p in patterns if not re.search(p, text, re.M)]
            found = [p for p in absent if re.search(p, text, re.M)]
            self.tally.result(f"{self.name}: {case}", got == code and not missing and not found,
                              f"exit code {got}, without {missing}, with {found}", text)
        else:
            print(f"SKIP {self.name}: {case}: {argv[0]} is not installed", flush=True)


def gid_text(address):
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def guid_of(run):
    """@return the node GUID, as libibverbs reports it."""
    match = re.search(r"node_guid:\s+(\S+)", run.output(["ibv_devinfo"])[1])
    return match.group(1) if match else "none"


def check_files(run, address):
    """What scripts read, both with hooks and in a mount namespace."""
    guid = re.escape(guid_of(run))
    run.check("cat node_guid", ["cat", DEV + "/node_guid"], f"^{guid}$")
    run.check("cat of several files", ["cat", PORT + "/state", PORT + "/link_layer", PORT + "/gids/0",
                                       PORT + "/gid_attrs/types/0", PORT + "/gid_attrs/ndevs/0"],
              "^4: ACTIVE$", "^Ethernet$", f"^{gid_text(address)}$", "^RoCE v2$", "^lo$")
    run.check("ls -l", ["ls", "-l", PORT], r"^drwx.* gids$", r"^-r--r--r--.* state$", absent=("cannot", "No such"))
    run.check("ls of the class", ["ls", "/sys/class/infiniband", "/sys/class/infiniband_verbs"], "^uroce0$",
              r"^uverbs\d+$", "^abi_version$")
    run.check("find", ["find", DEV + "/", "-name", "port_xmit_data"], f"^{PORT}/counters/port_xmit_data$")
    run.check("sh and a pattern",
              ["sh", "-c", "for d in /sys/class/infiniband/*; do echo \"$d: $(cat $d/ports/1/rate)\"; done"],
              rf"^{DEV}: 100 Gb/sec \(4X EDR\)$")
    run.check("bash and a pattern", ["bash", "-c", "grep . /sys/class/infiniband/*/ports/*/{state,phys_state}"],
              f"^{PORT}/state:4: ACTIVE$", f"^{PORT}/phys_state:5: LinkUp$")
    run.check("cd and relative names", ["sh", "-c", f"cd {PORT} && cat lid && ls gids"], "^0x0$", "^15$")
    run.check("readlink -f", ["readlink", "-f", DEV + "/device/net/lo"], "^/sys/devices/virtual/net/lo$")
    run.check("the PCI function", ["readlink", "-f", DEV + "/device", DEV + "/device/infiniband/uroce0"],
              rf"\A{PLACE}\n/sys/devices/\S+/infiniband/uroce0\n\Z")
    run.check("its files",
              ["sh", "-c", f"cd $(readlink -f {DEV}/device) && cat vendor class numa_node ../class uevent"],
              r"\A0x726f\n0x020000\n-1\n0x060400\n", r"^PCI_SLOT_NAME=ff..:01:00\.0$")
    run.check("a missing file", ["cat", DEV + "/nobody"], "No such file or directory", code=1)
    run.check("ibstat", ["ibstat"], "^CA 'uroce0'$", "State: Active", "Rate: 100$", "Link layer: Ethernet",
              "Node GUID: 0x" + guid.replace(":", ""))
    run.check("ibstatus", ["ibstatus"], "^Infiniband device 'uroce0' port 1 status:$", r"state:\s+4: ACTIVE",
              r"default gid:\s+" + gid_text(address))


PYTHON = """
import glob, os
assert os.listdir("/sys/class/infiniband") == ["uroce0"], os.listdir("/sys/class/infiniband")
names = {e.name: e.is_dir() for e in os.scandir("%(dev)s")}
assert names["ports"] and not names["node_guid"], names
assert open("%(port)s/state").read() == "4: ACTIVE\\n"
place = os.path.realpath("%(dev)s/device")
assert place.startswith("/sys/devices/pci"), place
assert os.path.realpath("%(dev)s/device/infiniband/uroce0") == place + "/infiniband/uroce0"
assert os.path.samefile(place + "/infiniband/uroce0", "%(dev)s")
assert os.path.realpath("/sys/bus/pci/devices/" + os.path.basename(place)) == place
assert os.path.basename(place) not in os.listdir("/sys/bus/pci/devices" if os.path.exists("/sys/bus/pci") else ".")
assert glob.glob("/sys/class/*infiniband/*") == []
assert glob.glob("/sys/class/infiniband/*/ports/1/lid") == ["%(port)s/lid"]
assert [d for d, _, files in os.walk("%(port)s") if "0" in files] != []
try:
    open("%(port)s/state", "w")
except PermissionError:
    print("all right")
""" % {"dev": DEV, "port": PORT}


def check_hooks(run, address):
    check_files(run, address)
    run.check("Python", [sys.executable, "-c", PYTHON], "^all right$")
    uverbs = os.listdir("/sys/class/infiniband_verbs") if os.path.exists("/sys/class/infiniband_verbs") else []
    if not uverbs:
        run.check("the character device", ["ls", "-l", "/dev/infiniband"], r"^crw-rw-rw-.* uverbs0$")
        run.check("test -c", ["sh", "-c", "test -c /dev/infiniband/uverbs0 && : <>/dev/infiniband/uverbs0 && echo yes"],
                  "^yes$")
    code, text = run.output(["sh", "-c", f"exec 3<{PORT}/state; ls {PORT} >/dev/null; ls /proc/$$/fd"])
    numbers = [int(line) for line in text.split() if line.isdigit()]
    low = [n for n in numbers if n < 700]
    run.tally.result(f"{run.name}: no low descriptors of ours", code == 0 and low and max(low) <= 10,
                     f"open: {numbers}", text)
    for devices, names in (("127.14.1.1,127.14.1.2", "^uroce0\\s+uroce1$"), ("127.14.1.1", "^uroce0$")):
        run.check(f"with UROCE_DEVICES={devices}", ["sh", "-c", "echo $(ls /sys/class/infiniband)"], names,
                  env={"UROCE_DEVICES": devices})
    run.check("ibv_devinfo", ["ibv_devinfo", "-v"], "^hca_id:\\s+uroce0$",
              f"GID\\[\\s*0\\]:\\s+::ffff:{address}, RoCE v2")


def check_counters(tally):
    """perftest reads the files before and after its run: words of 4 bytes, packets, messages."""
    sides = harness.loopback_sides()
    n, size = 500, 4000
    counters = "counters/port_xmit_data,counters/port_rcv_data,hw_counters/rx_write_requests"
    argv = ["ib_write_bw", "-F", "-p", "PORT", "-n", str(n), "-s", str(size), "-m", "1024", "-W", counters]
    ok, reason, server, client = harness.run_pair(argv, argv + [sides[0].host], sides, 60)
    for name, text, sent, received, writes in (("client", client, n * size // 4, 0, 0),
                                               ("server", server, 0, n * size // 4, n)):
        values = dict(re.findall(r"(\S+counters/\w+|counters/\w+)=(\d+)", text))
        # Retransmissions after a loss count as well.
        at_least = {"counters/port_xmit_data": sent, "counters/port_rcv_data": received,
                    "hw_counters/rx_write_requests": writes}
        right = ok and all(name in values and value <= int(values[name]) <= 2 * value
                           for name, value in at_least.items())
        tally.result(f"perftest's {name} reports counters", right, f"{reason} {values}, expected {at_least}", text)


def check_ucx(tally):
    sides = harness.loopback_sides(1)
    if not shutil.which("ucx_info"):
        print("SKIP UCX: ucx_info is not installed (ucx-utils)", flush=True)
        return
    process = harness.Process(["ucx_info", "-d"], sides[0])
    code, text = process.wait(60), process.output()
    for transport in ("rc_verbs", "ud_verbs"):
        block = re.search(rf"Transport: {transport}\n#\s+Device: uroce0:1\n#\s+Type: network\n"
                          r"#\s+System device: uroce0 \(\d+\)$", text, re.M)
        tally.result(f"ucx_info lists {transport} on uroce0", code == 0 and bool(block), f"exit code {code}", text)
    if not shutil.which("ucx_perftest"):
        print("SKIP UCX: ucx_perftest is not installed (ucx-utils)", flush=True)
        return
    for transports in ("rc_v,ud_v", "ud_v"):
        argv = [*harness.ucx_perftest(), "-p", "PORT", "-t", "tag_lat", "-n", "300", "-s", "1000"]
        ok, reason, server, client = harness.run_pair(argv, argv + [sides[0].host], sides, 90,
                                                      {"UCX_TLS": transports, "UCX_NET_DEVICES": "uroce0:1"})
        tally.result(f"ucx_perftest over {transports}", ok and bool(re.search(r"^Final:\s+300\s", client, re.M)),
                     reason, server, client)


HWLOC = """
import ctypes
library = ctypes.CDLL("libhwloc.so.15")
topology, text, length = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_int()
assert library.hwloc_topology_init(ctypes.byref(topology)) == 0
assert library.hwloc_topology_set_io_types_filter(topology, 0) == 0  # keep all
assert library.hwloc_topology_load(topology) == 0
assert library.hwloc_topology_export_xmlbuffer(topology, ctypes.byref(text), ctypes.byref(length),
                                               ctypes.c_ulong(0)) == 0
print(text.value.decode())
"""


def check_hwloc(run, address):
    """What lstopo shows: hwloc finds the device, its GID, and that it is near all CPUs."""
    code, text = run.output([sys.executable, "-c", HWLOC])
    if code and "libhwloc.so.15: cannot open" in text:
        print("SKIP hwloc: libhwloc.so.15 is not installed (libhwloc15)", flush=True)
        return
    depth, at = 0, None
    for line in text.splitlines():
        if 'name="uroce0"' in line and 'type="OSDev"' in line:
            at = depth
        depth += line.count("<object") - line.count("</object") - ("/>" in line and "<object" in line)
    run.tally.result(f"{run.name}: hwloc finds the device below the machine", code == 0 and at == 1, f"at {at}", text)
    run.tally.result(f"{run.name}: hwloc reads its GID", f'value="{gid_text(address)}"' in text, "", text)


def check_leaks(tally):
    """Processes that hold the files are killed: one tree is left, or those still in use."""
    with tempfile.TemporaryDirectory(prefix="uroce-test-") as folder:
        environment = {"XDG_RUNTIME_DIR": folder}
        trees = os.path.join(folder, "uroce")
        holders = [harness.Process([RUN, "sh", "-c",
                                    "test -e /sys/class/infiniband/uroce0 && echo ready && read never <>/dev/null; "
                                    "sleep 100"],
                                   env={"UROCE_DEVICES": f"127.14.2.{1 + i % 3}", **environment}) for i in range(9)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not all("ready" in p.output() for p in holders):
            time.sleep(0.05)
        listed = os.listdir(trees)
        tally.result("nine processes, three sets of devices: three trees", len(listed) == 3, f"{listed}")
        for process in holders:
            process.kill()
        run = Runner(tally, "127.14.2.9")
        code, text = run.output(["ls", "/sys/class/infiniband"], environment)
        left = os.listdir(trees)
        tally.result("after they were killed: one tree", code == 0 and text.strip() == "uroce0" and len(left) == 1,
                     f"{left}", text)
        # The tree has been removed while a process goes on.
        script = f"cat {PORT}/state; rm -rf {trees}; sleep 1.2; cat {PORT}/state; test -e {PORT}/lid && echo both"
        run.check("the tree comes back", ["bash", "-c", script], r"^4: ACTIVE\n4: ACTIVE\nboth$", env=environment)


def check_gids(tally):
    """What ls and cat see of a device that another process has open: all its addresses, and its link."""
    if os.geteuid():
        print("SKIP the GIDs of an interface: needs root", flush=True)
        return
    a, _ = harness.veth_pair()
    a.run("sysctl", "-qw", "net.ipv6.conf.va.disable_ipv6=0")
    a.run("ip", "addr", "add", "fd14::1/64", "dev", "va", "nodad")
    side = harness.Side("10.99.0.1", "va", a)
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")
    user = harness.Process([program], side)
    deadline = time.monotonic() + 20
    while "opened" not in user.output() and time.monotonic() < deadline:
        time.sleep(0.05)

    def rows(argv):
        process = harness.Process(argv, side)
        return process.output() if process.wait(20) == 0 else ""

    script = (f"cd {PORT}/gid_attrs/types && for i in *; do echo $i $(cat ../../gids/$i) $(cat $i); done; "
              "cat ../../state")
    ok = False
    while not ok and time.monotonic() < deadline:  # a link-local address takes a while to appear
        said = re.findall(r"GID\[\s*(\d+)\]:\s+(\S+), RoCE v2", rows(["ibv_devinfo", "-v"]))
        text = rows(["bash", "-c", script])
        seen = [(row[0], ipaddress.IPv6Address(row[1])) for row in re.findall(r"^(\d+) (\S+) RoCE v2$", text, re.M)]
        ok = len(said) >= 2 and sorted(seen) == sorted((i, ipaddress.IPv6Address(gid)) for i, gid in said)
    tally.result("gids of a device that another process has open", ok and "4: ACTIVE" in text, f"{said}", text)
    a.run("ip", "link", "set", "va", "down")
    while "1: DOWN" not in text and time.monotonic() < deadline:
        text = rows(["cat", PORT + "/state", PORT + "/phys_state"])
    tally.result("its link goes down", text == "1: DOWN\n3: Disabled\n", "", text)
    user.kill()


def check_mount(tally, address):
    run = Runner(tally, address, "--mount-ns")
    code, text = run.output(UNPRELOADED + ["cat", PORT + "/state"])
    if code and "user namespace" in text:
        print(f"SKIP {run.name}: {text.strip()}", flush=True)
        return
    listing = r"\Aabi_version\nuverbs0\n\Z" if not os.path.exists("/sys/class/infiniband_verbs") else "uverbs"
    run.check("with hooks as well", ["ls", "/sys/class/infiniband_verbs"], listing)
    run.check("ibv_devices", ["ibv_devices"], r"-\n\s+uroce0\s+\w+\n\Z")
    ways = [("", run)]
    drop = harness.other_user(65534, f"{run.name} as a user") if os.geteuid() == 0 and shutil.which("setpriv") else None
    if drop:
        user = Runner(tally, address, "--mount-ns", before=drop)
        code, text = user.output(UNPRELOADED + ["true"])
        if code and "user namespace" in text:
            print(f"SKIP {run.name} as a user: {text.strip()}", flush=True)
        else:
            ways.append((" as a user", user))
    for suffix, way in ways:
        way.options += UNPRELOADED
        way.name = "uroce-run --mount-ns" + suffix
        check_files(way, address)
        way.check("other classes are there", ["sh", "-c", "cat /sys/class/net/lo/mtu && readlink -f /sys/class/net/lo"],
                  r"^\d+$", "^/sys/devices/virtual/net/lo$")
        if suffix:
            # As container engines do it. Who may not see what is hidden can only take it along.
            hidden = Runner(tally, address, "--mount-ns", *UNPRELOADED, before=HIDING + way.before)
            hidden.check("a part of /sys/devices is hidden", ["sh", "-c", f"cat {DEV}/device/class; ls "
                                                              "/sys/devices/virtual/misc"], r"\A0x020000\n\Z")
            way.check("no privileges, the same user", ["sh", "-c", "id -u; grep CapEff /proc/self/status"], "^65534$",
                      r"^CapEff:\s+0+$")
    tally.result("nothing is left outside", not os.path.exists(DEV) and not os.path.ismount("/sys/class"),
                 "still mounted")


def check_refusal(tally, address):
    """A kernel that does not allow a user namespace."""
    if not shutil.which("setpriv") or not shutil.which("unshare"):
        print("SKIP the refusal of a user namespace: unshare or setpriv is not installed", flush=True)
        return
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode:
        print("SKIP the refusal of a user namespace: unshare -Ur does not work here (the kernel has none in a chroot)",
              flush=True)
        return
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@"'
    run = Runner(tally, address, "--mount-ns", before=["unshare", "-Ur", "sh", "-c", script, "sh"])
    run.check("the message explains that the kernel refuses", ["true"], "user namespace.*max_user_namespaces", code=1)


def check_other_device(tally, address):
    """A device of another driver stays visible, in every listing."""
    if os.geteuid() or not shutil.which("unshare"):
        print("SKIP another driver's device: needs root and unshare", flush=True)
        return
    before = ["unshare", "-m", "sh", "-c", OTHER_DEVICE, "sh"]
    for options in ([], ["--preload"], ["--mount-ns"] + UNPRELOADED):
        run = Runner(tally, address, *options, before=before)
        run.name += " beside another device"
        run.check("ls", ["ls", "-l", "/sys/class/infiniband"], "other_0 -> .*devices/virtual/net/lo$",
                  r" uroce0 -> \.\./\.\./devices/pcifffd:00/")  # it has a bus in domain fffe
        run.check("ls of the verbs", ["ls", "/sys/class/infiniband_verbs"], r"^abi_version\nuverbs4\nuverbs5$")
        run.check("both behind their names", ["cat", "/sys/class/infiniband/other_0/mtu", PORT + "/state",
                                              "/sys/class/infiniband_verbs/uverbs4/ibdev",
                                              "/sys/class/infiniband_verbs/uverbs5/ibdev",
                                              "/sys/class/infiniband_verbs/abi_version"],
                  r"^\d+\n4: ACTIVE\nother_0\nuroce0\n7$")
        run.check("character devices", ["ls", "-l", "/dev/infiniband"], r"^c.* 231, 196 .* uverbs4$",
                  r"^[cl].* uverbs5")
        run.check("find", ["find", "/sys/class/infiniband", "-maxdepth", "1"], f"^{DEV}$", "/other_0$")
    read_only = ('for d in /tmp /dev/shm; do mount --rbind $d $d && mount -o remount,bind,ro $d || exit 99; done; '
                 'exec "$@"')
    run = Runner(tally, address, before=["unshare", "-m", "sh", "-c", read_only, "sh"])
    run.check("a missing writable folder is reported", ["ls", DEV], "uroce: no place .* XDG_RUNTIME_DIR", code=2,
              env={"XDG_RUNTIME_DIR": ""})


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_devinfo", "ib_write_bw")
    tally = harness.Tally("sysfs")
    address = harness.loopback_sides(2)[0].address
    for options in ([], ["--preload"]):
        check_hooks(Runner(tally, address, *options), address)
        check_hwloc(Runner(tally, address, *options), address)
    if not os.path.exists("/sys/class/infiniband"):
        Runner(tally, address, "--no-sysfs").check("nothing", ["ls", "/sys/class/infiniband"], "No such file", code=2)
    check_counters(tally)
    check_ucx(tally)
    check_leaks(tally)
    check_gids(tally)
    check_mount(tally, address)
    check_refusal(tally, address)
    check_other_device(tally, address)
    tally.finish()


if __name__ == "__main__":
    main()
