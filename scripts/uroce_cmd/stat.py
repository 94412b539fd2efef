# SPDX-License-Identifier: BSD-3-Clause
"""uroce stat: counters, their meanings, and how fast they grow."""
import argparse
import json
import sys
import time

from . import listen, metrics
from .devices import choose, names, say_once, still_there, without_others
from .metrics import is_most
from .proto import PATIENCE, UroceError, ask_all, checked, clean, place_of, understood
from .words import add_device

DESCRIPTION = """\
Shows the counters of a device: of all its processes together, or of one queue pair. Names are those of mlx5 and rxe
where these have the same counter. Counters of a process end with it.
"""
EPILOG = """\
examples:
  uroce stat                        all counters of all devices that are not 0
  uroce stat uroce0 --watch         twice a second, with rates of growth
  uroce stat --qp 0x010a51 --watch 2
  uroce stat --json --watch 1 --count 10 | jq -c '.devices[].nic.retransmitted'
  uroce stat --listen               for Prometheus, which reads http://127.0.0.1:9791/metrics
"""
DAY = 86400  # seconds
GROUPS = {"daemon": "the daemon", "nic": "the NIC: transport", "port": "its port: packets to and from the network",
          "control": "its place in the device", "cm": "connections by the connection manager",
          "fault": "injected faults", "qp": "the queue pair"}
QP_SENTENCES = {
    "tx_packets": "Packets sent.",
    "tx_bytes": "Payload bytes sent.",
    "rx_packets": "Packets received.",
    "rx_bytes": "Payload bytes received.",
    "retransmits": "Request packets sent more than once.",
    "timeouts": "Times the ACK timer expired.",
    "rnr_naks_rx": "RNR NAKs received: the peer had no receive posted.",
    "rnr_naks_tx": "RNR NAKs sent: no receive was posted.",
    "seq_naks_rx": "Sequence NAKs received: the peer missed packets.",
    "seq_naks_tx": "Sequence NAKs sent: packets were missing.",
    "duplicates_rx": "Duplicate requests received.",
    "dropped_rx": "Packets dropped.",
}


def number(text):
    """A QP number, decimal or 0x..."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 2 <= value <= 0xffffff:
        raise argparse.ArgumentTypeError(f"'{text}' is not a queue pair number; uroce status --qps lists them")
    return value


def interval(text):
    """Seconds from one look to the next."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= DAY:  # nor is it one that is no number
        raise argparse.ArgumentTypeError(f"'{text}' is not a time above 0, of {DAY} seconds at most")
    return value


def times(text):
    """How often."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a count: give a whole number from 1 on")
    return int(text)


def add(commands):
    parser = commands.add_parser("stat", help="show counters, their meaning and their growth", description=DESCRIPTION,
                                 epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_device(parser)
    parser.add_argument("--qp", type=number, metavar="N", help="only this queue pair, 0x010a51 or decimal")
    parser.add_argument("--functions", action="store_true", help="each process separately")
    parser.add_argument("--all", action="store_true", help="also counters that are 0")
    parser.add_argument("--watch", nargs="?", type=interval, const=0.5, metavar="SECONDS",
                        help="repeatedly (default: every 0.5 s), with growth per second")
    parser.add_argument("--count", type=times, metavar="N", help="with --watch: end after N times")
    parser.add_argument("--json", action="store_true", help="as JSON: one object, with --watch one on each line")
    parser.add_argument("--openmetrics", action="store_true", help="all counters in Prometheus's text format, once")
    parser.add_argument("--listen", nargs="?", type=listen.place, const=(listen.ADDRESS, listen.PORT),
                        metavar="ADDR:PORT", help="answer scrapes over HTTP, at /metrics, until Ctrl-C (default: on "
                        f"{listen.ADDRESS}:{listen.PORT}); who asks for OpenMetrics gets that")
    parser.set_defaults(start=start)


class Snapshot:
    """Counters at one time: {row: value}, where a row is (title, group, name); and their descriptions."""

    def __init__(self):
        self.values, self.sentences, self.time = {}, {}, time.monotonic()

    def add(self, title, group, name, value, sentence):
        row = (title, group, name)
        before = self.values.get(row, 0)
        self.values[row] = max(before, value) if is_most(name) else before + value
        self.sentences[row] = clean(sentence)


def called(device):
    return f"{device.name} ({device.key})" if device.name else device.key


def title_of(device, function, apart):
    title = called(device)
    if not apart:
        return title
    return f"{title} function {function.number}, {clean(function.status['command'])} ({place_of(function.pid)})"


def take(args):
    snapshot, found, silent = Snapshot(), False, False
    devices = without_others(choose(args.device))
    answers = ask_all(questions(args, devices), PATIENCE)
    for device in devices:
        if device in answers:
            take_daemon(snapshot, device, answers[device])
        for function in device.functions:
            if args.qp and args.qp >> 16 != function.number:
                continue
            if not function.status:
                silent = True
                continue
            try:
                with understood(function.who):
                    found |= take_function(args, snapshot, device, function, answers[function])
            except UroceError as error:
                if still_there(function):  # it has not just ended
                    say_once(str(error))
                    silent = True
    if silent and not found and not snapshot.values:
        raise UroceError(f"no process answers that could have queue pair 0x{args.qp:06x}" if args.qp else
                         "no process answers that has a device open")
    if args.qp and not found:
        raise UroceError(f"there is no queue pair 0x{args.qp:06x}; uroce status --qps lists them", 3)
    return snapshot


def questions(args, devices):
    """@return what ask_all takes, to those that have answered before and have what is asked for"""
    if args.qp is None:
        return metrics.questions(devices)
    return ((function, function.connect, f"qps {args.qp}") for device in devices for function in device.functions
            if function.status and args.qp >> 16 == function.number)


def take_daemon(snapshot, device, answer):
    who = f"the daemon of {device.key}"
    try:
        answer = checked(answer, who, {"daemon": list})
        with understood(who):
            for name, value, sentence in answer["daemon"]:
                snapshot.add(f"{called(device)} daemon", "daemon", name, value, sentence)
    except UroceError as error:
        if device.key in names()[0]:  # it has not left meanwhile
            say_once(str(error))


def take_function(args, snapshot, device, function, answer):
    title, answer = title_of(device, function, args.functions or args.qp), checked(answer, function.who, {})
    if args.qp is None:
        for group in (group for group in GROUPS if group in answer):
            for name, value, sentence in answer[group]:
                snapshot.add(title, group, name, value, sentence)
        return True
    qps = [qp for qp in answer["qps"] if qp["qpn"] == args.qp]
    for qp in qps:
        for name, value in qp["counters"].items():
            snapshot.add(f"QP 0x{args.qp:06x} of {title}", "qp", name, value, QP_SENTENCES.get(name, ""))
    return bool(qps)


def rates(now, before):
    """@return growth per second, by row; empty without a previous snapshot."""
    if not before:
        return {}
    seconds = max(now.time - before.time, 1e-9)
    return {row: (value - before.values.get(row, 0)) / seconds for row, value in now.values.items()
            if row in before.values and not is_most(row[2])}


def short(rate):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(rate) >= size:
            return f"{rate / size:.2f} {unit}/s"
    return f"{rate:.0f} /s"


def print_text(args, now, before):
    growth, title, group = rates(now, before), None, None
    for row, value in now.values.items():
        if not value and not args.all:
            continue
        if row[0] != title:
            title, group = row[0], None
            print(title)
        if row[1] != group:
            group = row[1]
            print(f"  {GROUPS[group]}")
        rate = short(growth[row]) if growth.get(row) else ""
        print(f"    {row[2]:22} {value:>15} {rate:>12}  {now.sentences[row]}" if args.watch else
              f"    {row[2]:22} {value:>15}  {now.sentences[row]}")
    if not now.values:
        print("No process has a device open.")


def print_json(args, now, before):
    growth, devices = rates(now, before), {}
    for row, value in now.values.items():
        title, group, name = row
        counter = {"value": value}
        if growth:
            counter["per_second"] = growth.get(row, 0)
        if not args.watch:
            counter["sentence"] = now.sentences[row]
        devices.setdefault(title, {"name": title}).setdefault(group, {})[name] = counter
    print(json.dumps({"time": time.time(), "devices": list(devices.values())}, indent=None if args.watch else 2),
          flush=True)


def export(args):
    if args.openmetrics and args.listen:
        raise UroceError("--openmetrics prints once, --listen serves: give one of them", 2)
    for option in ("qp", "functions", "all", "watch", "count", "json"):
        if getattr(args, option) not in (None, False):
            raise UroceError(f"--openmetrics and --listen take no --{option}: they have all counters of whole devices",
                             2)
    if args.listen:
        listen.serve(args)
        return
    collector = metrics.Collector(args.device)
    collector.look_first()
    print(collector.collect().text(), end="")


def start(args):
    if args.openmetrics or args.listen:
        export(args)
        return
    before, rounds = None, 0
    while True:
        now = take(args)
        if args.json:
            print_json(args, now, before)
        else:
            if args.watch and sys.stdout.isatty():
                print("\033[H\033[J", end="")
            print_text(args, now, before)
            sys.stdout.flush()
        rounds += 1
        if not args.watch or rounds == args.count:
            return
        before = now
        time.sleep(args.watch)
