#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes with connections of the connection manager are killed at random moments: while they connect, accept,
exchange data and disconnect. Debian's rping on both sides. Peers get a DREQ within a second, as from a kernel
(judged in long runs only); ports are free at once; the daemon's death disturbs nobody."""
import random
import time

import cm
import harness
import mesh
from cm import FOREVER, Failure, PATIENCE_S, Place

PORT = 7174
GONE_S = 1.0  # a connection to a process that was killed ends within this time
# A machine that runs other things may stall the test itself: so many rounds may take longer than GONE_S. A short run
# prints only how many did.
LATE, LONG_RUN = 0.05, 50
MIXED = 0.025  # the share of rounds in which rping may mix up two requests; in a short run it may in one
# What rping's server says after it has mixed up two requests: it sets up a connection twice, or accepts it twice.
MIXED_UP = ("rdma_create_qp: Invalid argument", "rdma_accept: Invalid argument")


def moment(rng):
    """A random moment in the life of a client: connecting takes some 10 ms, the process itself starts in 50."""
    time.sleep(rng.choice((0.03, 0.12, 0.3)) * rng.random() + rng.choice((0, 0.05)))


def client_dies(place, rng):
    """@return how long the server kept the connection"""
    client = place.client(rng.choice((3, FOREVER)))
    moment(rng)
    client.kill()
    killed = time.monotonic()
    if not harness.until(PATIENCE_S, place.has_none):
        raise Failure(f"the server keeps connections: {place.states()}")
    late = time.monotonic() - killed
    place.works()
    return late


def server_dies(place, rng):
    """@return how long the client went on; None if it was not connected yet, because then it repeats its request"""
    client = place.client(FOREVER, "-v")
    moment(rng)
    place.server.kill()
    killed = time.monotonic()
    if client.wait(PATIENCE_S) is None:
        raise Failure("the client does not notice that the server is gone")
    late = time.monotonic() - killed if cm.pings(client) > 0 else None
    place.start_server()
    place.works()
    return late


def both_die(place, rng):
    client = place.client(FOREVER)
    moment(rng)
    place.server.kill()
    client.kill()
    place.start_server()
    place.works()
    return None


def daemon_dies(place, rng):
    """A connection lives on, and new ones are made, before and after the next daemon comes. rping 44's server may mix
    up two requests that come at once (rdma-core has mended that since): it loses one of them, and the other gets an
    error when it is set up a second time. Such a round is not judged, but few may end in this way."""
    server, before = place.server, len(place.server.output())
    client = place.client(FOREVER)
    try:
        daemon_dies_beside(client, place, rng)
    except Failure as failure:
        said = place.server.output()[before if place.server is server else 0:]
        if place.may_mix == 0 or not any(words in said for words in MIXED_UP):
            raise
        place.may_mix -= 1
        print(f"not judged: rping has mixed up two requests: {failure}", flush=True)
        client.kill()
        place.server.kill()
        place.start_server()
        place.works()
    finally:
        client.kill()


def daemon_dies_beside(client, place, rng):
    moment(rng)
    # The client, which starts its device's daemon, may not have done so yet.
    if not harness.until(PATIENCE_S, lambda: cm.kill_daemon(place.client_side)):
        raise Failure("the client's device has no daemon")
    if place.server_side is not place.client_side:
        cm.start_daemon(place.server_side, mesh.libraries(False))  # nobody opens this device, which would start one
    place.works()
    if not cm.goes_on(place.client_side, client.pid):
        raise Failure(f"the first client does not go on: {client.output()}")
    client.kill()
    if not harness.until(PATIENCE_S, place.has_none):
        raise Failure(f"the server keeps connections: {place.states()}")
    place.works()


def series(tally, name, place, rounds, one_round):
    rng, took, started = random.Random(rounds), [], time.monotonic()
    number = 0
    may_mix = place.may_mix = max(1, int(MIXED * rounds))
    try:
        place.start_server()
        place.works()
        for number in range(rounds):
            took.append(one_round(place, rng))
        # A client that was killed in the last round may be rejected as late as this.
        over = place.was_rejected if one_round is not server_dies else lambda: False
        if not harness.until(PATIENCE_S, lambda: (place.listens() or over()) and place.has_none() and
                             "timewait" not in place.states()):
            raise Failure(f"the server keeps {place.states()}; its exit code: {place.server.popen.poll()}")
    except Failure as failure:
        tally.result(f"{name}, {number + 1} of {rounds}", False, str(failure), place.server.output())
        return
    finally:
        place.server.kill()
    judged = rounds - (may_mix - place.may_mix)
    tally.result(f"{name}: {judged} times in {time.monotonic() - started:.0f} s", True)
    timed = [seconds for seconds in took if seconds is not None]
    late = sum(seconds > GONE_S for seconds in timed)
    if one_round in (client_dies, server_dies):
        said = f"{name}: the other side notices ({late} of {len(timed)} times later than {GONE_S:g} s)"
        if rounds >= LONG_RUN:
            tally.result(said, timed and late <= LATE * len(timed))
        else:
            print(said, flush=True)


def main():
    args = harness.options(__doc__, ("--rounds", "how often each dies", 200))
    harness.need_programs("rping")
    tally = harness.Tally("cm_kill")
    for how, sides, env in (("shared memory", harness.one_device_sides(15), {}),
                            ("UDP", harness.one_device_sides(15), cm.UDP),
                            ("two devices", harness.loopback_sides(16), {})):
        for name, one_round in (("client", client_dies), ("server", server_dies), ("both", both_die),
                                ("uroced", daemon_dies)):
            series(tally, f"kill -9 {name}, {how}", Place(sides, env, PORT), args.rounds, one_round)
    tally.finish()


if __name__ == "__main__":
    main()
