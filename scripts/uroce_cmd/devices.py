# SPDX-License-Identifier: BSD-3-Clause
"""The devices of this network namespace, found by the socket names of their daemons and functions."""
import os
import re
import sys

from .proto import PATIENCE, Connection, Refused, Silent, UroceError, clean, daemon_name, function_name, gid_text

SAID = set()
LISTENING = 0x10000  # __SO_ACCEPTCON, as in /proc/net/unix
NAME = re.compile(r"@uroce/([0-9a-fA-F.:]+)(?:/(\d+))?$")


def names():
    """@return (addresses with a daemon, {(key, function number)})"""
    addresses, functions = set(), set()
    with open("/proc/net/unix", errors="replace") as table:
        for line in table:
            fields = line.split(None, 7)
            if len(fields) < 8 or not fields[3].strip("0123456789abcdefABCDEF") == "":
                continue
            match = NAME.match(fields[7].strip())
            if not match or not int(fields[3], 16) & LISTENING:
                continue
            if match.group(2):
                functions.add((match.group(1), int(match.group(2))))
            else:
                addresses.add(match.group(1))
    return addresses, functions


class Function:
    """A process's part of a device."""

    def __init__(self, device, number):
        self.device, self.number = device, number
        self.who = f"function {number} of {device.key}"
        self.status = None  # its own status; None: it does not answer
        self.pid = None  # in this PID namespace; None: it is in another one, or could not be reached
        self.reached = False
        self.problem = ""  # why it does not answer
        self.refused = False  # because it speaks another version

    def connect(self, patience=PATIENCE):
        connection = Connection(function_name(self.device.key, self.number), self.who, patience)
        self.pid, self.reached = connection.pid, True
        return connection

    def ask(self, text):
        with self.connect() as connection:
            return connection.ask(text)

    def look(self):
        try:
            self.status = self.ask("status")
        except Silent as error:
            self.problem, self.refused = str(error), isinstance(error, Refused)
        return self

    def pages(self, what):
        """A list that the function tells in parts: "qps" or "cm"."""
        found, start = [], 0
        with self.connect() as connection:
            while True:
                answer = connection.ask(f"{what} {start}")
                found += answer[what]
                start = answer["next"]
                if not start:
                    return found

    def qps(self):
        return self.pages("qps")

    def cm(self):
        """Its listeners and connections."""
        return self.pages("cm")


class Device:
    """`key`: its first address, which names it."""

    def __init__(self, key):
        self.key = key
        self.daemon = None  # the daemon's status; None: there is no daemon
        self.functions = []
        self.problem = ""  # why an existing daemon does not answer
        self.refused = False  # because the device belongs to another user, or speaks another version

    def tell_daemon(self, text):
        with Connection(daemon_name(self.key), f"the daemon of {self.key}") as connection:
            return connection.ask(text)

    @property
    def gids(self):
        if self.daemon:
            return [entry["gid"] for entry in self.daemon["gids"]]
        for function in self.functions:
            if function.status:
                return [entry["address"] for entry in function.status["gids"]]
        return [self.key]

    @property
    def name(self):
        """The name that most of its processes use."""
        called = [function.status["device"] for function in self.functions if function.status]
        return clean(max(sorted(set(called)), key=called.count)) if called else ""

    def answers_to(self, text):
        return text in (self.key, self.name) or (gid_text(text) or "") in self.gids or \
            (self.daemon is not None and text == self.daemon["interface"] != "")


def find(look=True):
    """All devices; with their functions' status if `look`."""
    addresses, functions = names()
    devices = {}
    for key in {key for key, _ in functions}:
        devices[key] = Device(key)
    for address in sorted(addresses):
        if any(address in device.gids for device in devices.values() if device.daemon):
            continue
        try:
            with Connection(daemon_name(address), f"the daemon of {address}") as connection:
                status = connection.ask("status")
                status["daemon"]["pid"] = connection.pid
        except Silent as error:
            if address in names()[0]:  # it has not just left
                device = devices.setdefault(address, Device(address))
                device.problem, device.refused = str(error), isinstance(error, Refused)
            continue
        device = devices.setdefault(status["device"], Device(status["device"]))
        device.daemon = status
    for key, number in sorted(functions):
        device = devices[key]
        device.functions.append(Function(device, number).look() if look else Function(device, number))
    # A function's name vanishes with it: those that do not answer at all have ended meanwhile.
    for device in devices.values():
        device.functions = [f for f in device.functions if f.status or not look or still_there(f)]
    return sorted((d for d in devices.values() if d.daemon or d.functions or d.problem),
                  key=lambda device: (device.name, device.key))


def say_once(sentence):
    """Print on stderr, only the first time."""
    if sentence not in SAID:
        SAID.add(sentence)
        print(f"uroce: {sentence}", file=sys.stderr, flush=True)


def without_others(devices):
    """@return devices that this user may use. Prints who owns the others, and which functions speak another version;
    raises an error if there is no other device."""
    mine = [device for device in devices if not device.refused]
    others = [device.problem for device in devices if device.refused]
    if others and not mine:
        raise UroceError("; ".join(others))
    for sentence in others + [f.problem for device in mine for f in device.functions if f.refused]:
        say_once(sentence)
    return mine


def still_there(function):
    return (function.device.key, function.number) in names()[1]


def choose(wanted, look=True):
    """@return the devices that the user means: one, or all if none is named."""
    devices = find(look)
    if wanted is None:
        return devices
    found = [device for device in devices if device.answers_to(wanted)]
    if len(found) == 1:
        return found
    there = ", ".join(f"{d.name or 'unnamed'} ({d.key})" for d in devices) or "none"
    if found:
        raise UroceError(f"'{clean(wanted)}' is the name of several devices; give the address of one: "
                         + ", ".join(d.key for d in found), 3)
    raise UroceError(f"no device '{clean(wanted)}' is open in this network namespace; there are: {there}", 3)


def program(name, here):
    """@return the path of one of uroce's programs, in the build folder or where it is installed; None: not found."""
    chosen = os.environ.get("UROCE_UROCED") if name == "uroced" else None
    if chosen:
        return chosen
    build = os.environ.get("UROCE_BUILD")
    folders = [os.path.join(build, "pmd")] if build else []
    folders += [os.path.join(here, os.pardir, *rest) for rest in (("build", "pmd"), ("libexec", "uroce"), ("sbin",))]
    folders.append(here)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.realpath(path)
    return None
