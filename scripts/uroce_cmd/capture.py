# SPDX-License-Identifier: BSD-3-Clause
"""uroce capture: writes packets of a device or a QP into a pcapng file."""
import argparse
import heapq
import os
import select
import signal
import stat as modes
import struct
import sys
import time

from .devices import Device, Function, choose, names, say_once, still_there, without_others
from .pcapng import INBOUND, OUTBOUND, Writer
from .proto import PACKET, Answer, Silent, UroceError, clean, closed_sentence, place_of, \
    silent_sentence, understood
from .stat import interval, number, times
from .words import add_device

DESCRIPTION = """\
Writes the packets of a device, or of one queue pair, to a pcapng file that Wireshark and tshark read; those between
processes of this host that never reach a network are among them. No privilege is needed, and programs need not be
restarted: processes that open the device later are captured as well, from some milliseconds after that on.

Every process is an interface of its own in the file. Packets between two processes of this host appear twice, as sent
and as received: --direction tx shows each packet once, at its sender. Packets that a fault (uroce fault) has dropped
are not in the file. Processes do not wait for the capture; packets that it was too slow for are counted. The count is
printed at the end and written to the file's interface statistics.
"""
EPILOG = """\
examples:
  uroce capture trace.pcapng                          until Ctrl-C
  uroce capture trace.pcapng --qp 0x010a51 --seconds 10
  uroce capture - --device uroce0 | tshark -r -       live
  uroce capture small.pcapng --snaplen 128 --count 1000
"""
HEADER = struct.Struct("=QQIHBB")  # struct pmd_capture_header
TX, RX = 1, 2
SNAPLEN = 32000
SCAN_SECONDS = 0.01    # interval between searches for new processes
SETTLE_NS = 50_000_000  # a process may be off the CPU between a packet's time stamp and its delivery
STOP_SECONDS = 2.0     # wait for the processes' final messages
ROUND_MESSAGES = 1000  # from one process before the others have their turn


def add(commands):
    parser = commands.add_parser("capture", help="write packets to a file for Wireshark", description=DESCRIPTION,
                                 epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="the file to write; - for standard output")
    add_device(parser)
    parser.add_argument("--qp", type=number, metavar="N", help="only packets of this queue pair")
    parser.add_argument("--direction", choices=("both", "tx", "rx"), default="both",
                        help="packets sent, received, or both")
    parser.add_argument("--snaplen", type=int, default=SNAPLEN, metavar="BYTES",
                        help="bytes to keep of each packet; tshark calls truncated packets malformed")
    parser.add_argument("--count", type=times, metavar="N", help="end after N packets")
    parser.add_argument("--seconds", type=interval, metavar="S", help="end after S seconds")
    parser.set_defaults(start=start)


class Source:
    """A function whose packets are captured. Never waits for it."""

    def __init__(self, function, command, writer, snaplen):
        self.function, self.writer, self.snaplen = function, writer, snaplen
        self.key = (function.device.key, function.number)
        self.last_ns, self.got, self.lost, self.seen = 0, 0, 0, None
        self.written, self.missed = 0, 0  # packets in the file; lost before the last of them
        self.interface = None  # until it has identified itself
        self.drained, self.ended, self.answer = True, False, Answer(function.who)
        self.closed = False  # by the process
        self.problem = ""  # why it is not captured, or no longer
        self.connection = function.connect(0)
        self.connection.send("status")
        self.connection.send(command)

    def pull(self, heap, order):
        """Take packets that have come, at most a round's; sets `drained` when there are no more, `ended` at the end."""
        try:
            with understood(self.function.who):
                self.pull_round(heap, order)
        except UroceError as error:
            self.problem, self.drained, self.ended = str(error), True, True

    def pull_round(self, heap, order):
        self.drained = False
        for _ in range(ROUND_MESSAGES):
            try:
                message = self.connection.receive()
            except BlockingIOError:
                self.drained = True
                return
            if message is None:
                self.drained = self.ended = self.closed = True
                return
            if not self.ended:  # after its unsolicited final message an answer to `capture stop` may follow
                self.take(message, heap, order)

    def take(self, message, heap, order):
        kind, data = message
        if kind == PACKET and self.interface is not None:
            self.last_ns, lost, length, _, direction, _ = HEADER.unpack_from(data)
            if self.got + 1 + lost >= 1 << 64:
                raise ValueError
            self.got, self.lost = self.got + 1, lost
            heapq.heappush(heap, (self.last_ns, direction, next(order), self, lost, length,
                                  data[HEADER.size:]))
        elif self.answer.take(kind, data):
            if self.interface is None:
                self.introduce(self.answer.value)
            else:  # the answer to `capture stop`: its final message
                counts = self.answer.value
                if not 0 <= counts["lost"] <= counts["seen"] < 1 << 64:
                    raise ValueError
                self.seen, self.lost, self.ended = counts["seen"], counts["lost"], True

    def introduce(self, status):
        self.interface = self.writer.interface(
            clean(f"{status['device']}/{self.function.number}"),
            clean(f"function {self.function.number} of {self.function.device.key}: {status['command']}, "
                  f"{place_of(self.function.pid)}"), self.snaplen)

    def horizon(self, now_ns):
        """All packets before this time have been received."""
        return now_ns if self.drained else self.last_ns


class Capture:
    def __init__(self, args, out):
        self.args, self.stopping = args, False
        self.writer = Writer(out, "uroce capture")
        self.snaplen = min(max(args.snaplen, 1), SNAPLEN)
        self.command = f"capture dir={args.direction} snaplen={self.snaplen}"
        if args.qp:
            self.command += f" qp={args.qp}"
        self.sources, self.known, self.heap = {}, set(), []
        self.order = iter(range(1 << 62))
        self.seen = self.lost = 0
        self.failed = self.tried = 0  # processes
        self.device = without_others(choose(args.device, look=False))[0] if args.device else None
        if not args.device:
            for device in choose(None, look=False):
                if device.refused:  # other processes may come
                    say_once(device.problem)

    def scan(self):
        """Find new processes."""
        there = names()[1]
        self.known &= there
        for key, function in sorted(there - self.known):
            self.known.add((key, function))
            if self.args.qp and self.args.qp >> 16 != function:
                continue
            if self.device and self.device.key != key:
                continue
            try:
                source = Source(Function(Device(key), function), self.command, self.writer, self.snaplen)
            except Silent:
                continue  # it has gone
            self.tried += 1
            self.sources[source.connection.sock.fileno()] = source

    def end_source(self, source):
        del self.sources[source.connection.sock.fileno()]
        source.connection.close()
        seen, lost = source.seen if source.seen is not None else source.got + source.lost, source.lost
        if self.full():  # what came after the last packet that was wanted is not lost
            seen, lost = source.written + source.missed, source.missed
        self.seen += seen
        self.lost += lost
        if source.interface is None and not source.problem and still_there(source.function):
            source.problem = (closed_sentence if source.closed else silent_sentence)(source.function.who)
        if source.problem:
            say_once(source.problem)
            self.failed += 1
        if source.interface is not None:
            self.writer.statistics(source.interface, time.time_ns(), seen, lost)

    def write_until(self, horizon_ns):
        while self.heap and self.heap[0][0] <= horizon_ns and not self.full():
            time_ns, direction, _, source, lost, length, data = heapq.heappop(self.heap)
            self.writer.packet(source.interface, time_ns, OUTBOUND if direction == TX else INBOUND, length, data)
            source.written, source.missed = source.written + 1, lost

    def full(self):
        return self.args.count is not None and self.writer.packets >= self.args.count

    def turn(self, seconds):
        """Wait a little, then take what has come, and write the packets that no later arrival can precede."""
        now_ns = time.time_ns()
        if all(source.drained for source in self.sources.values()):
            select.select(list(self.sources), [], [], seconds)
            now_ns = time.time_ns()
        for source in list(self.sources.values()):
            source.pull(self.heap, self.order)
            if source.ended:
                self.end_source(source)
        self.write_until(min((s.horizon(now_ns) for s in self.sources.values()), default=now_ns) - SETTLE_NS)
        self.writer.flush()

    def run(self):
        end = time.monotonic() + self.args.seconds if self.args.seconds is not None else None
        scan_at = 0
        while not self.stopping and not self.full():
            now = time.monotonic()
            if end is not None and now >= end:
                break
            if now >= scan_at:
                self.scan()
                scan_at = now + SCAN_SECONDS
            self.turn(SCAN_SECONDS)
        self.finish()

    def finish(self):
        """Ask all for their final messages, and wait for them for a limited time."""
        deadline, ask_at = time.monotonic() + STOP_SECONDS, 0
        while self.sources and time.monotonic() < deadline:
            for source in list(self.sources.values()) if time.monotonic() >= ask_at else []:
                try:
                    source.connection.send("capture stop")
                except Silent:
                    self.end_source(source)
            ask_at = time.monotonic() + STOP_SECONDS
            self.turn(SCAN_SECONDS)
        for source in list(self.sources.values()):
            self.end_source(source)
        self.write_until(1 << 64)  # after the time of any packet
        self.writer.flush()


def open_output(path):
    if path == "-":
        if sys.stdout.isatty():
            raise UroceError("a capture cannot be shown on a terminal; name a file, or pipe it to tshark -r -", 2)
        return sys.stdout.buffer
    try:
        return open(path, "wb")
    except OSError as error:
        raise UroceError(f"cannot write {path}: {error.strerror}") from error


def start(args):
    with open_output(args.file) as out:
        capture = Capture(args, out)
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, lambda *_: setattr(capture, "stopping", True))
        where = f"{args.device} " if args.device else ""
        print(f"uroce: capturing {where}to {args.file}" + ("" if args.count or args.seconds else "; Ctrl-C ends it"),
              file=sys.stderr, flush=True)
        try:
            capture.run()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"uroce: {capture.writer.packets} packets written"
          + (f", {capture.lost} lost: the capture was too slow; --snaplen, --qp or a faster disk help" if capture.lost
             else ""), file=sys.stderr)
    if modes.S_ISREG(os.stat(args.file).st_mode if args.file != "-" else 0) and not capture.writer.interfaces:
        print("uroce: no process had such a device open", file=sys.stderr)
    # Among all processes some may be of other users.
    return 1 if capture.failed and (args.device or capture.failed == capture.tried) else 0
