#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Regions of real dma-bufs. Few machines have a driver that makes dma-bufs of host memory: Debian's kernels do from
Debian 13 on. So a virtual machine boots that kernel, and runs tests/shim/regions.c in it with uroce's library: it uses
buffers of udmabuf and of a dma-heap, where it skips elsewhere.

Needs root (a tap, a namespace) and, once, the network for Debian's packages; otherwise it skips with a message.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import entry  # noqa: E402
import harness  # noqa: E402

# In a network namespace of its own, because the guest's rdma_rxe has taken RoCE's port in the first one.
SCRIPT = ("unshare -n /bin/sh -c '/bin/ip link set lo up; "
          "LD_LIBRARY_PATH=/uroce UROCE_UROCED=/bin/uroced shim_regions'")
TESTS = ("dmabuf__of_udmabuf", "dmabuf__of_a_dma_heap", "dmabuf__a_part_is_used_by_its_own_addresses")


def inside(folder, elf, image):
    tally = harness.Tally("dmabuf")
    with entry.booted(folder, elf, image) as guest:
        print(guest.console_text().strip().splitlines()[-1], flush=True)
        code, said = guest.finish(guest.start(SCRIPT), 120)
        for name in TESTS:
            tally.result(name, f"[       OK ] {name}\n" in said, "did not pass", said)
        tally.result("the program ends well", code == 0, f"exit code {code}", said)
    tally.finish()


def main():
    args = harness.options(__doc__)
    entry.enter(__file__, args.build, "dmabuf.gz", inside,
                [entry.built("tests", "shim", "shim_regions"), entry.built("pmd", "uroced")], *entry.NEWER,
                [("uroce/libibverbs.so.1", entry.built("verbs_shim", "ibverbs", "dropin", "libibverbs.so.1"))])


if __name__ == "__main__":
    main()
