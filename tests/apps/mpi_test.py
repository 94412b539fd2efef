#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI over the libfabric provider: messages through its matching transport layer, one-sided operations through
messages (osc pt2pt) and through RMA and atomics (osc rdma). Without uroce-run, as a user of Open MPI would start it."""
import os
import re
import subprocess

import harness

MESSAGES = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "uroce"]
RDMA = ["--mca", "osc", "rdma", "--mca", "btl", "self,ofi", "--mca", "btl_ofi_provider_include", "uroce"]
# Open MPI 5 has no osc pt2pt, and its osc rdma works with pml ob1 only: messages through the same btl. Of providers it
# takes those for memory of GPUs, if there is one, unless it is told not to.
FIVE = ["--mca", "pml", "ob1", "--mca", "btl_ofi_mode", "2", "--mca", "btl_ofi_disable_hmem", "1"]
# Open MPI 4.1's btl ofi ends the job on an operation other than a sum. This makes it use compare and swap for all
# others.
BY_SWAPS = ["--mca", "osc_rdma_acc_use_amo", "0"]


def runs(version):
    """@return (name, processes, Open MPI's arguments, the program's arguments) of each job"""
    one_sided = (FIVE if version >= 5 else MESSAGES) + RDMA
    whole = ["messages", "truncation", "collectives"]
    found = [(f"messages, {n} processes", n, MESSAGES, whole) for n in (2, 4, 8)]
    if version < 5:
        found.append(("one-sided by messages, 4 processes", 4, MESSAGES + ["--mca", "osc", "pt2pt"],
                      ["one-sided", "swap"]))
    found += [(f"one-sided by RMA, {n} processes", n, one_sided + BY_SWAPS, ["one-sided", "swap"]) for n in (2, 4, 8)]
    return found + [
        ("one-sided by atomics, 4 processes", 4, one_sided, ["one-sided", "swap", "sums"]),
        ("one-sided by RMA, memory of MPI's, 4 processes", 4, one_sided, ["one-sided", "allocated"])]


def version_of():
    said = subprocess.run(["mpirun.openmpi", "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False).stdout
    return int(re.search(r"(\d+)\.", said)[1])


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
    jobs = runs(version_of())
    for run in jobs:
        job(tally, *run, environment(build, True))
    for run in (jobs[0], *jobs[3:5]):
        job(tally, "udp, " + run[0], *run[1:], environment(build, False))
    tally.finish()


if __name__ == "__main__":
    main()
