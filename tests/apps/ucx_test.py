#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""UCX, unmodified, over its transport of ours, under each of its names, and over queue pairs (rc_v, ud_v):
ucx_perftest's tests. Over ours, a program checks every atomic operation while the target sleeps."""
import os
import re
import shutil
import tempfile

import cm
import harness
import ucx_versions

LOSSY = ("--loss", "1%")
UCP_TESTS = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add",
             "ucp_fadd", "ucp_swap", "ucp_cswap", "stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw")
# Tests of the transports themselves, and how they pass their data.
UCT_MESSAGES = [(test, how) for test in ("am_lat", "am_bw") for how in ("short", "bcopy", "zcopy")]
UCT_MEMORY = [(test, how) for test in ("put_lat", "put_bw") for how in ("short", "bcopy", "zcopy")]
UCT_MEMORY += [("get", "bcopy"), ("get", "zcopy")]
UCT_ATOMICS = [(test, "short") for test in ("add_lat", "add_mr", "fadd", "cswap")]
UCT_TESTS = {  # what each transport has
    "uroce": UCT_MESSAGES + UCT_MEMORY + UCT_ATOMICS + [("swap", "short")],
    "rc_verbs": UCT_MESSAGES + UCT_MEMORY + UCT_ATOMICS,
    "ud_verbs": UCT_MESSAGES,
}
CONNECT_PORT = "13347"  # of the device, in the port space of TCP
SIZES = ("1", "128", "129", "8192", "8193", "100000", "4000000")  # around the limits of short, bcopy and eager


def environment(transports):
    return {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}


def perftest(tally, case, sides, env, *words):
    """Run ucx_perftest: the side without an address, then the side with one. Both talk by TCP about the test, but
    from UCX 1.18 on the first is not told the device (-d)."""
    argv = [*harness.ucx_perftest(), "-p", "PORT"]
    device = words[words.index("-d"):words.index("-d") + 2] if "-d" in words else ()
    ok, reason, server, client = harness.run_pair([*argv, *device], [*argv, sides[0].host, "-t", *words], sides, 60,
                                                  env)
    tally.result(f"ucx_perftest {' '.join(words)}, {case}", ok and re.search(r"^Final:", client, re.M) is not None,
                 reason, server, client)


def atomics(tally, case, sides, env, origins=3, rounds=500, wait=harness.Process.wait):
    """Several processes operate on the memory of one that sleeps."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "ucx_atomics")
    if not os.path.exists(program):
        print("SKIP: ucx_atomics: not built, because libucx-dev is not installed", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "target")
        target = harness.Process([program, "target", path, str(origins), str(rounds)], sides[0], env)
        if not harness.until(30, lambda: os.path.exists(path)):
            tally.result(f"atomics of UCX, {case}", False, f"no target (exit code {target.wait(0.1)})", target.output())
            return
        running = [harness.Process([program, "origin", path, str(i)], sides[1], env) for i in range(origins)]
        codes = [wait(process, 120) for process in running]
        target.popen.terminate()
        codes.append(target.wait(10))
        outputs = [process.output() for process in running]
        used = [int(n) for said in outputs for n in re.findall(r"(\d+) times with \d bytes", said)]
        tally.result(f"atomics of {origins} processes, each by {len(used) // origins} calls of UCP, the target asleep, "
                     f"{case}", not any(codes) and None not in codes and min(used, default=0) > 0,
                     f"exit codes {codes}", target.output(), *outputs)


def connect(tally, case, sides, env):
    """A connection by socket addresses: rdma_cm tells the transport the peer's address."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "ucx_connect")
    if not os.path.exists(program):
        print("SKIP: ucx_connect: not built, because libucx-dev is not installed", flush=True)
        return
    argv = [program, CONNECT_PORT, sides[0].address]
    ok, reason, server, client = cm.pair(argv, [*argv, "client"], sides, env)
    tally.result(f"connection of UCX by socket addresses, {case}", ok and "all messages came back" in client, reason,
                 server, client)


def keys(tally, case, side, env):
    """A key opens its region and no other memory. With UROCE_UCX_ONE_KEY in the target, any key opens all of the
    target's memory; with it in the origin alone, no access has a key. No key opens memory against its protection. A
    write to registered memory that was unmapped is dropped, or, with the setting in the target, fails."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "ucx_keys")
    if not os.path.exists(program):
        print("SKIP: ucx_keys: not built, because libucx-dev is not installed", flush=True)
        return
    done, refused = "Success", "Input/output error"
    for target, origin, own, other, gone in (("", "", done, refused, done), ("off", "off", done, refused, done),
                                             ("on", "off", done, done, refused), ("on", "on", done, done, refused),
                                             ("off", "on", refused, refused, refused)):
        process = harness.Process([program, origin], side, dict(env, UROCE_UCX_ONE_KEY=target))
        code, said = process.wait(60), process.output()
        lines = [f"{access}, {whose} key: {status}" for access in ("PUT", "GET", "ADD")
                 for whose, status in (("its own", own), ("another region's", other), ("the origin's", other))]
        told = [line for line in said.splitlines() if line.startswith(("PUT", "GET", "ADD"))]
        tally.result(f"keys of UCX, UROCE_UCX_ONE_KEY={target} in the target, {origin} in the origin, {case}",
                     code == 0 and told == [*lines, f"PUT, read-only memory: {refused}",
                                            f"PUT, unmapped memory: {gone}"], f"exit code {code}", said)
    process = harness.Process([program, ""], side, dict(env, UROCE_UCX_ONE_KEY="maybe"))
    code, said = process.wait(60), process.output()
    tally.result(f"keys of UCX, UROCE_UCX_ONE_KEY=maybe, {case}", code == 1 and
                 "uroce0: UROCE_UCX_ONE_KEY is 'maybe'; use on or off" in said, f"exit code {code}", said)


def names(tally):
    """The transport has the names of ConnectX's transports where UCX_TLS selects these, and its own always."""
    side = harness.one_device_sides(8)[0]
    for selected, more in (("all", ()), ("uroce", ()), ("rc,uroce", ()), ("rc_v,ud_v,tcp", ()), ("^uroce", ()),
                           ("rc", ("rc_mlx5",)), ("self,rc_x", ("rc_mlx5",)), ("ib", ("rc_mlx5",)),
                           ("ud_mlx5", ("ud_mlx5",)), ("dc,sm", ("dc_mlx5",)), ("dc_x,ud,rcx", ("dc_mlx5", "ud_mlx5"))):
        process = harness.Process(["ucx_info", "-d"], side, environment(selected))
        code, said = process.wait(30), process.output()
        found = re.findall(r"Transport: (\S+)\n#\s+Device: uroce0:1\n", said)
        tally.result(f"names of the transport, UCX_TLS={selected}: {' '.join(found)}", code == 0 and
                     sorted(found) == sorted(["rc_verbs", "ud_verbs", "uroce", *more]), f"exit code {code}", said)


def lossy(tally):
    """By UDP, while packets are lost: every operation is executed once."""
    sides = harness.one_device_sides(6)
    with harness.kept_device(tally, "UDP that loses 1% of all packets", sides[0].address, LOSSY) as device:
        atomics(tally, "UDP that loses 1% of all packets", sides, dict(environment("uroce"), UROCE_RING="off"), 2, 400,
                device.wait)


def main():
    harness.options(__doc__)
    tally = harness.Tally("ucx")
    if not shutil.which("ucx_perftest"):
        harness.skip("ucx_perftest is not installed (ucx-utils)")
    env = environment("uroce")
    for case, sides, more in (("shared memory", harness.one_device_sides(1), {}),
                              ("two devices", harness.loopback_sides(2), {}),
                              ("UDP", harness.loopback_sides(3), {"UROCE_RING": "off"})):
        for test in UCP_TESTS:
            perftest(tally, case, sides, dict(env, **more), test, "-n", "500")
        perftest(tally, case, sides, dict(env, **more), "tag_bw", "-n", "20000", "-O", "10000")  # more than fit
        for size in SIZES:
            perftest(tally, case, sides, dict(env, **more), "tag_lat", "-n", "30", "-s", size)
        atomics(tally, case, sides, dict(env, **more))
        connect(tally, case, sides, dict(env, UCX_SOCKADDR_TLS_PRIORITY="rdmacm", **more))
        atomics(tally, f"one key, {case}", sides, dict(env, UROCE_UCX_ONE_KEY="on", **more))
        keys(tally, case, sides[0], dict(env, **more))
    for number, case in enumerate(("shared memory", "UDP")):
        sides, ring = harness.one_device_sides(4 + number), {} if number == 0 else {"UROCE_RING": "off"}
        for transport, tests in UCT_TESTS.items():
            for test, how in tests:
                perftest(tally, case, sides, dict(env, **ring), test, "-n", "500", "-d", "uroce0:1", "-x", transport,
                         "-D", how, "-s", "128" if how == "zcopy" else "8")
        for transport in ("rc_v", "ud_v", "rc", "ud"):
            for test in UCP_TESTS:
                perftest(tally, f"{transport}, {case}", sides, dict(environment(transport), **ring), test, "-n", "500")
    for transports in ("uroce", "rc,uroce", "ud,uroce", "rc", "ud", "ib", "rc_x", "ud_x", "dc_x"):
        for test in ("ucp_fadd", "ucp_swap", "ucp_cswap"):
            perftest(tally, f"{transports}, the target does nothing", harness.one_device_sides(8),
                     environment(transports), test, "-n", "500", "-o")
    for transports in ("rc", "ud"):
        atomics(tally, transports, harness.one_device_sides(8), environment(transports))
    names(tally)
    connect(tally, "all transports", harness.one_device_sides(7), environment("all"))
    ucx_versions.check(tally)
    lossy(tally)
    tally.finish()


main()
