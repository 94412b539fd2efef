# SPDX-License-Identifier: BSD-3-Clause
"""Tells whether rdma_rxe has forgotten its own requests, which no peer can mend.

An RC requester whose requests are not acknowledged has to send: the rest of them, or after its ACK timeout all of them
again. In Debian 12's kernel, rxe's requester and completer are two tasklets. When the requester finds its window of
128 packets full, it notes that it waits for an ACK. If meanwhile, on another CPU, the completer has processed the ACK
of all these packets, nothing wakes the requester any more; nor does the ACK timer, since all that was sent is
acknowledged. In such a stall, rxe's sq-psn is the PSN that uroce expects, and rxe has counted no retry.
"""
import re
import threading
import time

SILENCE = 20  # seconds, far more than the longest ACK timeout of the cases
FEW = 10      # packets: ARP, and TCP for the guest's shell
UNFINISHED = re.compile(r"verify: rc .*: (\d+) requests and \d+ receives did not complete")


def unfinished(output):
    """@return the number of requests of one side that did not complete"""
    found = UNFINISHED.search(output)
    return int(found[1]) if found else 0


class Watch:
    """Measures for how long the guest sends nothing."""

    def __init__(self, interface):
        self.interface, self.longest, self.over = interface, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def packets(self):
        with open("/proc/net/dev") as f:
            return next(int(line.split()[2]) for line in f if line.strip().startswith(self.interface + ":"))

    def run(self):
        seen, since = self.packets(), time.monotonic()
        while not self.over.wait(0.5):
            now = self.packets()
            if now > seen + FEW:
                seen, since = now, time.monotonic()
            self.longest = max(self.longest, time.monotonic() - since)

    def end(self, host_output, guest_output):
        """@return whether requests of rxe are unfinished, none of uroce's, and rxe has sent nothing for long"""
        self.over.set()
        self.thread.join()
        return self.longest > SILENCE and unfinished(guest_output) > 0 and unfinished(host_output) == 0
