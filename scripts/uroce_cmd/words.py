# SPDX-License-Identifier: BSD-3-Clause
"""What the commands' command lines have in common: how a device is named, and what was probably meant."""
import argparse
import re

SETTINGS = ("DEVICES", "MTU", "PROGRESS", "ATOMICS", "ALLOW", "KEY", "RING", "ONE_COPY", "UCX_ONE_KEY",
            "ACK_BACKOFF", "UROCED", "EAL", "REAL_LIBIBVERBS", "BUILD")  # as in pmd/include/settings.def
DEVICE = "an address of the device, its interface, or its name; without it: all devices"


def distance(one, other):
    """How many letters are missing, added, wrong or exchanged with their neighbours."""
    before, row = [], list(range(len(other) + 1))
    for i, a in enumerate(one):
        last, before, row = before, row, [i + 1]
        for j, b in enumerate(other):
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (a != b)))
            if i and j and a == other[j - 1] and b == one[i - 1]:
                row[-1] = min(row[-1], last[j - 1] + 1)
    return row[-1]


def nearest(word, known):
    """@return "; did you mean X?" for the known words that are most like this one; "" if none is."""
    far = {name: distance(word, name) for name in known}
    least = min(far.values(), default=None)
    if not far or least > max(1, len(word) // 4):
        return ""
    return "; did you mean " + " or ".join(sorted(name for name in far if far[name] == least)) + "?"


def settings_mistyped(environment):
    """@return sentences on variables that look like a setting and are none"""
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix("UROCE_")
        if name != variable and name not in SETTINGS and re.fullmatch(r"[A-Za-z0-9_]{1,31}", name):
            far, meant = min((distance(name, setting), setting) for setting in SETTINGS)
            if far <= (1 if len(name) < 8 else len(name) // 4):
                found.append(f"{variable} is no setting; did you mean UROCE_{meant}?")
    return found


def add_device(parser):
    """A device is named as an argument, or by --device: in all commands alike."""
    parser.add_argument("device", nargs="?", metavar="DEV", help=DEVICE)
    parser.add_argument("--device", dest="named", metavar="DEV", help="the same")


def settle_device(parser, args):
    """Have args.device be the one device that was named, either way."""
    named = getattr(args, "named", None)
    if named is not None and args.device not in (None, named):
        parser.error(f"two devices are named, {args.device} and {named}")
    if named is not None:
        args.device = named


def subparsers(parser):
    for action in parser._actions:  # pylint: disable=protected-access
        if isinstance(action, argparse._SubParsersAction):  # pylint: disable=protected-access
            return action.choices
    return {}


def options(parser):
    # pylint: disable=protected-access
    return {name: action for action in parser._actions for name in action.option_strings}


def deepest(parser, argv):
    """@return the parser of the command that these words begin with"""
    for word in argv:
        if word not in subparsers(parser):
            break
        parser = subparsers(parser)[word]
    return parser
