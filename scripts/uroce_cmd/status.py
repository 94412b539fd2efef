# SPDX-License-Identifier: BSD-3-Clause
"""uroce status: devices, the processes that have them open, their QPs."""
import argparse
import json
import pwd
import time

from .devices import choose, lists
from .proto import UroceError, clean, place_of, understood
from .version import other
from .words import add_device

DESCRIPTION = """\
Lists the devices of this network namespace that are open or kept, and who uses them.

A device is a set of addresses with one daemon, uroced. Each process that has the device open is a function of it,
with a number that begins the numbers of its queue pairs: QP 0x030a51 is one of function 3. Devices with DPDK ports
(ethdev) belong to one process, have no daemon and are not listed. The ports that a function serves are those of
libfabric's endpoints.
"""
SHOWN = 12  # of a function, at most
LISTS = {"qps": "queue_pairs", "cm": "cm"}  # what functions tell in parts, and what --json calls it
SPACES = {0x0106: "TCP", 0x0111: "UDP", 0x013f: "IB", 0x0002: "IPOIB"}  # port spaces of the connection manager

EPILOG = """\
examples:
  uroce status                     all devices
  uroce status 10.0.0.5 --qps      one, with its queue pairs
  uroce status --cm                all devices, with their listeners and connections
  uroce status --json | jq '.devices[].functions[].pid'
"""


def add(commands):
    parser = commands.add_parser("status", help="devices, who uses them, their queue pairs", description=DESCRIPTION,
                                 epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_device(parser)
    parser.add_argument("--qps", action="store_true", help="list queue pairs: number, kind, state, peer")
    parser.add_argument("--cm", action="store_true", help="list listeners and connections of librdmacm programs")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    parser.set_defaults(start=start)


def user(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def ago(seconds):
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def numbers(values, noun):
    """"port 7", "ports 7, 8 and 30 others"."""
    shown = ", ".join(map(str, values[:SHOWN]))
    more = f" and {len(values) - SHOWN} others" if len(values) > SHOWN else ""
    return f"{noun}{'s' if len(values) > 1 else ''} {shown}{more}"


def of_version(facts):
    """@return words for a daemon or a function of another version than this command's"""
    return [f"of uroce {clean(version)}" for version in [other(facts.get("version"))] if version]


def function_facts(device, function, told):
    """One function: what the daemon and the function itself report."""
    slots = {slot["number"]: slot for slot in device.daemon["functions"]} if device.daemon else {}
    slot = slots.get(function.number, {})
    facts = {"function": function.number, "pid": function.pid if function.reached else slot.get("pid") or None,
             "elsewhere": function.reached and function.pid is None, "command": slot.get("command"),
             "uid": slot.get("uid"), "since": slot.get("since"), "state": slot.get("state", "live"),
             "services": sorted(slot.get("services", [])), "cm_ports": sorted(slot.get("cm_ports", [])),
             "answers": function.status is not None}
    for key in ("command", "device", "mtu", "link", "faults", "qps"):
        if function.status:
            facts[key] = function.status[key]
    facts["version"] = (function.status or {}).get("version")
    for what, key in LISTS.items():
        answer = told.get((function, what))
        if isinstance(answer, UroceError):
            function.problem = str(answer)
        elif answer is not None:
            facts[key] = answer
    if function.problem:
        facts["problem"] = function.problem
    return facts


def device_facts(device, told):
    """@param told: of lists()"""
    daemon = device.daemon
    facts = {"name": device.name, "device": device.key, "addresses": device.gids, "daemon": None,
             "interface": "", "link": None, "problem": device.problem}
    if daemon:
        facts.update(daemon=daemon["daemon"], interface=daemon["interface"], link=daemon["port"],
                     problem=daemon["problem"], counters=daemon["counters"], uplink=daemon.get("uplink"))
    facts["functions"] = [function_facts(device, function, told) for function in device.functions]
    return facts


def print_qps(facts):
    for qp in facts.get("queue_pairs", []):
        peer = f"  {qp['peer']} QP 0x{qp['peer_qpn']:06x} by {qp['by']}" if "peer" in qp else ""
        counters = qp["counters"]
        print(f"      QP 0x{qp['qpn']:06x}  {qp['type']}  {qp['state']:5}{peer}  sent {counters['tx_packets']},"
              f" received {counters['rx_packets']} packets")


def service(number):
    """"TCP port 7174"; the number, if it stands for no port."""
    value = int(number, 16)
    space = SPACES.get(value >> 16)
    return f"{space} port {value & 0xffff}" if space else number


def print_cm(facts):
    for cm in facts.get("cm", []):
        if cm["state"] == "listen":
            print(f"      listens on {service(cm['service'])}: {cm['pending']} requests wait for an answer")
            continue
        side = "passive" if cm["passive"] else "active"
        print(f"      {service(cm['service'])}  {cm['state']}  {side}  {cm['own']} QP 0x{cm['qpn']:06x}"
              f" and {cm['peer']} QP 0x{cm['peer_qpn']:06x}"
              f"  private data: sent {cm['private_sent']}, received {cm['private_rcvd']} bytes")


def print_function(facts, now):
    words = [f"{facts['function']:4}", f"{facts['pid'] or '-':>8}", f"{clean(facts['command'] or '?'):16}",
             f"{user(facts['uid']) if facts['uid'] is not None else '?':10}",
             f"{ago(now - facts['since']) if facts['since'] else '?':>6}"]
    if facts["answers"]:
        words.append(f"{facts['qps']:5} QPs")
        words += ["faults"] * bool(facts["faults"]) + ["link down"] * (facts["link"] == "down")
    elif not facts.get("problem"):
        words.append("does not answer")
    words += ["in another container"] * facts["elsewhere"] + of_version(facts)
    print("  " + "  ".join(words))
    if facts.get("problem"):
        print(f"      problem: {clean(facts['problem'])}")
    if facts["services"]:
        print(f"      serves {numbers(facts['services'], 'port')}")
    for space, name in SPACES.items():
        ports = [port for of, port in facts.get("cm_ports", []) if of == space]
        if ports:
            print(f"      listens on {name} {numbers(ports, 'port')} of the connection manager")
    print_qps(facts)
    print_cm(facts)


def show_or_say(context, show, *facts):
    """Show what a process has told; or say that it makes no sense, in the context of understood()."""
    try:
        with context:
            show(*facts)
    except UroceError as error:
        print(f"  problem: {error}")


def print_device(facts):
    print("  ".join([facts["name"] or "(no process)", *map(clean, facts["addresses"])]
                    + [f"on {clean(facts['interface'])}"] * bool(facts["interface"])
                    + [f"on uplink {clean((facts.get('uplink') or {}).get('device', ''))}"] * bool(facts.get("uplink"))
                    + [f"link {clean(facts['link'])}"] * bool(facts["link"])))
    daemon = facts["daemon"]
    if daemon:
        stays = "stays until uroce down" if daemon["stay"] else "leaves with the last process"
        others = "" if daemon["allow"] == "none" else f", lets in {clean(daemon['allow'])}"
        print(f"  daemon: {place_of(daemon['pid'])}, of {user(daemon['uid'])}, for {ago(daemon['uptime'])}, "
              f"{', '.join([stays + others, *of_version(daemon)])}")
    elif not facts["problem"]:
        print("  daemon: none; processes go on without it, and the next program to open the device starts one")
    if facts["problem"]:
        print(f"  problem: {clean(facts['problem'])}")
    if facts["functions"]:
        print("    fn       pid  command           user         open")
    for function in facts["functions"]:
        who = f"function {function['function']} of {facts['device']}"
        show_or_say(understood(who), print_function, function, time.time())


def start(args):
    devices = choose(args.device)
    told = lists([function for device in devices for function in device.functions if function.status],
                 *(what for what in LISTS if args.json or getattr(args, what)))
    facts = [device_facts(device, told) for device in devices]
    if args.json:
        print(json.dumps({"devices": facts}, indent=2))
        return
    for number, device in enumerate(facts):
        if number:
            print()
        show_or_say(understood(f"the daemon of {device['device']}"), print_device, device)
    if not facts:
        print("No device is open. `uroce run PROGRAM` opens those that PROGRAM uses; `uroce up` keeps one.")
