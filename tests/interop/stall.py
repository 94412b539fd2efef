# SPDX-License-Identifier: BSD-3-Clause
"""Tells whether rdma_rxe has forgotten its own requests, which no peer can mend.

An RC requester with unacknowledged requests gets responses, or it sends: the rest of the requests or, after its ACK
timeout, all of them again. In Debian 12's kernel, rxe's requester and completer are two tasklets. When the requester
finds its window of 128 packets full, it notes that it waits for an ACK. If meanwhile, on another CPU, the completer has
processed the ACK of all these packets, nothing wakes the requester any more; nor does the ACK timer, since all that was
sent is acknowledged. In such a stall, rxe's sq-psn is the PSN that uroce expects, and rxe has counted no retry.
"""
import re
import threading
import time

SILENCE = 20  # seconds: nine of the longest ACK timeouts of the cases
FEW = 3       # packets in that time do not count: ARP, and TCP for the guest's shell
UNFINISHED = re.compile(r"verify: rc .*: (\d+) requests and \d+ receives did not complete")


class Watch:
    """Measures for how long nothing goes to the guest or comes from it."""

    def __init__(self, interface):
        self.interface, self.longest, self.over = interface, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def packets(self):
        with open("/proc/net/dev") as f:
            columns = next(line.split() for line in f if line.strip().startswith(self.interface + ":"))
        return int(columns[2]) + int(columns[10])  # both directions

    def run(self):
        seen, since = self.packets(), time.monotonic()
        while not self.over.wait(0.5):
            now = self.packets()
            if now > seen + FEW:
                seen, since = now, time.monotonic()
            self.longest = max(self.longest, time.monotonic() - since)

    def end(self, host_output, guest_output):
        """@return whether rxe says that requests are unfinished, uroce not that its are, and neither sent for long"""
        self.over.set()
        self.thread.join()
        guest, host = UNFINISHED.search(guest_output), UNFINISHED.search(host_output)
        return bool(self.longest > SILENCE and guest and int(guest[1]) > 0 and not (host and int(host[1]) > 0))
