#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes own.txt: has the simulator send packets, and takes one of each opcode over IPv4, and one of each service over
IPv6: the shortest one with a payload, if any has one. Needed only when the wire format is changed on purpose.

    tests/vectors/own.py BUILD >tests/vectors/own.txt"""
import os
import subprocess
import sys

HEAD = """\
# One packet of each opcode, sent by uroce in the simulator (the first three made of such packets), and one of each
# service over IPv6. They freeze the wire format: own.c says how they are checked, own.py makes this file.

"""
PLAIN = ["--lossless=0", "--mtu=1", "--errors=0", "--max_len=700", "--ops=400"]
# Each option makes the mix of operations another one.
RUNS = [["--uc_pairs=1", "--ud_qps=2"], ["--xrc_pairs=2", "--places=300"], ["--places=500"], ["--masked=500"],
        ["--elements=500"], ["--windows=1"], ["--xrc_pairs=2", "--windows=1", "--rc_pairs=0"], ["--tag_pairs=1"]]


def packets(build):
    for v6 in (0, 1):
        for run in RUNS:
            done = subprocess.run([os.path.join(build, "tests", "sim", "uroce_sim"), "--seed", "1", "--seeds", "12",
                                   "--packets", f"--ipv6={v6}", *PLAIN, *run], capture_output=True, text=True,
                                  check=True)
            for line in done.stdout.splitlines():
                if line.startswith("packet "):
                    yield bytes.fromhex(line.split()[1])


def main():
    best = {}
    for data in packets(sys.argv[1]):
        v4 = data[0] >> 4 == 4
        bth = 28 if v4 else 48
        key = (not v4, data[bth] if v4 else data[bth] >> 5)
        # Lengths of headers do not vary for an opcode, so whichever is longer than the shortest has a payload.
        best.setdefault(key, set()).add(data)
    # The simulator sends no SEND LAST with invalidate, and none on XRC.
    chosen = ["+" + min(best[False, opcode], key=lambda data: (len(data), data)).hex() for opcode in (2, 0xa2, 0xa4)]
    for key, found in sorted(best.items()):
        shortest = min(map(len, found))
        with_more = [data for data in found if len(data) > shortest]
        chosen.append(min(with_more or found, key=lambda data: (len(data), data)).hex())
    done = subprocess.run([os.path.join(sys.argv[1], "tests", "vectors", "own"), "--describe"], text=True, check=True,
                          input="".join(line + "\n" for line in chosen), capture_output=True)
    sys.stdout.write(HEAD + done.stdout.rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
