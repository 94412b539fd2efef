# SPDX-License-Identifier: BSD-3-Clause
"""The devices of this network namespace, found by the socket names of their daemons and functions."""
import functools
import itertools
import os
import re
import sys

from .proto import PATIENCE, Connection, Refused, UroceError, ask_all, checked, clean, daemon_name, fits, \
    function_name, gid_text, guard_name, place_of, understood

SAID = set()
LISTENING = 0x10000  # __SO_ACCEPTCON, as in /proc/net/unix
NAME = re.compile(r"@uroce/([0-9a-fA-F.:]+)(?:/(\d+|guard))?$")
KEY = re.compile(r"[0-9a-fA-F.:]+")
LISTS_SECONDS = 10.0  # for all lists that come in parts
LIST_MAX = 1 << 17  # entries; the numbers of a function's queue pairs have 16 bits
TIME = (int, float)
# What the commands use of the answers to "status", of a daemon and of a function.
DAEMON_STATUS = {
    "device": str, "interface": str, "port": str, "problem": str, "counters": dict, "gids": [{"gid": str}],
    "daemon": {"uid": int, "uptime": TIME, "stay": bool, "allow": str},
    "functions": [{"number": int, "state": str, "pid": int, "command": str, "uid": int, "since": TIME,
                   "services": [int], "cm_ports": [[int]]}]}
FUNCTION_STATUS = {"device": str, "command": str, "mtu": int, "link": str, "faults": int, "qps": int,
                   "gids": [{"address": str}]}


def names():
    """@return (addresses with a daemon, {(key, function number)}, keys with a guard)"""
    addresses, functions, guards = set(), set(), set()
    with open("/proc/net/unix", errors="replace") as table:
        for line in table:
            fields = line.split(None, 7)
            if len(fields) < 8 or not fields[3].strip("0123456789abcdefABCDEF") == "":
                continue
            match = NAME.match(fields[7].strip())
            if not match or not int(fields[3], 16) & LISTENING:
                continue
            if match.group(2) == "guard":
                guards.add(match.group(1))
            elif match.group(2):
                functions.add((match.group(1), int(match.group(2))))
            else:
                addresses.add(match.group(1))
    return addresses, functions, guards


class Function:
    """A process's part of a device."""

    def __init__(self, device, number):
        self.device, self.number = device, number
        self.who = f"function {number} of {device.key}"
        self.status = None  # its own status; None: it does not answer
        self.pid = None  # in this PID namespace; None: it is in another one, or could not be reached
        self.reached = False
        self.problem = ""  # why it does not answer, or gives a wrong answer

    def connect(self, patience=PATIENCE):
        connection = Connection(function_name(self.device.key, self.number), self.who, patience)
        self.pid, self.reached = connection.pid, True
        return connection

    def learn(self, answer):
        """@param answer: of ask_all, to "status"."""
        try:
            self.status = checked(answer, self.who, FUNCTION_STATUS)
        except UroceError as error:
            self.problem = str(error)


def ask_functions(functions, text, patience=PATIENCE):
    """Ask all of them at a time. @return as ask_all, by function"""
    return ask_all(((function, function.connect, text) for function in functions), patience)


def lists(functions, *whats):
    """Lists that functions tell in parts: "qps", or "cm", their listeners and connections.
    @return {(function, what): the list or a UroceError}"""
    found, reached = {}, {}

    def more(key, answer):
        function, what = key
        with understood(function.who):
            start = answer["next"]
            if not fits(answer[what], [dict]) or 0 != start <= reached.get(key, 0):
                raise ValueError
            found.setdefault(key, []).extend(answer[what])
            if len(found[key]) > LIST_MAX:
                raise ValueError
        reached[key] = start
        return f"{what} {start}" if start else None

    answers = ask_all((((function, what), function.connect, f"{what} 0") for function in functions for what in whats),
                      PATIENCE, more, LISTS_SECONDS)
    return {key: answer if isinstance(answer, UroceError) else found[key] for key, answer in answers.items()}


class Device:
    """`key`: its first address, which names it."""

    def __init__(self, key):
        self.key = key
        self.daemon = None  # the daemon's status; None: there is no daemon
        self.functions = []
        self.claims = []  # the addresses of a daemon that does not answer
        self.problem = ""  # why an existing daemon does not answer, or gives a wrong answer
        self.guarded = False  # a guard tries to start the daemon; the problem says why that fails
        self.refused = False  # because the device belongs to another user, or speaks another version

    def connect(self):
        return Connection(daemon_name(self.key), f"the daemon of {self.key}")

    def connect_guard(self):
        return Connection(guard_name(self.key), f"the guard of {self.key}")

    def tell_guard(self, text):
        with self.connect_guard() as connection:
            return connection.ask(text)

    def tell_daemon(self, text):
        with self.connect() as connection:
            return connection.ask(text)

    @property
    def gids(self):
        if self.daemon:
            return [entry["gid"] for entry in self.daemon["gids"]]
        for function in self.functions:
            if function.status:
                return [entry["address"] for entry in function.status["gids"]]
        return self.claims or [self.key]

    @property
    def name(self):
        """The name that most of its processes use."""
        called = [function.status["device"] for function in self.functions if function.status]
        return clean(max(sorted(set(called)), key=called.count)) if called else ""

    def answers_to(self, text):
        return text in (self.key, self.name) or (gid_text(text) or "") in self.gids or \
            (self.daemon is not None and text == self.daemon["interface"] != "")


class Daemons:
    """Finds the devices that daemons tell of. A daemon listens under each of its addresses: those of one process are
    one device, whether it answers or not."""

    def __init__(self, devices):
        self.devices = devices
        # {process: addresses, of which the first is asked}; {address: itself} where the process has no PID here
        self.asked = {}
        self.silent = {}  # {process: addresses}, of daemons that do not answer as they should
        self.problems = {}  # {process: UroceError}
        self.answered = []  # (process, Device)

    def connect(self, address):
        """@return a connection; None: another address of the same process is asked"""
        try:
            connection = Connection(daemon_name(address), f"the daemon of {address}")
        except UroceError:
            self.asked[address] = [address]
            raise
        addresses = self.asked.setdefault(connection.pid or address, [])
        addresses.append(address)
        if len(addresses) == 1:
            return connection
        connection.close()
        return None

    def learn(self, answers):
        """@param answers: of ask_all, by address, to "status"."""
        wrong = []
        for process, addresses in self.asked.items():
            address, process = addresses[0], process if isinstance(process, int) else None
            try:
                status = checked(answers[address], f"the daemon of {address}", DAEMON_STATUS)
                self.check(address, process, status["device"])
            except UroceError as error:
                wrong.append((process, addresses, error))
                continue
            status["daemon"]["pid"] = process
            device = self.devices.setdefault(status["device"], Device(status["device"]))
            device.daemon = status
            self.answered.append((process, device))
        for process, addresses, error in wrong:
            if not process and any(not of and addresses[0] in device.gids for of, device in self.answered):
                continue
            # The sentence of a refusal names the device: without PIDs it tells which addresses belong together.
            process = process or str(error)
            self.silent.setdefault(process, []).extend(addresses)
            self.problems.setdefault(process, error)

    @staticmethod
    def check(address, process, key):
        """A daemon may tell of its own device only."""
        with understood(f"the daemon of {address}"):
            if not KEY.fullmatch(key):
                raise ValueError
        if address == key or key not in names()[0]:
            return
        with Connection(daemon_name(key), f"the daemon of {key}") as connection:
            if connection.pid != process:
                raise UroceError(f"the daemon of {address} ({place_of(process)}) says that its device is {clean(key)}, "
                                 "which belongs to another process")

    def finish(self):
        for process, addresses in self.silent.items():
            there = names()[0]
            addresses = [address for address in addresses if address in there]  # others have just left
            if not addresses:
                continue
            key = next((address for address in addresses if address in self.devices), addresses[0])
            device = self.devices.setdefault(key, Device(key))
            if not device.daemon:
                device.claims, device.problem = addresses, str(self.problems[process])
                device.refused = isinstance(self.problems[process], Refused)


def names_of(key):
    """As names(), of one device."""
    addresses, functions, guards = names()
    return addresses & {key}, {function for function in functions if function[0] == key}, guards & {key}


def find(look=True, patience=PATIENCE, key=None):
    """All devices, or one; with their functions' status if `look`. @param patience: seconds for all answers"""
    addresses, functions, guards = names_of(key) if key else names()
    devices = {}
    for key in {key for key, _ in functions}:
        devices[key] = Device(key)
    daemons, asked, guarded = Daemons(devices), [], [devices.get(key) or Device(key) for key in sorted(guards)]
    for key, number in sorted(functions):
        asked.append(Function(devices[key], number))
        devices[key].functions.append(asked[-1])
    answers = ask_all(itertools.chain(
        ((address, functools.partial(daemons.connect, address), "status") for address in sorted(addresses)),
        (((device.key, "guard"), device.connect_guard, "status") for device in guarded),
        ((function, function.connect, "status") for function in asked if look)), patience)
    daemons.learn(answers)
    daemons.finish()
    for device in guarded:  # a guard without a daemon tells why that is so; one with a daemon has nothing to say
        device = devices.setdefault(device.key, device)
        if not device.daemon and isinstance(answers[device.key, "guard"], Refused):
            device.problem, device.guarded = str(answers[device.key, "guard"]), True
    for function in asked if look else ():
        function.learn(answers[function])
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
    """@return devices that this user may use. Prints who owns the others, and which functions do not answer and why;
    raises an error if there is no other device."""
    mine = [device for device in devices if not device.refused]
    others = [device.problem for device in devices if device.refused]
    if others and not mine:
        raise UroceError("; ".join(others))
    mine_broken = [device.problem for device in mine if device.problem and not device.daemon]
    for sentence in others + mine_broken + [f.problem for device in mine for f in device.functions if f.problem]:
        say_once(sentence)
    return mine


def still_there(function):
    return (function.device.key, function.number) in names()[1]


def choose(wanted, look=True, patience=PATIENCE):
    """@return the devices that the user means: one, or all if none is named."""
    key = wanted and gid_text(wanted)
    if key:  # most often a device's first address: processes of other devices, which may be slow, are not asked
        devices = find(look, patience, key)
        if len(devices) == 1 and devices[0].key == key and (devices[0].daemon or devices[0].functions):
            return devices
    devices = find(look, patience)
    if wanted is None:
        return devices
    found = [device for device in devices if wanted == device.key] or \
        [device for device in devices if device.answers_to(wanted)]
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
