# SPDX-License-Identifier: BSD-3-Clause
"""Reads the command line. Each command is a module with add(subparsers) and a function that runs it."""
import argparse
import signal
import sys

from . import capture, complete, fault, lifecycle, run, stat, status, version
from .proto import UroceError

DESCRIPTION = """\
Devices, processes and packets of uroce, the RDMA NIC in user space, in this network namespace.

  uroce run ib_write_bw                 run a program with uroce's devices present
  uroce status                          devices, who uses them, their queue pairs
  uroce stat --watch                    counters and their growth
  uroce capture trace.pcapng            packets for Wireshark, including those between processes of this host
  uroce fault --loss 1% --seed 7        a bad network, to test programs; uroce fault clear ends it
"""
EPILOG = """\
Exit codes: 0 done; 1 something failed, and a message on stderr says what; 2 the command line is wrong; 3 there is no
such device, process or queue pair. `run` and `bench` end with the exit code of what they run.

More about each command: uroce COMMAND --help. Settings of devices: docs/configuration.md.
"""


class Parser(argparse.ArgumentParser):
    """Also says what to do after an error."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class Version(argparse.Action):
    """--version: read only when asked for."""

    def __call__(self, parser, *_):
        try:
            print("uroce", version.own())
        except OSError as error:
            parser.exit(1, f"uroce: cannot tell the version: {error}\n")
        parser.exit(0)


def parser_make():
    parser = Parser(prog="uroce", description=DESCRIPTION, epilog=EPILOG,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action=Version, nargs=0, help="the version of uroce")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for module in (lifecycle, status, run, stat, capture, fault):
        module.add(commands)
    return parser


def main(argv, here):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = parser_make()
    if argv and argv[0] in ("run", "bench"):  # the rest is for another program
        return run.start(argv[0], argv[1:], here)
    if argv and argv[0] == "words":  # for the shells' completion
        print("\n".join(complete.words(parser, argv[1:])))
        return 0
    args = parser.parse_args(fault.rewrite(argv))
    if not hasattr(args, "start"):
        parser.print_help()
        return 2
    args.here = here
    try:
        return args.start(args) or 0
    except UroceError as error:
        print(f"uroce: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
