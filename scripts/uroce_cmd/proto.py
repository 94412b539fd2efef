# SPDX-License-Identifier: BSD-3-Clause
"""Talks to daemons and functions: those messages of pmd/proto/proto.h that tools send and receive."""
import contextlib
import ipaddress
import json
import select
import socket
import struct
import time

HEADER = struct.Struct("=IHH")
UCRED = struct.Struct("=iII")
MAGIC = 0x7572000b  # as in pmd/proto/proto.h: the last byte is the version of the protocol
REFUSED, TOOL, TEXT, END, PACKET = 3, 9, 10, 11, 48
MESSAGE_MAX = 1 << 16
ANY_VERSION = (TEXT, END)  # these and REFUSED have the same form in all versions
PATIENCE = 3.0  # seconds for a message of an answer; for all answers where several are asked at a time
ANSWER_SECONDS = 10.0  # for the whole answer where one is asked
AT_A_TIME = 128  # processes that are asked
ANSWER_MAX = 1 << 20  # bytes; an honest answer fits into a socket's queue: who answers does not wait for who asks
LAST_MESSAGES = 64  # that are read of a process whose time has passed: more than a queue holds of 32 KiB each


class UroceError(Exception):
    """An error message for the user: one sentence. `code` is the command's exit code."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code


class Silent(UroceError):
    """Nobody answers."""


class Refused(Silent):
    """The device belongs to another user, the sentence says to whom; or it speaks another version of the protocol."""


def closed_sentence(who):
    return f"{who} ended the connection without an answer; it may be of another version, or another user's"


def silent_sentence(who):
    return f"{who} does not answer; its process is stopped, or neither polls nor has a thread (UROCE_PROGRESS=inline)"


def endless_sentence(who):
    return f"{who} does not come to an end with its answer"


def refused_sentence(who, data):
    """@param data struct proto_refused: an errno and a sentence"""
    return clean(data[4:].split(b"\0")[0].decode(errors="replace")) or f"{who} refuses to answer"


@contextlib.contextmanager
def understood(who):
    """An answer that lacks something, or has something else in its place, is an error of that process alone: any
    process can take a name that belongs to uroce, and other releases may give other answers."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
            struct.error) as error:
        raise UroceError(f"{who} gave an answer that this command does not understand; it may be of another version") \
            from error


def fits(value, shape):
    """Whether an answer has all that the shape has: a dict of shapes, a list with the shape of each of its entries, or
    the type of a value."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and fits(value[key], of) for key, of in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(entry, shape[0]) for entry in value)
    return isinstance(value, shape)


def checked(answer, who, shape):
    """@return the answer of ask_all; UroceError if it is one, or lacks something"""
    if isinstance(answer, UroceError):
        raise answer
    with understood(who):
        if not fits(answer, shape):
            raise ValueError
    return answer


def daemon_name(gid):
    return f"\0uroce/{gid}"


def guard_name(key):
    return f"\0uroce/{key}/guard"


def function_name(key, number):
    return f"\0uroce/{key}/{number}"


def gid_text(text):
    """@return an address in the daemons' notation; None if it is not an address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return socket.inet_ntop(socket.AF_INET6, address.packed) if address.version == 6 and not mapped else \
        str(mapped or address)


def place_of(pid):
    return f"pid {pid}" if pid else "in another container"


def clean(text):
    """@return text from other processes, made safe for a terminal."""
    text = str(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def cleaned(value):
    """@return JSON from other processes, all its texts made safe for a terminal."""
    if isinstance(value, dict):
        return {clean(key): cleaned(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [cleaned(entry) for entry in value]
    return clean(value) if isinstance(value, str) else value


class Connection:
    """A connection to a daemon or a function. `who` is for messages to the user."""

    def __init__(self, name, who, patience=PATIENCE):
        self.who = who
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self.sock.settimeout(patience)
        try:
            self.sock.connect(name.encode())
        except (OSError, TimeoutError) as error:
            self.sock.close()
            raise Silent(f"{who} cannot be reached: {error.strerror or 'it does not answer'}", 3) from error

    @property
    def pid(self):
        """@return the PID of the listening process; None if it is in a PID namespace (a container) that we cannot
        see."""
        credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
        return UCRED.unpack(credentials)[0] or None

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, text):
        data = text.encode()
        try:
            self.sock.send(HEADER.pack(MAGIC, TOOL, len(data)) + data, socket.MSG_NOSIGNAL)
        except BrokenPipeError:
            pass  # it may have sent a reason
        except (OSError, TimeoutError) as error:
            raise Silent(f"{self.who} has gone", 3) from error

    def receive(self):
        """@return (type, payload), or None at the end. BlockingIOError when the socket is non-blocking. Refused if the
        message is one of another version."""
        try:
            try:
                data = self.sock.recv(MESSAGE_MAX)
            except ConnectionResetError:  # precedes the final message of a process that has not read everything
                data = self.sock.recv(MESSAGE_MAX)
        except BlockingIOError:
            raise
        except TimeoutError as error:
            raise Silent(silent_sentence(self.who)) from error
        except OSError:
            return None
        if len(data) < HEADER.size:
            return None
        magic, kind, length = HEADER.unpack_from(data)
        ours, data = magic | 0xff == MAGIC | 0xff and length == len(data) - HEADER.size, data[HEADER.size:]
        if not ours or magic != MAGIC and kind not in ANY_VERSION:
            said = refused_sentence("", data) if ours and kind == REFUSED and data[4:5] > b"\0" else ""
            raise Refused(f"{self.who} speaks another version of the protocol" +
                          (f" and says: {said}" if said else "; use the uroce command that belongs to it"))
        return kind, data

    def ask(self, text):
        """@return the answer's JSON, decoded."""
        self.send(text)
        return self.answer()

    def answer(self):
        answer = Answer(self.who)
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            message = self.receive()
            if message is None:
                raise Silent(closed_sentence(self.who), 3)
            if answer.take(*message):
                return answer.value
        raise Silent(endless_sentence(self.who))


class Answer:
    """Made of the messages that have come so far."""

    def __init__(self, who):
        self.who, self.text, self.value, self.begun = who, bytearray(), None, False

    def take(self, kind, data):
        """@return whether the answer is complete: its JSON, decoded, is in `value` then"""
        self.begun = True
        if kind == TEXT:
            self.text += data
            if len(self.text) > ANSWER_MAX:
                raise UroceError(f"{self.who} gives too long an answer")
        elif kind == REFUSED:
            raise Refused(refused_sentence(self.who, data), 3)
        if kind != END:
            return False
        with understood(self.who):
            status = struct.unpack("=i", data)[0]
            text = self.text.decode(errors="replace")
            self.value = cleaned(json.loads(text)) if status == 0 and text.strip() else {}
        self.text = bytearray()
        if status != 0:
            raise UroceError(f"{self.who}: {clean(text).strip()}")
        return True


class Inquiry:
    """Asks several processes at a time, so that one that is slow or silent costs the others nothing. Connecting never
    waits: the queue of a process that does not accept is full or not."""

    def __init__(self, seconds, more, limit):
        self.seconds, self.more, self.poll = seconds, more, select.poll()
        self.limit = time.monotonic() + limit if limit else float("inf")
        self.waiting = {}  # {descriptor: (key, Connection, Answer, end of its time)}
        self.found = {}

    def begin(self, key, connect, text):
        connection = None
        try:
            connection = connect()
            if not connection:
                return
            connection.sock.setblocking(False)
            connection.send(text)
        except UroceError as error:
            self.found[key] = error
            if connection:
                connection.close()
            return
        number = connection.sock.fileno()
        self.poll.register(number, select.POLLIN)
        self.wait(number, key, connection)

    def wait(self, number, key, connection):
        end = min(time.monotonic() + self.seconds, self.limit)
        self.waiting[number] = (key, connection, Answer(connection.who), end)

    def end(self, number, result):
        key, connection, _, _ = self.waiting.pop(number)
        self.poll.unregister(number)
        connection.close()
        self.found[key] = result

    def take(self, number):
        """One message of each process in turn: one that floods keeps nobody from being heard. @return whether there
        was one"""
        key, connection, answer, _ = self.waiting[number]
        try:
            message = connection.receive()
            if message is None:
                raise Silent(closed_sentence(connection.who), 3)
            if answer.take(*message):
                text = self.more(key, answer.value) if self.more else None
                if text:
                    connection.send(text)
                    self.wait(number, key, connection)
                else:
                    self.end(number, answer.value)
        except BlockingIOError:
            return False
        except UroceError as error:
            self.end(number, error)
        return True

    def take_last(self, number):
        """Time may have passed because others' answers took it: what has come meanwhile counts. @return whether that
        was all"""
        for _ in range(LAST_MESSAGES):
            if number not in self.waiting or not self.take(number):
                break
        return number not in self.waiting

    def turn(self):
        """Wait until somebody speaks or the first has had its time."""
        first = min(end for *_, end in self.waiting.values())
        for number, _ in self.poll.poll(max(0.0, first - time.monotonic()) * 1000):
            self.take(number)
        now = time.monotonic()
        for number, (_, connection, answer, end) in list(self.waiting.items()):
            if now >= end and not self.take_last(number):
                sentence = endless_sentence if answer.begun else silent_sentence
                self.end(number, Silent(sentence(connection.who)))


def ask_all(questions, seconds, more=None, limit=None):
    """Ask several processes at a time; up to AT_A_TIME of them, all answers have come after these seconds.
    @param questions: yields (key, what returns a Connection or None, text)
    @param more: takes a key and an answer, and returns what else to ask this process, for which it has as many seconds
        again; None: it has told all
    @param limit: seconds for everything
    @return {key: the answer's JSON, decoded, or a UroceError}; nothing for a key without a connection
    """
    inquiry, questions, left = Inquiry(seconds, more, limit), iter(questions), True
    while left or inquiry.waiting:
        while left and len(inquiry.waiting) < AT_A_TIME:
            question = next(questions, None)
            left = question is not None
            if left:
                inquiry.begin(*question)
        if inquiry.waiting:
            inquiry.turn()
    return inquiry.found
