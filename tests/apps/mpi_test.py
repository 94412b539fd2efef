#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI over the libfabric provider: messages through its matching transport layer, one-sided operations through
messages (osc pt2pt) and through RMA and atomics (osc rdma). Without uroce-run, as a user of Open MPI would start it."""
import os

import harness

MESSAGES = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "uroce"]
RDMA = ["--mca", "osc", "rdma", "--mca", "btl", "self,ofi", "--mca", "btl_ofi_provider_include", "uroce"]
# Open MPI 4.1's btl ofi ends the job on an operation other than a sum. This makes it use compare and swap for all
# others.
BY_SWAPS = ["--mca", "osc_rdma_acc_use_amo", "0"]

# name, processes, Open MPI's arguments, the program's arguments
RUNS = (
    ("messages, 2 processes", 2, MESSAGES, ["messages", "truncation", "collectives"]),
    ("messages, 4 processes", 4, MESSAGES, ["messages", "truncation", "collectives"]),
    ("messages, 8 processes", 8, MESSAGES, ["messages", "truncation", "collectives"]),
    ("one-sided by messages, 4 processes", 4, MESSAGES + ["--mca", "osc", "pt2pt"], ["one-sided", "swap"]),
    ("one-sided by RMA, 2 processes", 2, MESSAGES + RDMA + BY_SWAPS, ["one-sided", "swap"]),
    ("one-sided by RMA, 4 processes", 4, MESSAGES + RDMA + BY_SWAPS, ["one-sided", "swap"]),
    ("one-sided by RMA, 8 processes", 8, MESSAGES + RDMA + BY_SWAPS, ["one-sided", "swap"]),
    ("one-sided by atomics, 4 processes", 4, MESSAGES + RDMA, ["one-sided", "swap", "sums"]),
    ("one-sided by RMA, memory of MPI's, 4 processes", 4, MESSAGES + RDMA, ["one-sided", "allocated"]),
)


def environment(build, ring):
    """For Open MPI, whose permission to run as root must be given in variables, and for the provider: its path, its
    device, and the device's daemon."""
    where = os.environ.get("FI_PROVIDER_PATH", os.path.join(build, "verbs_shim", "libfabric"))
    env = {"FI_PROVIDER_PATH": where, "UROCE_DEVICES": harness.loopback_sides()[0].address,
           "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if not ring:
        env["UROCE_RING"] = "off"
    return env


def job(tally, name, processes, mca, arguments, env):
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "mpi_check")
    argv = ["mpirun.openmpi", "--oversubscribe", "-np", str(processes), "--mca", "mpi_yield_when_idle", "1",
            "--mca", "oob_tcp_if_include", "lo", *mca, program, *arguments]
    process = harness.Process(argv, None, env)
    tally.cases(name, process.wait(240), process.output())


def main():
    harness.options(__doc__)
    harness.need_programs("mpirun.openmpi")
    build = os.environ["UROCE_BUILD"]
    if not os.path.exists(os.path.join(build, "tests", "apps", "mpi_check")):
        harness.skip("mpi_check was not built: libopenmpi-dev was not installed then")
    tally = harness.Tally("mpi")
    for run in RUNS:
        job(tally, *run, environment(build, True))
    for run in (RUNS[0], RUNS[3], RUNS[4]):
        job(tally, "udp, " + run[0], *run[1:], environment(build, False))
    tally.finish()


if __name__ == "__main__":
    main()
