# SPDX-License-Identifier: BSD-3-Clause
"""Words that may come next on the command line: uroce words N WORD..., where N is the index of the word being typed."""
import contextlib

from .devices import find, lists
from .proto import UroceError, understood
from .words import deepest, options, subparsers


def devices():
    return [word for device in find() for word in (device.name, *device.gids) if word]


def queue_pairs():
    found = []
    for (function, _), qps in lists((f for device in find() for f in device.functions if f.status), "qps").items():
        with contextlib.suppress(UroceError), understood(function.who):  # others have some nevertheless
            found += [f"0x{qp['qpn']:06x}" for qp in qps]
    return found


def values(action):
    """@return what an option or an argument takes."""
    if action.choices:
        return [str(choice) for choice in action.choices]
    if action.metavar == "DEV":
        return devices()
    if action.dest == "qp":
        return queue_pairs()
    return []


def candidates(parser, before, current):
    for word in list(before):
        deeper = subparsers(parser).get(word)
        if deeper:
            parser, before = deeper, before[before.index(word) + 1:]
    known = options(parser)
    action = known.get(before[-1]) if before else None
    if action is not None and action.nargs != 0:
        return values(action)
    if current.startswith("-"):
        return [name for name in known if name.startswith("--")]
    found = list(subparsers(parser))
    for action in parser._actions:  # pylint: disable=protected-access
        if not action.option_strings and action.metavar == "DEV":
            found += values(action)
    return found


def words(parser, argv):
    index = int(argv[0])
    line = argv[1:] + [""]
    before, current = line[:index], line[index]
    if before[:1] == ["fault"] and not set(before) & {"set", "clear", "show"} and len(before) > 1:
        before.insert(1, "set")
    if before[:1] == ["fault"] and len(before) == 1 and current.startswith("-"):
        before.append("set")
    if before[:1] == ["help"] and not current.startswith("-"):
        return sorted(word for word in subparsers(deepest(parser, before[1:])) if word.startswith(current))
    try:
        return sorted({word for word in candidates(parser, before, current) if word.startswith(current)})
    except UroceError:
        return []
