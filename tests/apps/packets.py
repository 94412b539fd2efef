#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names the RoCEv2 packets of a capture: the first of each kind, and how many there were.

usage: packets.py FILE.pcap

Packets that the kernel segments later (UDP_SEGMENT) appear as one packet in a capture; a line at the end says so.
"""
import struct
import sys

RC = ("SEND FIRST", "SEND MIDDLE", "SEND LAST", "SEND LAST imm", "SEND ONLY", "SEND ONLY imm", "WRITE FIRST",
      "WRITE MIDDLE", "WRITE LAST", "WRITE LAST imm", "WRITE ONLY", "WRITE ONLY imm", "READ REQUEST",
      "READ RESPONSE FIRST", "READ RESPONSE MIDDLE", "READ RESPONSE LAST", "READ RESPONSE ONLY", "ACK", "ATOMIC ACK",
      "COMPARE SWAP", "FETCH ADD", "reserved", "SEND LAST inv", "SEND ONLY inv")
LARGEST = 4160  # longest IP packet with one RoCEv2 packet
SERVICES = {0: "RC", 1: "UC", 3: "UD"}
EXTENDED = {0xc0: "MASKED COMPARE SWAP", 0xc1: "MASKED FETCH ADD", 0xc2: "EXTENDED ATOMIC ACK",
            0xc4: "ELEMENTS", 0xc5: "FETCH ELEMENTS", 0xc6: "ELEMENTS ACK"}


def frames(path):
    with open(path, "rb") as f:
        data = f.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack(order + "II", data[at + 8:at + 16])
        yield data[at + 16:at + 16 + captured], length
        at += 16 + captured


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    kinds, runs = {}, 0
    for frame, length in frames(sys.argv[1]):
        if frame[12:14] != b"\x08\x00" or len(frame) < 54:
            continue
        ip, bth = frame[14:34], frame[42:54]
        opcode, _, _, qpn, psn = struct.unpack(">BBHII", bth)
        name = RC[opcode & 31] if opcode & 31 < len(RC) else f"{opcode & 31:#x}"
        name = EXTENDED.get(opcode, SERVICES.get(opcode >> 5, "?") + " " + name)
        if name not in kinds:
            source, target = (".".join(map(str, ip[i:i + 4])) for i in (12, 16))
            kinds[name] = [f"{source} > {target}  {name:23} QP {qpn & 0xffffff:#08x} PSN {psn & 0xffffff:#08x} "
                           f"{'AckReq' if psn >> 31 else '      '} {length - 14} B", 0]
        kinds[name][1] += 1
        runs += length - 14 > LARGEST
    for line, count in kinds.values():
        print(f"{line:95} {count:6} x")
    if runs:
        print(f"{runs} of them, larger than {LARGEST} B, are runs of packets that the kernel cut up after the capture")


if __name__ == "__main__":
    main()
