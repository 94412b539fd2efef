# SPDX-License-Identifier: BSD-3-Clause
"""Carries frames between a guest and the tap of this namespace, and corrects rdma_rxe's ICRC of FLUSH.

rdma_rxe's table of opcodes does not say where the payload of a FLUSH begins, since it has none. So rxe takes all of the
packet from the BTH on for payload, and its ICRC covers the headers a second time, with no field masked. Two rxe
understand each other; any other NIC drops such a packet, and rxe drops theirs. Here the ICRC of a FLUSH becomes the
right one on the way from rxe, and rxe's on the way to it, until rxe is seen to send a right one.
"""
import fcntl
import os
import socket
import struct
import threading
import zlib

IFF_TAP, IFF_NO_PI, TUNSETIFF = 2, 0x1000, 0x400454CA
IP, UDP, BTH, REST = 14, 34, 42, 54  # offsets in a frame
ROCE_PORT, FLUSH = 4791, 0x1C


def is_flush(frame):
    return (len(frame) >= REST and frame[12:15] == b"\x08\x00\x45" and frame[IP + 9] == 17 and
            frame[UDP + 2:UDP + 4] == struct.pack(">H", ROCE_PORT) and frame[BTH] == FLUSH)


def icrc(frame, end, as_rxe):
    """@return the ICRC of a packet that ends before the offset `end`"""
    head = bytearray(frame[IP:REST])
    head[1] = head[8] = 0xff                             # TOS, TTL
    head[10:12] = head[26:28] = b"\xff\xff"              # checksums of IP and UDP
    head[32] = 0xff                                      # the reserved byte of the BTH
    again = frame[BTH:end] if as_rxe else b""
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + head + frame[REST:end] + again))


class Relay:
    def __init__(self, tap):
        self.here, self.guests = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # one datagram is one frame
        self.tap = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH22x", tap.encode(), IFF_TAP | IFF_NO_PI))
        self.right, self.corrected, self.spoiled, self.refused = 0, 0, 0, 0

    def start(self):
        for carry in (self.from_guest, self.to_guest):
            threading.Thread(target=carry, daemon=True).start()

    def from_guest(self):
        while frame := self.here.recv(65536):
            try:
                os.write(self.tap, self.translated(frame, False) if is_flush(frame) else frame)
            except OSError:
                self.refused += 1  # as a frame that gets lost

    def to_guest(self):
        while frame := os.read(self.tap, 65536):
            try:
                self.here.send(self.translated(frame, True) if is_flush(frame) else frame)
            except OSError:
                return  # the guest has ended

    def translated(self, frame, to_rxe):
        end = IP + struct.unpack_from(">H", frame, IP + 2)[0] - 4
        found = frame[end:end + 4]
        if found == icrc(frame, end, False):
            self.right += not to_rxe
            if not to_rxe or self.right:
                return frame
            self.spoiled += 1
        elif not to_rxe and found == icrc(frame, end, True):
            self.corrected += 1
        else:
            return frame
        without_checksum = frame[:UDP + 6] + b"\0\0" + frame[UDP + 8:end]
        return without_checksum + icrc(frame, end, to_rxe) + frame[end + 4:]
