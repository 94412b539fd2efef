#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Devices with an uplink, a DPDK port that their processes share: Debian's programs between two network namespaces,
two processes a side at the same time; then processes, daemons and guards are killed, and the link goes down and up."""
import os
import re
import signal

import cm
import harness
import perftest_test
import uplink_guard
import uplinks

SECONDS = 60


def short_matrix(mtus=(1024, 4096)):
    """Each kind of perftest's operations, bandwidth and latency. Not the bandwidth of what is lost when the receiver
    has no CPU for a moment: perftest waits for it for ever."""
    for number, (operation, connection, more, events) in enumerate(perftest_test.KINDS):
        for form in ("bw", "lat") if connection == "RC" or operation == "write" else ("lat",):
            case = perftest_test.Case(operation, connection, more, form, mtus[number % len(mtus)],
                                      events=events and form == "lat", all_sizes=False, turn=number % 3)
            case.spins = case.spins and not events
            yield case


def matrix(tally, sides, mtus=(1024, 4096)):
    """Two pairs of processes at a time; one of programs that spin, which would wait for time slices."""
    cases = list(short_matrix(mtus))
    perftest_test.run_all([case for case in cases if not case.spins], [sides, sides], tally)
    perftest_test.run_all([case for case in cases if case.spins], [sides], tally)


def data(tally, sides, mtu=4096):
    """Every byte of every operation of RC; the others may lose packets."""
    program = harness.verify_path()
    ok, reason, *outputs = harness.run_pair([program, "-s", "-p", "PORT"],
                                            [program, "-c", sides[0].host, "-p", "PORT", "-t", "rc", "-q", "2", "-n",
                                             "4", "-m", str(mtu)], sides, SECONDS)
    tally.result("every byte of every operation", ok, reason, *outputs)


def programs(tally, sides):
    argv = ["ibv_rc_pingpong", "-g", "0", "-p", "PORT", "-n", "500", "-c"]
    ok, reason, *outputs = harness.run_pair(argv, argv + [sides[0].host], sides, SECONDS)
    tally.result("ibv_rc_pingpong", ok and "invalid" not in "".join(outputs), reason, *outputs)
    argv = ["fi_pingpong", "-p", "uroce", "-e", "rdm", "-d", "uroce0", "-I", "100", "-S", "4096", "-c"]
    ok, reason, *outputs = harness.run_pair(argv + ["-B", "PORT"], argv + ["-P", "PORT", sides[0].host], sides,
                                            SECONDS)
    tally.result("fi_pingpong, rdm", ok, reason, *outputs)


def connections(tally, sides):
    """librdmacm: the devices' addresses, which the kernel does not know."""
    to = sides[0].address
    for name, server, client, words in (
            ("rping", ["rping", "-s", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"],
             ["rping", "-c", "-a", to, "-C", "100", "-S", "1000", "-V", "-v"], "ping data"),
            ("ucmatose", ["ucmatose", "-b", to, "-c", "5"], ["ucmatose", "-s", to, "-c", "5"], "return status 0"),
            ("udaddy", ["udaddy", "-b", to], ["udaddy", "-s", to], "return status 0")):
        ok, reason, *outputs = cm.pair(server, client, sides, seconds=SECONDS)
        tally.result(f"{name}, connected", ok and all(words in output for output in outputs), reason, *outputs)


# ---- processes of other users, IPv6 ---------------------------------------------------------------------

def visitor(tally, sides):
    """A process of another user, without rights, joins a device that all may use; on the other side one that may not
    is refused."""
    wrapper = harness.other_user(harness.NOBODY, "a process of another user")
    if not wrapper:
        return
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")
    allowed, refused = (uplinks.joining(side) for side in sides)
    process = as_user(wrapper, refused, program)
    code = process.wait(SECONDS)
    tally.result("another user is refused", code not in (None, 0) and "allow" in process.output(),
                 f"exit code {code}", process.output())
    argv = ["ib_send_bw", "-F", "-p", "PORT", "-n", "500", "-s", "1000", "-m", "1024"]
    ok, reason, *outputs = harness.run_pair(argv, argv + [sides[0].host], (User(wrapper, allowed), sides[1]), SECONDS)
    tally.result("a process of another user joins, without rights", ok, reason, *outputs)


class User(harness.Side):
    """A side whose programs run as another user."""

    def __init__(self, wrapper, side):
        super().__init__(side.address, side.devices, side.netns, side.host)
        self.wrapper = wrapper

    def enter(self):
        return [*super().enter(), *self.wrapper]


def as_user(wrapper, side, *argv):
    return harness.Process(list(argv), User(wrapper, side))


def ipv6(tally, spaces):
    sides = uplinks.sides(spaces, ("net_af_packet0,iface=ua", "net_af_packet0,iface=ub"), uplinks.DEVICES_V6)
    for side, name in zip(sides, ("va", "vb")):  # getaddrinfo() wants a host with some IPv6 address
        side.netns.run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=0")
        side.netns.run("ip", "addr", "add", f"fd99::{side.address[-1]}/64", "dev", name, "nodad")
    with uplinks.kept(tally, "IPv6", sides):
        argv = ["ib_write_bw", "-F", "-p", "PORT", "-n", "500", "-s", "10000", "-m", "4096"]
        ok, reason, *outputs = harness.run_pair(argv, argv + [sides[0].host], sides, SECONDS)
        tally.result("ib_write_bw, IPv6", ok, reason, *outputs)
        argv = ["rping", "-a", sides[0].address, "-C", "20", "-v"]
        ok, reason, *outputs = cm.pair([*argv, "-s"], [*argv, "-c"], sides, seconds=SECONDS)
        tally.result("rping, IPv6", ok, reason, *outputs)


# ---- what is lost ---------------------------------------------------------------------

FLOOD = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
    sock.bind(("ub", 0x0800))
    for _ in range(20000):
        sock.send(b"\\xff" * 12 + b"\\x08\\0" + bytes(100))
"""


def driver_losses(tally, spaces):
    """What the port's driver cannot send, and what the kernel has no room for in the driver's ring, is counted."""
    try:
        uplinks.need_driver("net_af_xdp")
    except uplinks.Unavailable as error:
        print(f"SKIP AF_XDP: {error}", flush=True)
        return
    for space, name in zip(spaces, ("ua", "ub")):
        space.run("ip", "link", "set", name, "mtu", "1500")
    sides = uplinks.sides(spaces, ("net_af_xdp0,iface=ua", "net_af_packet0,iface=ub"))
    with uplinks.kept(tally, "AF_XDP and AF_PACKET", sides):
        argv = ["ib_send_bw", "-F", "-c", "UD", "-D", "20", "-p", "PORT"]
        pair = Running(argv, [*argv, sides[0].host], sides)
        moving = moves(sides[1])
        spaces[1].run("ip", "link", "set", "ub", "down")  # it takes a moment until the switch knows
        harness.until(5, lambda: uplinks.counters(sides[1])["tx_errors"])
        counted = uplinks.counters(sides[1])
        for process in (pair.client, pair.server):
            process.kill()
        tally.result("an interface that goes down under traffic: tx_errors", moving and counted["tx_errors"] > 0,
                     str(counted))
        spaces[1].run("ip", "link", "set", "ub", "up")
        before, pid = uplinks.counters(sides[0]), uplinks.daemon(sides[0])
        harness.stop(pid)
        try:
            spaces[1].run("python3", "-c", FLOOD)
        finally:
            os.kill(pid, signal.SIGCONT)
        after = uplinks.counters(sides[0])
        tally.result("a daemon that stands still: rx_no_room", after["rx_no_room"] > before["rx_no_room"],
                     str((before, after)))


# ---- what is killed ---------------------------------------------------------------------

WRITES = ["ib_write_bw", "-F", "-m", "1024", "-s", "4096", "-u", "19"]


class Running:
    """A pair of programs that run while something happens."""

    def __init__(self, server, client, sides, what=""):
        port = str(harness.free_port())
        server, client = ([port if word == "PORT" else word for word in argv] for argv in (server, client))
        self.server = harness.Process(server, sides[0])
        if not self.server.wait_listen(int(port), 20):
            raise RuntimeError(f"{server[0]} does not listen: {self.server.output()}")
        self.client = harness.Process(client, sides[1])
        self.what, self.forever = what, False

    def ends(self, tally, seconds=SECONDS):
        if self.forever and self.client.popen.poll() is None:
            self.client.popen.terminate()
        codes = [self.client.wait(seconds), self.server.wait(10)]
        tally.result(self.what, codes == [0, 0], f"exit codes {codes}", self.server.output(), self.client.output())


def bandwidth(sides, seconds, what=""):
    argv = [*WRITES, "-D", str(seconds), "-p", "PORT"]
    return Running(argv, [*argv, sides[0].host], sides, what)


def counting(sides, what):
    """A process counts in another's memory until ends() tells it to stop."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "counter")
    pair = Running([program, "-s", "PORT"], [program, "-c", sides[0].host, "PORT"], sides, what)
    pair.forever = True
    if not harness.until(20, lambda: "counting" in pair.client.output()):
        raise RuntimeError(f"the client does not count: {pair.client.output()}")
    return pair


def moves(side):
    """Whether packets move now."""
    before = uplinks.moved(side)
    return harness.until(20, lambda: uplinks.moved(side) > before + 100)


def processes_die(tally, sides):
    """Each side's process of one pair is killed, and the other one gets an error; another pair goes on."""
    others = counting(sides, "another pair counts meanwhile, each addition once")
    for victim in ("client", "server"):
        pair = bandwidth(sides, 30)
        moving = moves(sides[0])
        uplinks.kill(getattr(pair, victim).pid)
        getattr(pair, victim).wait(5)
        left = pair.server if victim == "client" else pair.client
        # The server of ib_write_bw waits at its TCP connection.
        code = left.wait(SECONDS)
        tally.result(f"{victim} killed: the {'server' if victim == 'client' else 'client'} ends with an error",
                     moving and code not in (None, 0), f"moving: {moving}, exit code {code}", left.output())
    others.ends(tally)
    tally.result("the dead have left", harness.until(20, lambda: not any(map(cm.functions, sides))),
                 str([cm.functions(side) for side in sides]))


def connected_one_dies(tally, sides):
    """A process with a connection of the connection manager: its peer is told of the end."""
    server = harness.Process(["rping", "-s", "-a", sides[0].address, "-v"], sides[0])
    harness.until(20, lambda: cm.listens(sides[0]))
    client = harness.Process(["rping", "-c", "-a", sides[0].address, "-v", "-C", str(cm.FOREVER)], sides[1])
    pinged = harness.until(20, lambda: cm.pings(client) > 10)
    uplinks.kill(client.pid)
    client.wait(5)
    code = server.wait(SECONDS)
    tally.result("rping's client killed: the server is disconnected", pinged and "DISCONNECT" in server.output(),
                 f"exit code {code}", server.output(), client.output())


def daemon_dies(tally, sides):
    """The guard starts the daemon again: programs go on, and each addition is executed once."""
    pairs = [bandwidth(sides, 8, "ib_write_bw goes on"), counting(sides, "each addition is executed once")]
    for side in (sides[0], sides[1], sides[0]):
        moves(side)
        pid = uplinks.daemon(side)
        uplinks.kill(pid)
        tally.result(f"daemon of {side.address} killed: the guard starts another",
                     uplinks.next_daemon(side, pid) and moves(side), uplinks.told(side))
    for pair in pairs:
        pair.ends(tally)
    argv = ["rping", "-a", sides[0].address, "-C", "20", "-v"]
    ok, reason, *outputs = cm.pair([*argv, "-s"], [*argv, "-c"], sides, seconds=SECONDS)
    tally.result("new connections after that", ok, reason, *outputs)


def guard_dies(tally, sides):
    """Guard and daemon are killed, and nobody has the device open: the next process starts a daemon."""
    pid = uplinks.daemon(sides[0])
    uplinks.kill(uplinks.guard(pid))
    uplinks.kill(pid)
    tally.result("guard and daemon killed: the daemon is gone",
                 harness.until(20, lambda: not uplinks.daemon(sides[0])), uplinks.told(sides[0]))
    process = harness.Process([os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "open_device")],
                              uplinks.joining(sides[0]))
    code = process.wait(SECONDS)
    tally.result("/uplink without a daemon is refused", code == 1 and "uroce up" in process.output(),
                 f"exit code {code}", process.output())
    argv = [*WRITES, "-n", "500", "-p", "PORT"]
    ok, reason, *outputs = harness.run_pair(argv, argv + [sides[0].host], sides, SECONDS)
    tally.result("the next process starts a daemon", ok, reason, *outputs)
    tally.result("which leaves with the last process", harness.until(20, lambda: not uplinks.daemon(sides[0])),
                 uplinks.told(sides[0]))
    done = uplinks.up(sides[0])
    tally.result("uroce up again", done.returncode == 0, "", done.stderr)


def link_goes(tally, sides):
    """The interface goes down and up: the port's state says so, and an event; then traffic goes on."""
    watch = harness.Process(["ibv_asyncwatch", "-d", "uroce0"], sides[0])
    pair = counting(sides, "a program goes on when the link is back")
    states = []
    for command, state in (("down", "down"), ("up", "up")):
        sides[0].netns.run("ip", "link", "set", "ua", command)
        harness.until(20, lambda state=state: uplinks.status(sides[0]).get("link") == state)
        states.append(uplinks.status(sides[0]).get("link"))
    tally.result("uroce status tells the link's state", states == ["down", "up"], str(states))
    pair.ends(tally)
    harness.until(5, lambda: "PORT_ACTIVE" in watch.output())
    watch.kill()
    tally.result("events of the port", re.search(r"PORT_ERR.*PORT_ACTIVE", watch.output(), re.S), "not told",
                 watch.output())


def interface_again(tally, sides):
    """The interfaces are deleted and made again under their names, at once or later: the daemons open them anew."""
    pair = counting(sides, "a program goes on over interfaces that were made anew")
    for what, waits in (("at once", False), ("later", True)):
        before = [uplinks.daemon(side) for side in sides]
        sides[0].netns.run("ip", "link", "del", "ua")
        if waits:
            down = harness.until(20, lambda: all(uplinks.status(side).get("link") == "down" for side in sides))
            tally.result("interfaces deleted: link down", down, "", *map(uplinks.told, sides))
        uplinks.link(*(side.netns for side in sides), 4500)
        others = [uplinks.next_daemon(*each) for each in zip(sides, before)]
        up = harness.until(20, lambda: all(uplinks.status(side).get("link") == "up" for side in sides))
        tally.result(f"interfaces made again {what}: other daemons open them", all(others) and up and moves(sides[0]),
                     str((before, others)), *map(uplinks.told, sides))
    pair.ends(tally)
    programs(tally, sides)


# ---- refusals ---------------------------------------------------------------------

def refusals(tally, sides):
    """What is said when an uplink cannot be had."""
    spaces = [side.netns for side in sides]

    def says(what, side, words, wrapper=None):
        process = harness.Process(["ibv_devinfo"], User(wrapper, side) if wrapper else side)
        code = process.wait(SECONDS)
        tally.result(f"{what}: {words}", code not in (None, 0) and words in process.output(), f"exit code {code}",
                     process.output())
    other = uplinks.sides(spaces, ("net_af_packet0,iface=va",) * 2)
    says("another uplink than the device has", other[0], "name that one, or just: uplink")
    fresh = uplinks.sides(spaces, ("net_af_packet0,iface=ua",) * 2, ("10.0.0.9", "10.0.0.8"))[0]
    wrapper = harness.other_user(harness.NOBODY, "an uplink without rights")
    if wrapper:
        says("an ordinary user opens a port", fresh, "CAP_NET_RAW", wrapper)
    says("no such interface", uplinks.sides(spaces, ("net_af_packet0,iface=nope",) * 2, ("10.0.0.9", "10.0.0.8"))[0],
         "nope")
    of_sockets = harness.Side(uplinks.HOSTS[0], uplinks.HOSTS[0], spaces[0], uplinks.HOSTS[0])
    uplinks.up(of_sockets)
    says("the uplink of a device on the kernel's sockets", uplinks.joining(of_sockets), "without uplink")
    harness.uroce("down", of_sockets.address, side=of_sockets)
    for port in ("net_virtio_user0,path=a.sock,server=1", "net_memif0,socket-abstract=no,socket=a.sock"):
        done = uplinks.up(uplinks.sides(spaces, (port,) * 2, ("10.0.0.9", "10.0.0.8"))[0])
        tally.result(f"a path that depends on who starts the daemon: {port}", done.returncode == 1 and
                     "has to begin with /" in done.stderr, f"exit code {done.returncode}", done.stderr)
    says("no such driver", uplinks.sides(spaces, ("net_nonsense0",) * 2, ("10.0.0.9", "10.0.0.8"))[0], "net_nonsense0")


def other_networks(tally, sides):
    """The device runs in 10.0.0.0/24, in no VLAN: others are refused. What names the same, or less, is not."""
    side, port = sides[0], "uplink=net_af_packet0,iface=ua"

    def opens(options, words, address=side.address):
        process = harness.Process(["ibv_devinfo"], harness.Side(address, f"{address}/{options}", side.netns, side.host))
        code = process.wait(SECONDS)
        tally.result(f"open {options}: {words}", (code != 0 and words in process.output()) if words else code == 0,
                     f"exit code {code}", process.output())

    def keeps(options, words):
        done = uplinks.up(harness.Side(side.address, f"{side.address}/{options}", side.netns, side.host))
        tally.result(f"uroce up {options}: {words}", done.returncode == bool(words) and words in done.stderr,
                     f"exit code {done.returncode}", done.stdout, done.stderr)

    opens(f"24/vlan=5/{port}", "is in no VLAN, not in VLAN 5")
    opens("vlan=5/uplink", "is in no VLAN, not in VLAN 5")
    opens(port, "")
    keeps(f"24/{port}", "")
    keeps("uplink", "")
    keeps(f"24/vlan=5/{port}", "with another VLAN (none)")
    keeps(f"25/{port}", "with another prefix length (24)")
    keeps(f"24/gw=10.0.0.9/{port}", "with another gateway (none)")
    tagged = harness.Side("10.0.0.7", f"10.0.0.7/24/gw=10.0.0.9/vlan=5/{port}", side.netns, side.host)
    with uplinks.kept(tally, "in VLAN 5", [tagged]):
        facts = uplinks.status(tagged).get("uplink") or {}
        tally.result("uroce status tells the network", [facts.get(name) for name in ("network", "gateway", "vlan")] ==
                     [24, "10.0.0.9", 5], str(facts))
        opens("24/vlan=6/uplink", "is in VLAN 5, not in VLAN 6", address=tagged.address)
        done = uplinks.up(tagged)
        tally.result("uroce up again", done.returncode == 0, f"exit code {done.returncode}", done.stderr)


def uplink_by_setting(tally, sides):
    """UROCE_DEVICES with an uplink and no arguments: uroce up keeps the one that there is, and starts no other."""
    side = sides[0]
    for address, words in ((side.address, ""), ("10.0.0.9", "which port is to be the uplink of 10.0.0.9?"),
                           (side.host, f"which port is to be the uplink of {side.host}?")):
        with uplinks.environment({"UROCE_DEVICES": f"{address}/24/uplink"}):
            done = harness.uroce("up", side=side)
        tally.result(f"UROCE_DEVICES={address}/24/uplink uroce up: {words}",
                     done.returncode == bool(words) and words in done.stderr, f"exit code {done.returncode}",
                     done.stdout, done.stderr)
    of_sockets = harness.Side(side.host, side.host, side.netns)
    uplinks.up(of_sockets)
    with uplinks.environment({"UROCE_DEVICES": f"{side.host}/uplink"}):
        done = harness.uroce("up", side=side)
    tally.result("uroce up with the uplink of a device on the kernel's sockets", done.returncode == 1 and
                 "runs already, without an uplink" in done.stderr, f"exit code {done.returncode}", done.stderr)
    harness.uroce("down", side.host, side=side)


def main():
    args = harness.options(__doc__, ("--only", "the one step of this name", ""))
    harness.need_programs("ib_write_bw", "rping", "fi_pingpong", "nsenter", "unshare")
    harness.need_root()
    uplinks.module()
    tally = harness.Tally("uplink")
    spaces = uplinks.hosts()
    uplinks.link(*spaces, 4500)
    sides = uplinks.sides(spaces, ("net_af_packet0,iface=ua", "net_af_packet0,iface=ub"))
    with uplinks.kept(tally, "AF_PACKET", sides, ["--allow", "all"]):
        for step in (matrix, data, programs, connections, visitor, refusals, other_networks, uplink_by_setting,
                     processes_die, connected_one_dies, daemon_dies, guard_dies, link_goes, interface_again):
            if args.only in ("", step.__name__):
                step(tally, sides)
    for step in (ipv6, uplink_guard.guards_end, driver_losses):
        if args.only in ("", step.__name__):
            step(tally, spaces)
    tally.finish()


if __name__ == "__main__":
    main()
