#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A real device beside ours. uroce's drop-in library opens the real libibverbs for the devices of the kernel: in a
virtual machine with rdma_rxe, rdma-core's programs show both devices and exchange messages over each.

Needs root (a tap, a namespace) and, once, the network for the kernel's package; otherwise it skips with a message.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import entry  # noqa: E402
import harness  # noqa: E402
import initramfs  # noqa: E402

PINGPONGS = "ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong".split()
# rdma_rxe has taken RoCE's port in the guest's first network namespace; its device is visible in all of them.
NAMESPACE = "unshare -n /bin/sh -c 'export LD_LIBRARY_PATH=/uroce UROCE_UROCED=/bin/uroced; /bin/ip link set lo up; {}'"
# The client tries once to connect to the server's TCP port, 18515. If the server ends first, it is not started.
LISTENING = 'grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6'
PAIR = ("{program} -d {device} -g {gid} -n 100 {more} > /tmp/server & "
        "until " + LISTENING + "; do kill -0 $! || exit 1; sleep 0.1; done; "
        "{program} -d {device} -g {gid} -n 100 {more} 127.0.0.1 && wait $!")


def inside(folder, elf, image):
    tally = harness.Tally("beside")
    with entry.booted(folder, elf, image) as guest:
        code, said = guest.finish(guest.start(NAMESPACE.format("ibv_devinfo")), 60)
        tally.result("ibv_devinfo shows both devices", code == 0 and "\turoce0\n" in said and "\trxe0\n" in said,
                     f"exit code {code}", said)
        for device, gid in ("rxe0", 1), ("uroce0", 0):
            for program in PINGPONGS:
                more = "-s 1024" if program == "ibv_ud_pingpong" else ""
                script = PAIR.format(program=program, device=device, gid=gid, more=more)
                code, said = guest.finish(guest.start(NAMESPACE.format(script)), 60)
                tally.result(f"{program} over {device}", code == 0 and " iters in " in said, f"exit code {code}", said)
    tally.finish()


def main():
    args = harness.options(__doc__)
    try:
        programs = [initramfs.program_path(name) for name in PINGPONGS]
    except initramfs.Missing as reason:
        harness.skip(str(reason))
    library = entry.built("verbs_shim", "ibverbs", "dropin", "libibverbs.so.1")
    entry.enter(__file__, args.build, "beside.gz", inside, [*programs, entry.built("pmd", "uroced")],
                libraries=[("uroce/libibverbs.so.1", library)])


if __name__ == "__main__":
    main()
