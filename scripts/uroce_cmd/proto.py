# SPDX-License-Identifier: BSD-3-Clause
"""Talks to daemons and functions: those messages of pmd/proto/proto.h that tools send and receive."""
import ipaddress
import json
import socket
import struct

HEADER = struct.Struct("=IHH")
UCRED = struct.Struct("=iII")
MAGIC = 0x75720008  # as in pmd/proto/proto.h
REFUSED, TOOL, TEXT, END, PACKET = 3, 9, 10, 11, 48
MESSAGE_MAX = 1 << 16
PATIENCE = 3.0  # seconds for an answer


class UroceError(Exception):
    """An error message for the user: one sentence. `code` is the command's exit code."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code


class Silent(UroceError):
    """Nobody answers."""


class Refused(Silent):
    """The device belongs to another user, the sentence says to whom; or it speaks another version of the protocol."""


def daemon_name(gid):
    return f"\0uroce/{gid}"


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
    return "".join(c if c.isprintable() else "?" for c in str(text))


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
            self.sock.send(HEADER.pack(MAGIC, TOOL, len(data)) + data)
        except BrokenPipeError:
            pass  # it may have sent a reason
        except (OSError, TimeoutError) as error:
            raise Silent(f"{self.who} has gone", 3) from error

    def receive(self):
        """@return (type, payload), or None at the end. BlockingIOError when the socket is non-blocking."""
        try:
            try:
                data = self.sock.recv(MESSAGE_MAX)
            except ConnectionResetError:  # precedes the final message of a process that has not read everything
                data = self.sock.recv(MESSAGE_MAX)
        except BlockingIOError:
            raise
        except TimeoutError as error:
            raise Silent(f"{self.who} does not answer; its process is stopped, or neither polls nor has a thread "
                         "(UROCE_PROGRESS=inline)") from error
        except OSError:
            return None
        if len(data) < HEADER.size:
            return None
        magic, kind, length = HEADER.unpack_from(data)
        if magic != MAGIC or length != len(data) - HEADER.size:
            raise Refused(f"{self.who} speaks another version of the protocol; use the uroce command that belongs "
                          "to it")
        return kind, data[HEADER.size:]

    def ask(self, text):
        """@return the answer's JSON, decoded."""
        self.send(text)
        return self.answer()

    def answer(self):
        parts = []
        while True:
            message = self.receive()
            if message is None:
                raise Silent(f"{self.who} ended the connection without an answer; are you the user who runs it?", 3)
            kind, data = message
            if kind == TEXT:
                parts.append(data)
            elif kind == END:
                break
            elif kind == REFUSED:  # struct proto_refused: an errno and a sentence
                raise Refused(clean(data[4:].split(b"\0")[0].decode(errors="replace")), 3)
        text = b"".join(parts).decode(errors="replace")
        if struct.unpack("=i", data[:4])[0] != 0:
            raise UroceError(f"{self.who}: {clean(text).strip()}")
        try:
            return json.loads(text) if text.strip() else {}
        except ValueError as error:
            raise UroceError(f"{self.who} gave an invalid answer") from error
