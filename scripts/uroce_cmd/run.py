# SPDX-License-Identifier: BSD-3-Clause
"""uroce run, uroce bench: execute uroce-run and scripts/bench."""
import os
import sys

HELP = {
    "run": "run a program with uroce's devices present",
    "bench": "compare uroce with its peers and the limits of this machine",
}
PROGRAM = {"run": "uroce-run", "bench": "bench"}


def add(commands):
    for name, text in HELP.items():
        commands.add_parser(name, help=text, add_help=False)


def start(name, argv, here):
    """Returns only after an error. `run` is uroce-run: devices and their daemons start with the program."""
    path = os.path.join(here, PROGRAM[name])
    if not os.access(path, os.X_OK):
        print(f"uroce: {path} is missing" + ("; benchmarks run from a checkout of the sources" if name == "bench"
                                             else "; install uroce again"), file=sys.stderr)
        return 1
    os.environ["UROCE_COMMAND"] = f"uroce {name}"
    os.execv(path, [path, *argv])
