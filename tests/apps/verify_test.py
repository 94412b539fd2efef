#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Moves random data with every operation between two processes over uroce and checks every byte (see verify/)."""
import harness

CASES = [
    # name, options of the client
    ("all operations, both directions at once", "-q 2 -n 8"),
    ("one QP, client to server", "-q 1 -n 4 -D client"),
    ("one QP, server to client", "-q 1 -n 4 -D server"),
    ("events", "-q 2 -n 8 -e"),
    ("events, MTU 4096", "-q 2 -n 8 -e -m 4096"),
    ("shared receive queue", "-t rc -q 5 -n 8 -S"),
    ("shared receive queue, events", "-t rc -q 5 -n 8 -S -e"),
    ("16 QPs", "-q 16 -n 16 -z 0,1,100,1025,65539"),
    ("16 QPs, events", "-q 16 -n 16 -e -z 0,1,100,1025,65539"),
    ("MTU 256", "-q 3 -n 6 -m 256"),
    ("MTU 512", "-q 2 -n 6 -m 512"),
    ("MTU 2048", "-q 2 -n 6 -m 2048"),
    ("MTU 4096", "-q 3 -n 6 -m 4096"),
    ("32 messages deep", "-t rc -q 4 -n 32 -z 1,8,1024,4000"),
    ("errors", "-t rc -o errors"),
]
BRIEF = ("all operations, both directions at once", "events", "shared receive queue, events", "errors")


def main():
    args = harness.options(__doc__, ("--brief", "a few cases, for builds with sanitizers"))
    tally = harness.Tally("verify")
    sides = harness.loopback_sides()
    program = harness.verify_path()
    for number, (name, extra) in enumerate(CASES):
        if args.brief and name not in BRIEF:
            continue
        ok, reason, *outputs = harness.run_pair(
            [program, "-s", "-p", "PORT"],
            [program, "-c", sides[0].host, "-p", "PORT", "-r", str(number + 1), *extra.split(),
             "-w", str(20000 * harness.SLOWER),
             *(["-T", "18"] if args.brief else [])],
            sides, 240 if args.brief else 120)
        tally.result(name, ok, reason, *outputs)
    tally.finish()


if __name__ == "__main__":
    main()
