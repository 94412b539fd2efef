# SPDX-License-Identifier: BSD-3-Clause
"""Reads the command line. Each command is a module with add(subparsers) and a function that runs it."""
import argparse
import signal
import sys

from . import capture, complete, fault, lifecycle, run, stat, status, version
from .proto import UroceError
from .words import deepest, nearest, options, settle_device

DESCRIPTION = """\
Devices, processes and packets of uroce, the RDMA NIC in user space, in this network namespace.

  uroce run ib_write_bw                 run a program with uroce's devices present
  uroce status                          devices, who uses them, their queue pairs
  uroce stat --watch                    counters and their growth
  uroce capture trace.pcapng            packets for Wireshark, including those between processes of this host
  uroce fault --loss 1% --seed 7        a bad network, to test programs; uroce fault clear ends it
  uroce help fault                      more about a command
"""
EPILOG = """\
Exit codes: 0 done; 1 something failed, and a message on stderr says what; 2 the command line is wrong; 3 there is no
such device, process or queue pair. `run` and `bench` end with the exit code of what they run.

Settings of devices: docs/configuration.md.
"""


class Parser(argparse.ArgumentParser):
    """Also says what to do after an error."""

    def error(self, message):
        end = "" if message.endswith("?") else ";"
        self.exit(2, f"{self.prog}: {message}{end} see {self.prog} --help\n")

    def _check_value(self, action, value):
        """In place of the class's own: a command that does not exist is one that was mistyped."""
        if action.choices is None or value in action.choices:
            return
        known = list(action.choices)
        what = "command" if isinstance(action, argparse._SubParsersAction) else action.option_strings[0] + " value"
        self.error(f"no {what} '{value}'{nearest(value, known) or '; there are: ' + ', '.join(known)}")


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
    topic = commands.add_parser("help", help="explain a command", description="The same as uroce COMMAND --help.")
    topic.add_argument("topic", nargs="*", metavar="COMMAND", help="a command; without it: uroce as a whole")
    topic.set_defaults(start=explain)
    return parser


def explain(args):
    """uroce help [COMMAND [VERB]]"""
    if args.topic[:1] in (["run"], ["bench"]):
        return run.start(args.topic[0], ["--help"], args.here)
    return main([*args.topic, "--help"], args.here)


def parse(parser, argv):
    """@return the arguments; ends the command if there are options that its commands do not have."""
    args, unknown = parser.parse_known_args(argv)
    parser = deepest(parser, argv)
    if len(unknown) == 1 and not unknown[0].startswith("-") and getattr(args, "device", "") is None:
        args.device, unknown = unknown[0], []  # argparse takes an optional argument only next to the one before it
    if unknown:
        what = "option" if unknown[0].startswith("-") else "argument"
        parser.error(f"unknown {what} {unknown[0]}{nearest(unknown[0], options(parser)) if what == 'option' else ''}")
    settle_device(parser, args)
    return args


def main(argv, here):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = parser_make()
    if argv and argv[0] in ("run", "bench"):  # the rest is for another program
        return run.start(argv[0], argv[1:], here)
    if argv and argv[0] == "words":  # for the shells' completion
        print("\n".join(complete.words(parser, argv[1:])))
        return 0
    args = parse(parser, fault.rewrite(argv))
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
