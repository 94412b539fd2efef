# SPDX-License-Identifier: BSD-3-Clause
"""uroce up, uroce down: keep devices, and stop keeping them."""
import argparse
import errno
import itertools
import os
import re
import socket
import struct
import subprocess
import time

from .devices import choose, find, names, program, say_once, without_others
from .proto import UroceError, clean, gid_text, place_of, understood
from .words import add_device, settings_mistyped

RTM_NEWADDR, RTM_GETADDR, NLMSG_ERROR, NLMSG_DONE = 20, 22, 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
STARTS, START_PAUSE = 20, 0.3  # seconds
IFA_LOCAL, IFF_UP, IFF_LOOPBACK = 2, 0x1, 0x8

UP = """\
Starts the daemons of devices and keeps them until `uroce down`. Programs start daemons by themselves, and need no
`uroce up`; it is for devices that stay between programs (with their faults), or that other users may use.

Without arguments: the devices that programs would find (UROCE_DEVICES, else the addresses of this network namespace).
"""
UP_EPILOG = """\
examples:
  uroce up                         the default devices
  uroce up 10.0.0.5                one address
  uroce up eth0                    all addresses of an interface, as they come and go
  uroce up eth0 --allow group=rdma
  uroce up 10.0.0.1/24/uplink=net_af_packet0,iface=eth1     a DPDK port that programs share
"""
DOWN = """\
Stops keeping devices. A daemon ends with the last process that has its device open; processes are not disturbed.
"""


def add(commands):
    parser = commands.add_parser("up", help="start devices and keep them", description=UP, epilog=UP_EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", metavar="ADDR|IFACE", help="an address of this host, or an interface")
    parser.add_argument("--device", action="append", default=[], metavar="ADDR|IFACE", help="the same")
    parser.add_argument("--allow", metavar="WHOM", help="who may use the device besides you and root: user=NAME, "
                        "group=NAME, all (default: nobody)")
    parser.set_defaults(start=start_up)
    parser = commands.add_parser("down", help="stop keeping devices", description=DOWN,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    add_device(parser)
    parser.set_defaults(start=start_down)


def interfaces():
    return {name for _, name in socket.if_nameindex()}


def start_daemon(args, place, uplink):
    path = program("uroced", args.here)
    if not path:
        raise UroceError("uroced is missing; build it (meson setup build && ninja -C build), or name the build folder "
                         "in UROCE_BUILD")
    which = ["--iface", place] if place in interfaces() else ["--device", place, *itertools.chain(*uplink.items())]
    allow = ["--allow", args.allow] if args.allow else []
    result = subprocess.run([path, *which, "--stay", *allow], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)
    if result.returncode:
        raise UroceError(clean(result.stderr.strip().removeprefix("uroced: ")) or f"{path} failed")


def is_missing(place):
    """Whether it is an address that this host does not have."""
    address = gid_text(place)
    if not address:
        return False
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((address, 0))
        except OSError as error:
            return error.errno == errno.EADDRNOTAVAIL
    return False


def speechless(place):
    """@return why an existing daemon, which may have the address, does not answer."""
    return next((device.problem for device in find(look=False)
                 if device.problem and not device.guarded and device.answers_to(place)), "")


def uplink_of(entry):
    """Take apart an entry of UROCE_DEVICES. @return the address or interface, and uroced's options for an uplink: a
    dict"""
    place, *rest = entry.split("/", 1)
    options, uplink, after = {}, *("/" + "".join(rest)).partition("/uplink=")[::2]
    if after:
        options["--uplink"] = after
        for option in filter(None, uplink.split("/")):
            name, _, value = option.rpartition("=")
            options[{"gw": "--gateway", "vlan": "--vlan", "": "--network"}.get(name, f"--{name}")] = value
    return place.strip("[]"), options


def number(text):
    return (int(text) or None) if text.isdecimal() else text


def other_uplink(daemon, options):
    """@return in what the uplink of a daemon differs from the one that these options would make; "": in nothing"""
    uplink = daemon.get("uplink")
    if not uplink:
        return "without an uplink"
    if uplink["device"] != options["--uplink"]:
        return f"with another uplink ({clean(uplink['device'])})"
    for key, option, form, words in (("vlan", "--vlan", number, "VLAN"),
                                     ("network", "--network", number, "prefix length"),
                                     ("gateway", "--gateway", gid_text, "gateway")):
        asked = options.get(option)
        if key in uplink and (uplink[key] or None) != (form(asked) if asked else None):
            return f"with another {words} ({clean(uplink[key] or 'none')})"
    return ""


def started(args, place, uplink):
    """Start a daemon. While a guard tries one, that one has the device's name now and then. @return [device]"""
    for _ in range(STARTS):
        start_daemon(args, place, uplink)
        found = [device for device in find(look=False) if device.answers_to(place)]
        if any(device.daemon for device in found) or not any(device.guarded for device in found):
            break
        time.sleep(START_PAUSE)
    there = [device for device in found if device.daemon]
    if not there:
        raise UroceError(next((device.problem for device in found if device.problem),
                              f"the daemon of {place} has ended again"))
    return there


def up(args, entry):
    place, uplink = uplink_of(entry)
    if uplink and place in interfaces():
        raise UroceError(f"an uplink has an address: ADDRESS/uplink=..., not {clean(place)}")
    if place not in interfaces() and not gid_text(place):
        raise UroceError(f"'{clean(place)}' is neither an address nor an interface of this network namespace")
    there = [device for device in find(look=False) if device.daemon and device.answers_to(place)]
    if not there and speechless(place):
        raise UroceError(speechless(place))
    if entry.endswith("/uplink"):
        if not there:
            for device in find(look=False):
                if device.guarded and device.answers_to(place):
                    raise UroceError(device.problem)
            raise UroceError(f"which port is to be the uplink of {clean(place)}? name it: "
                             f"{clean(place)}/uplink=ARGUMENTS")
        if not there[0].daemon.get("uplink"):
            raise UroceError(f"the daemon of {place} runs already, without an uplink; uroce down first")
    if not there:
        if not uplink and is_missing(place):
            raise UroceError(f"{clean(place)} is not an address of this host; ip address shows those that are"
                             + ("" if args.places + args.device else "; correct UROCE_DEVICES"))
        there = started(args, place, uplink)
    with understood(f"the daemon of {place}"):
        other = uplink and other_uplink(there[0].daemon, uplink)
    if other:
        raise UroceError(f"the daemon of {place} runs already, {other}; uroce down first")
    if args.allow and there[0].daemon["daemon"]["allow"] != args.allow:
        raise UroceError(f"the daemon of {place} runs already and lets in {there[0].daemon['daemon']['allow']}; "
                         "--allow is for its start: uroce down first")
    there[0].tell_daemon("stay")
    return there[0]


def defaults():
    """@return the devices that a program would find."""
    text = os.environ.get("UROCE_DEVICES", "").strip()
    if not text:
        return default_places()
    places = []
    for entry in re.findall(r"[^\s,;/]+(?:/(?:uplink|ethdev)=[^\s;]*|/[^\s,;/]*)*", text):
        if "/ethdev=" in entry:
            raise UroceError("UROCE_DEVICES names ports of one process, which have no daemon; name the addresses to "
                             "keep")
        places.append(entry if "/uplink=" in entry or entry.endswith("/uplink") else entry.split("/")[0])
    return places


def default_places():
    """As pmd/control/devices.c: every IPv4 address other than loopback, of interfaces that are up; else 127.0.0.1."""
    return list(dict.fromkeys(ipv4_addresses())) or ["127.0.0.1"]


def ipv4_addresses():
    """From the kernel (RTM_GETADDR), in its order."""
    request = struct.pack("=IHHIIBxxxi", 24, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 1, 0, socket.AF_INET, 0)
    flags, found, done = {index: interface_flags(name) for index, name in socket.if_nameindex()}, [], False
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.send(request)
        while not done:
            data = sock.recv(1 << 16)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                done |= kind in (NLMSG_DONE, NLMSG_ERROR)
                if kind == RTM_NEWADDR:
                    index = struct.unpack_from("=I", data, 20)[0]
                    if flags.get(index, 0) & (IFF_UP | IFF_LOOPBACK) == IFF_UP:
                        found += local_address(data[24:length])
                data = data[(length + 3) & ~3:]
    return found


def local_address(attributes):
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == IFA_LOCAL:
            return [socket.inet_ntoa(attributes[4:8])]
        attributes = attributes[max((length + 3) & ~3, 4):]
    return []


def interface_flags(name):
    try:
        with open(f"/sys/class/net/{name}/flags") as file:
            return int(file.read(), 16)
    except OSError:
        return 0


def start_up(args):
    for sentence in settings_mistyped(os.environ):
        say_once(sentence)
    for place in args.places + args.device or defaults():
        device = up(args, place)
        print(f"{' '.join(device.gids)}: daemon ({place_of(device.daemon['daemon']['pid'])}) stays until uroce down")


def start_down(args):
    chosen = without_others(choose(args.device))
    if args.device and chosen[0].problem and not chosen[0].guarded:
        raise UroceError(chosen[0].problem)
    devices = [device for device in chosen if device.daemon]
    guarded, failed = [device for device in chosen if device.guarded], None
    for device in guarded:
        try:
            device.tell_guard("leave")
        except UroceError as error:
            if device.key in names()[2]:  # else it has ended
                say_once(str(error))
                failed = error
                continue
        print(f"{device.key}: " + (f"{len(device.functions)} processes have it open; its daemon is tried while "
                                   "they live" if device.functions else "gone"))
    for device in devices:
        users = sum(slot["state"] == "live" for slot in device.daemon["functions"])
        try:
            device.tell_daemon("leave")
        except UroceError as error:
            if device.key in names()[0]:
                say_once(str(error))
                failed = error
                continue
            users = 0  # it has left
        print(f"{device.key}: " + (f"{users} processes have it open; it leaves with the last" if users else "gone"))
    if any(device.problem and not device.daemon and not device.guarded for device in chosen):
        return 1  # the problems have been named
    if not devices + guarded:
        print("No device is kept.")
    return failed.code if failed else 0
