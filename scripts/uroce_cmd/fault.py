# SPDX-License-Identifier: BSD-3-Clause
"""uroce fault: loss, duplication, corruption, reordering, delay, a link that is down."""
import argparse
import json
import random
import re
import socket

from .devices import ask_functions, choose, names, say_once, still_there, without_others
from .proto import PATIENCE, UroceError, ask_all, clean, place_of, understood
from .stat import number
from .words import add_device, nearest

DESCRIPTION = """\
Injects network faults, to test how programs react. Faults apply to packets between the NIC and their path, whether
that is the network or a ring to a process of this host. Each process of the device decides on its own, from the seed
and its function number: the same seed and the same traffic give the same faults.

By default faults apply to sent packets, so that a packet between two processes of the device is subject to them once.
For a peer elsewhere, --direction both affects both directions. A new fault replaces the previous one as a whole; a
queue pair's fault takes precedence over its device's. Processes that open the device later get the device's fault as
well.
"""
EPILOG = """\
examples:
  uroce fault --loss 1%                            all devices lose 1% of the packets they send
  uroce fault uroce0 --loss 0.1% --duplicate 0.1% --reorder 1% --gap 5 --seed 42
  uroce fault --qp 0x010a51 --corrupt 5%           one bit flipped; the receiver detects it by the ICRC
  uroce fault --delay 200us --jitter 50us --direction both
  uroce fault --link down                          and uroce fault clear brings it up again
  uroce fault show --json
  uroce fault clear                                all devices; with --qp: that queue pair's
"""
BILLION = 1_000_000_000
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": BILLION}
VERBS = ("set", "clear", "show")
SHOWS = ("--device", "--qp", "--json")  # options that set no fault
PARTS = (("loss", "lost"), ("dup", "duplicated"), ("corrupt", "corrupted"), ("reorder", "held back"))


def share(text):
    """1% or 0.01, in parts of 10^9. A plain 1 is refused, because it could mean either."""
    match = re.fullmatch(r"([0-9.]+)(%?)", text)
    try:
        value = float(match.group(1)) / (100 if match.group(2) else 1)
    except (AttributeError, ValueError):
        value = -1
    if not 0 <= value <= 1 or (value == 1 and "%" not in text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a share of packets; write 1% or 0.01")
    return round(value * BILLION)


def duration(text):
    """10us, 1.5ms, in nanoseconds."""
    match = re.fullmatch(r"([0-9.]+)(ns|us|ms|s)", text)
    try:
        value = round(float(match.group(1)) * UNITS[match.group(2)])
    except (AttributeError, ValueError):
        value = -1
    if not 0 <= value <= 10 * BILLION:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time up to 10s; write 200us or 1.5ms")
    return value


def rewrite(argv):
    """`uroce fault` without a verb sets a fault, or shows the faults when no fault is given."""
    if argv[:1] != ["fault"] or argv[1:2] and argv[1] in (*VERBS, "-h", "--help"):
        return argv
    if len(argv) > 2 and argv[2] in VERBS:  # uroce fault DEV clear
        return ["fault", argv[2], argv[1], *argv[3:]]
    if argv[1:] and nearest(argv[1], VERBS) and argv[1] not in {name for _, name in socket.if_nameindex()}:
        return argv  # a mistyped verb: it will be told
    sets = any(word.startswith("--") and word.split("=")[0] not in SHOWS for word in argv)
    return ["fault", "set" if sets else "show", *argv[1:]]


def add(commands):
    parser = commands.add_parser("fault", help="inject loss, delay and other faults", description=DESCRIPTION,
                                 epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(metavar="set|clear|show", required=True)
    places = argparse.ArgumentParser(add_help=False)
    add_device(places)
    places.add_argument("--qp", type=number, metavar="N", help="only this queue pair")
    verb = verbs.add_parser("set", parents=[places], help="inject faults (this word may be left out)", epilog=EPILOG,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    verb.add_argument("--loss", type=share, default=0, metavar="SHARE", help="packets to drop: 1%% or 0.01")
    verb.add_argument("--duplicate", type=share, default=0, metavar="SHARE", dest="dup", help="packets to duplicate")
    verb.add_argument("--corrupt", type=share, default=0, metavar="SHARE", help="packets to corrupt by one bit")
    verb.add_argument("--reorder", type=share, default=0, metavar="SHARE",
                      help="packets to delay until others have passed")
    verb.add_argument("--gap", type=int, default=3, metavar="N",
                      help="--reorder: how many others pass (default 3), or those within 1 ms")
    verb.add_argument("--delay", type=duration, default=0, metavar="TIME", help="delay of each packet: 200us, 1.5ms")
    verb.add_argument("--jitter", type=duration, default=0, metavar="TIME",
                      help="random variation of the delay, in both directions; packets overtake each other")
    verb.add_argument("--link", choices=("up", "down"), default="up", help="down: the port goes down, as if unplugged")
    verb.add_argument("--direction", choices=("tx", "rx", "both"), default="tx",
                      help="packets sent (default), received, or both")
    verb.add_argument("--seed", type=int, metavar="N",
                      help="seed of the random decisions (default: a random one, which is printed)")
    verb.set_defaults(start=start_set)
    verb = verbs.add_parser("clear", parents=[places], help="remove the faults")
    verb.set_defaults(start=start_clear)
    verb = verbs.add_parser("show", parents=[places], help="show the faults, and how many packets they have affected")
    verb.add_argument("--json", action="store_true", help="as JSON")
    verb.set_defaults(start=start_show)


def tell(args, text):
    """Send a command to all daemons and functions concerned. @return (devices, functions) that accepted it."""
    devices, told, functions, missed, left = without_others(choose(args.device)), 0, 0, False, []
    if not devices:
        raise UroceError("no device is open in this network namespace; start the program first, or keep a device with "
                         "uroce up", 3)
    if args.device and args.qp is None and devices[0].problem:
        raise UroceError(devices[0].problem)
    # First the daemons: a function that joins now gets it from there.
    daemons = tell_daemons(devices, text, left) if args.qp is None else set()
    accepted = tell_functions(args, devices, text, left)
    for device in devices:
        daemon, took = device in daemons, len(accepted.intersection(concerned(args, device)))
        missed = missed or (daemon and not took and bool(silent(args, device)))
        told += took > 0 or daemon
        functions += took
    for error in left:
        say_once(str(error))
    # Those of all devices that do not answer are no error, they have been named: they may be of other users.
    others = sum(silent(args, device) for device in devices)
    if left or missed or (others and (not told or (args.device and args.qp is None))):
        raise UroceError("not everywhere: " + count(functions, "process has", "processes have") + " done it, " +
                         count(len(left) + others, "has", "have") + " not")
    if args.qp is not None and not functions:
        raise UroceError(f"there is no queue pair 0x{args.qp:06x}; uroce status --qps lists them", 3)
    return told, functions


def concerned(args, device):
    return [function for function in device.functions if args.qp is None or args.qp >> 16 == function.number]


def silent(args, device):
    """@return how many functions of the device do not answer"""
    return sum(not function.status for function in concerned(args, device))


def tell_daemons(devices, text, left):
    """@return the devices whose daemons accepted the command. Adds errors to `left`: of those that did not, and have
    not left."""
    answers = ask_all(((device, device.connect, "fault " + text) for device in devices if device.daemon), PATIENCE)
    failed = {device: error for device, error in answers.items() if isinstance(error, UroceError)}
    left += [error for device, error in failed.items() if device.key in names()[0]]
    return set(answers) - set(failed)


def tell_functions(args, devices, text, left):
    """@return the functions that accepted the command. Adds errors to `left`: of those that should have."""
    functions = [function for device in devices for function in concerned(args, device) if function.status]
    if args.qp is not None and text.startswith("set"):
        functions = [function for function, qps in answered(functions, f"qps {args.qp}", left)
                     if has_qp(function, qps, args.qp, left)]
    return {function for function, _ in answered(functions, "fault " + text, left)}


def answered(functions, text, left):
    """Ask all functions. @return [(function, answer)]; adds errors to `left`: of those that have not just ended"""
    found = ask_functions(functions, text)
    answers = [(function, found[function]) for function in functions]
    left += [error for function, error in answers if isinstance(error, UroceError) and still_there(function)]
    return [(function, answer) for function, answer in answers if not isinstance(answer, UroceError)]


def has_qp(function, answer, qpn, left):
    try:
        with understood(function.who):
            return any(qp["qpn"] == qpn for qp in answer["qps"])
    except UroceError as error:
        left.append(error)
        return False


def start_set(args):
    if not 1 <= args.gap <= 1000:
        raise UroceError("--gap is 1 to 1000", 2)
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    if not 0 <= seed < 1 << 64:
        raise UroceError("--seed is a number from 0 to 2^64 - 1", 2)
    words = [f"{key}={getattr(args, key)}" for key, _ in PARTS] + [
        f"gap={args.gap}", f"delay={args.delay}", f"jitter={args.jitter}", f"seed={seed}", f"dir={args.direction}"]
    if args.link == "down":
        words.append("down=1")
    if args.qp is not None:
        words.append(f"qp={args.qp}")
    devices, functions = tell(args, "set " + " ".join(words))
    print(f"faults set on {count(devices, 'device')}, {count(functions, 'process', 'processes')}, with seed {seed}; "
          "uroce fault clear ends them")


def count(n, one, many=None):
    return f"{n} {one if n == 1 else many or one + 's'}"


def start_clear(args):
    devices, functions = tell(args, "clear" if args.qp is None else f"clear qp={args.qp}")
    print(f"no more faults on {count(devices, 'device')}, {count(functions, 'process', 'processes')}")


def percent(parts):
    return f"{parts / BILLION * 100:g}%"


def time_text(ns):
    for unit in ("s", "ms", "us"):
        if ns >= UNITS[unit]:
            return f"{ns / UNITS[unit]:g}{unit}"
    return f"{ns}ns"


def rule_text(rule):
    words = [f"{percent(rule[key])} {name}" for key, name in PARTS if rule[key]]
    if rule["reorder"]:
        words[-1] += f" for {rule['gap']} others"
    if rule["delay"] or rule["jitter"]:
        words.append(f"delay {time_text(rule['delay'])}" + f" +- {time_text(rule['jitter'])}" * bool(rule["jitter"]))
    if rule["down"]:
        words.append("link down")
    where = f"QP 0x{rule['qp']:06x}" if rule["qp"] else "all packets"
    way = {"tx": "sent", "rx": "received", "both": "sent or received"}[rule["dir"]]
    return f"{where} {way}: {', '.join(words) or 'nothing'} (seed {rule['seed']})"


def start_show(args):
    found, wrong = [], []
    functions = [function for device in without_others(choose(args.device)) for function in concerned(args, device)
                 if function.status]
    for function, answer in answered(functions, "fault show", wrong):
        try:
            with understood(function.who):
                found.append(shown(args, function, answer))
        except UroceError as error:
            wrong.append(error)
    for error in wrong:
        say_once(str(error))
    if args.json:
        print(json.dumps({"functions": found}, indent=2))
        return
    show(found)


def shown(args, function, answer):
    """@return the faults of a process."""
    rules = [rule for rule in answer["rules"] if args.qp is None or rule["qp"] == args.qp]
    for rule in rules:
        rule_text(rule)  # raises an error if it makes no sense
    return {"device": function.device.key, "name": function.device.name, "function": function.number,
            "pid": function.pid, "command": function.status["command"], "rules": rules,
            "counters": {clean(name): int(value) for name, value, _ in answer["counters"]}}


def show(found):
    for entry in found:
        if not entry["rules"] and not any(entry["counters"].values()):
            continue
        print(f"{entry['name'] or entry['device']} function {entry['function']}, {clean(entry['command'])} "
              f"({place_of(entry['pid'])})")
        for rule in entry["rules"]:
            print("  " + rule_text(rule))
        for name, value in entry["counters"].items():
            if value:
                print(f"  {name:20} {value:>12}")
    if not any(entry["rules"] for entry in found):
        print("No process has faults.")
