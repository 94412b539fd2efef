# SPDX-License-Identifier: BSD-3-Clause
"""Writes pcapng files (draft-ietf-opsawg-pcapng): one section, interfaces as they appear, raw IP packets."""
import struct

LINKTYPE_RAW = 101
SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6
BYTE_ORDER = 0x1A2B3C4D
INBOUND, OUTBOUND = 1, 2  # of epb_flags


def padded(data):
    return data + bytes(-len(data) % 4)


def option(code, data):
    return struct.pack("=HH", code, len(data)) + padded(data)


def options(*pairs):
    return b"".join(option(code, data) for code, data in pairs) + option(0, b"")


class Writer:
    def __init__(self, out, program):
        self.out, self.interfaces, self.packets = out, 0, 0
        self.block(SECTION, struct.pack("=IHHq", BYTE_ORDER, 1, 0, -1) + options((4, program.encode())))

    def block(self, kind, body):
        length = struct.pack("=I", len(body) + 12)
        self.out.write(struct.pack("=I", kind) + length + body + length)

    def interface(self, name, description, snaplen):
        """@return the number of a new interface."""
        self.block(INTERFACE, struct.pack("=HHI", LINKTYPE_RAW, 0, snaplen)
                   + options((2, name.encode()), (3, description.encode()), (9, bytes([9]))))
        self.interfaces += 1
        return self.interfaces - 1

    def packet(self, interface, time_ns, direction, length, data):
        self.block(PACKET, struct.pack("=IIIII", interface, time_ns >> 32, time_ns & 0xffffffff, len(data), length)
                   + padded(data) + options((2, struct.pack("=I", direction))))
        self.packets += 1

    def statistics(self, interface, time_ns, seen, lost):
        """The end of an interface: packets it saw, and how many of them the capture lost."""
        self.block(STATISTICS, struct.pack("=III", interface, time_ns >> 32, time_ns & 0xffffffff)
                   + options((4, struct.pack("=Q", seen)), (5, struct.pack("=Q", lost)),
                             (8, struct.pack("=Q", seen - lost))))

    def flush(self):
        self.out.flush()
