#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks and communication libraries over librdmacm, Debian's packages unmodified: cmtime, qperf, librpma, DAPL,
UCX, pyverbs, libfabric's own verbs provider with fi_pingpong and Open MPI, and programs for TCP (curl, netcat, iperf)
over rsockets. Through shared memory and by the kernel's UDP."""
import contextlib
import glob
import gzip
import os
import re
import shutil
import subprocess
import tempfile

import cm
import harness
import mpi_test

QPERF = ["rc_bi_bw", "rc_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]
DTEST_PORT = 15828  # TCP; the programs cannot be told another one
PINGPONG_PORT = 47592


def cmtime(tally, how, sides, env):
    """1,000 connections at once. The server never ends."""
    ok, reason, *outputs = cm.pair(["cmtime", "-b", sides[0].address, "-c", "1000"],
                                   ["cmtime", "-s", sides[0].address, "-c", "1000"], sides, env, ends=False)
    tally.result(f"cmtime, 1,000 connections, {how}", ok and "destroy" in outputs[1], reason, *outputs)


def qperf(tally, how, sides, env):
    """With -cm1, which qperf has for RC only. Its other tests address the peer by a LID, which no RoCE device has."""
    server = ["qperf", "--listen_port", "PORT"]
    client = ["qperf", "--listen_port", "PORT", sides[0].host, "-cm1", "--time", "1", *QPERF, "quit"]
    ok, reason, *outputs = harness.run_pair(server, client, sides, 120, env)
    missing = [name for name in QPERF if name + ":" not in outputs[1]]
    tally.result(f"qperf -cm1, {how}", ok and not missing, f"{reason}; missing: {missing}", *outputs)


def qperf_lids(tally, how, sides, env):
    """qperf's tests by LID fail, and the user is told why, once a process. The side that fails first stops the other
    one."""
    words = "uroce: the program addresses its peer without a GRH"
    for name in ("ud_lat", "rc_lat", "uc_bw"):
        _, reason, *outputs = harness.run_pair(["qperf", "--listen_port", "PORT"],
                                               ["qperf", "--listen_port", "PORT", sides[0].host, "--time", "1", name],
                                               sides, 30, env)
        tally.result(f"qperf {name}, {how}: fails, and says why", "client exit code" in reason
                     and max(output.count(words) for output in outputs) == 1, reason, *outputs)


def rpma(tally, how, sides, env):
    """librpma, by a program of ours: Debian has none."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "rpma")
    if not os.path.exists(program):
        print("SKIP: librpma: librpma-dev was not installed when uroce was built", flush=True)
        return
    where = [sides[0].address, "7204"]
    ok, reason, *outputs = cm.pair([program, "serve", *where], [program, "use", *where], sides, env)
    tally.result(f"librpma: memory written, flushed and read, {how}",
                 ok and all("all bytes are right" in said for said in outputs), reason, *outputs)


# ---- DAPL -----------------------------------------------------------------------------------------------------------

def dapl_sides(folder, sides):
    """@return the sides, each with a provider "uroce" on its device"""
    named = []
    for number, side in enumerate(sides):
        conf = os.path.join(folder, str(number))
        with open(conf, "w") as f:
            f.write(f'uroce u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{side.address} 0" ""\n')
        named.append(harness.Side(side.address, side.devices, side.netns, side.host, {"DAT_OVERRIDE": conf}))
    return named


def dtest(tally, how, sides, env):
    for program, options, words, tcp in (("dtest", [], "Complete. PASSED", DTEST_PORT),
                                         ("dtest", ["-W", "-D", "-b", "65536"], "Complete. PASSED", DTEST_PORT),
                                         ("dtestx", [], "immed/atomic test PASSED", DTEST_PORT),
                                         ("dtestsrq", [], "SRQ Test Complete", None),
                                         ("dtestcm", ["-c", "500"], "Num=500", DTEST_PORT)):
        argv = [program, "-P", "uroce", *options]
        for _ in range(3):
            ok, reason, *outputs = cm.pair(argv, [*argv, "-h", sides[0].host], sides, env, tcp=tcp)
            # dtestcm listens on many ports from 45248 on, among those from which others get free ones.
            if "DAT_CONN_QUAL_IN_USE" not in outputs[0]:
                break
        tally.result(f"DAPL, {' '.join([program, *options])}, {how}", ok and words in outputs[1], reason, *outputs)


def dapltest(tally, how, sides, env):
    """Transactions, whose data the program checks, and its performance test."""
    mixed = "client RW 4096 1 server RW 2048 4 server RR 1024 1 client RR 2048 1 client SR 1024 3 server SR 256 3"
    common = ["-s", sides[0].host, "-D", "uroce"]
    server = harness.Process(["dapltest", "-T", "S", "-D", "uroce"], sides[0], env)
    harness.until(20, lambda: cm.listens(sides[0]))
    for name, test, words, result in (
            ("transactions", "T", f"-V -t 1 -w 1 -i 500 {mixed}", "Total WQE"),
            ("transactions, 4 threads with 4 endpoints", "T", f"-V -t 4 -w 4 -i 200 {mixed}", "Total WQE"),
            ("RDMA READ", "P", "-i 4096 RR 32768 1", "Operation Throughput"),
            ("RDMA WRITE", "P", "-i 4096 RW 32768 4", "Operation Throughput")):
        process = harness.Process(["dapltest", "-T", test, *common, *words.split()], sides[1], env)
        code, said = process.wait(60), process.output()
        tally.result(f"dapltest, {name}, {how}", code == 0 and result in said and "rror" not in said,
                     f"exit code {code}", said)
    quit_it = harness.Process(["dapltest", "-T", "Q", *common], sides[1], env)
    codes = quit_it.wait(20), server.wait(20)
    tally.result(f"dapltest, the server ends, {how}", codes == (0, 0), str(codes), server.output())


def dapl(tally, how, sides, env):
    with tempfile.TemporaryDirectory() as folder:
        named = dapl_sides(folder, sides)
        dtest(tally, how, named, env)
        dapltest(tally, how, named, env)


# ---- programs for TCP, with librspreload ---------------------------------------------------------------------------

RSPRELOAD = glob.glob("/usr/lib/*/rsocket/librspreload.so")


def over_rsockets(tally, name, how, sides, env, server, client, files):
    """@param server, client commands for the shell  @param files (what was sent, what was received)"""
    ok, reason, *outputs = cm.pair(["sh", "-c", f"exec {server}"], ["sh", "-c", f"exec {client}"], sides,
                                   dict(env, LD_PRELOAD=RSPRELOAD[0]))
    tally.result(f"rsockets: {name}, {how}", ok and contents(files[1]) == contents(files[0]),
                 reason, *outputs)


def curl_is_strange():
    """@return whether curl names SOCK_NONBLOCK as it makes a socket: librspreload leaves such a socket to the kernel"""
    said = subprocess.run(["curl", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(map(int, re.match(r"curl (\d+)\.(\d+)", said).groups())) >= (8, 13)


def netcat(tally, how, sides, env):
    """netcat gets a file from another netcat, and so does curl."""
    at, size = sides[0].address, 3000000
    with tempfile.TemporaryDirectory() as folder:
        answer, body, got = (os.path.join(folder, name) for name in ("answer", "body", "got"))
        with open(body, "wb") as f:
            f.write(os.urandom(size))
        with open(answer, "wb") as f:
            f.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % size + contents(body))
        if shutil.which("curl") and not curl_is_strange():
            over_rsockets(tally, "curl, 3 MB", how, sides, env, f"nc.traditional -l -s {at} -p 8081 -q 1 < {answer}",
                          f"curl -sS -m 50 -o {got} http://{at}:8081/", (body, got))
        else:
            print("SKIP: curl: not installed, or asks for a socket in a way that rsockets do not know", flush=True)
        over_rsockets(tally, "netcat, 3 MB", how, sides, env, f"nc.traditional -l -s {at} -p 8082 > {got}",
                      f"nc.traditional -q 1 {at} 8082 < {body}", (body, got))


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def iperf(tally, how, sides, env):
    argv = ["iperf", "-p", "5203"]
    ok, reason, *outputs = cm.pair([*argv, "-s", "-B", sides[0].address],
                                   [*argv, "-c", sides[0].address, "-n", "50M"], sides,
                                   dict(env, LD_PRELOAD=RSPRELOAD[0]), ends=False)
    tally.result(f"rsockets: iperf, {how}", ok and "50.0 MBytes" in outputs[1], reason, *outputs)


# ---- libraries that take no loopback interface -----------------------------------------------------------------------

def ucx(tally, how, sides, env):
    """UCX's io_demo connects by rdmacm and checks its data; over RC and UD queue pairs, with tags and with active
    messages."""
    for tls in ("rc_verbs", "ud_verbs"):
        for api in ([], ["-A"]):
            argv = ["io_demo", "-p", "13338", "-q", "-d", "64:65536", *api]
            ok, reason, *outputs = cm.pair(argv, [*argv, "-o", "read,write", "-i", "2000", sides[0].address], sides,
                                           dict(env, UCX_TLS=tls, UCX_SOCKADDR_TLS_PRIORITY="rdmacm"), ends=False)
            tally.result(f"UCX io_demo{' -A' if api else ''}, {tls}, {how}", ok and "status 'OK'" in outputs[1], reason,
                         *outputs)


def pingpong(tally, how, sides, env):
    for provider, endpoint in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")):
        argv = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", "20"]
        ok, reason, *outputs = cm.pair(argv, [*argv, sides[0].address], sides, env, tcp=PINGPONG_PORT)
        tally.result(f"fi_pingpong -p '{provider}' -e {endpoint}, {how}", ok and "\n1m " in outputs[1], reason,
                     *outputs)


# Why tests of pyverbs may be skipped, and which: they are for another provider, for hardware that is not there, or for
# what uroce does not have. Timestamps are converted to nanoseconds by mlx5's own function.
PYVERBS_SKIPS = [(re.compile(reason), re.compile(tests)) for reason, tests in (
    (r"Can not run the test over non MLX5 device|Could not open mlx5 context \(.*\)", r"test_mlx5_"),
    (r"Converting timestamp to nanoseconds is not supported", r"test_mlx5_timestamp\."),
    (r"PCI device must be passed by the user", r"test_mlx5_vfio\."),
    (r"Can not run the test over non EFA device", r"test_efa"),
    (r"cuda-python .*", r"test_cuda_dmabuf\.|test_mlx5_(cuda_umem|dmabuf)\."),
    (r".* /dev/dri/renderD\d+( is not present)?", r"test_mr\.DmaBuf|test_mlx5_dmabuf\."),
    (r"Create QP type 8 is not supported", r"test_(flow|rss_traffic)\.|test_mlx5_timestamp\..*_raw_traffic$"),
    (r"Create Raw Packet QP with.* attrs is not supported", r"test_qp\..*_raw_qp"))]
PYVERBS_NO_HUGE = (re.compile(r".*uge pages of size 2M.*"), re.compile(r"test_(odp|parent_domain)\..*_huge_"))
PYVERBS_LEAST = 150  # Debian 12 has 171 tests that are not for one provider
HUGE_PAGES, PYVERBS_HUGE = 32, 3  # pages that the tests of huge pages need at most; the number of these tests


def huge_pages_of(kind):
    """@return the number of huge pages of 2 MiB of this kind; 0 if huge pages have another size"""
    with open("/proc/meminfo", encoding="ascii") as f:
        text = f.read()
    found = re.search(rf"^HugePages_{kind}: +(\d+)$", text, re.M)
    return int(found[1]) if found and re.search(r"^Hugepagesize: +2048 kB$", text, re.M) else 0


def huge_pages_ask(n):
    with open("/proc/sys/vm/nr_hugepages", "w", encoding="ascii") as f:
        f.write(str(n))


@contextlib.contextmanager
def huge_pages():
    """Let the kernel set huge pages aside for a while, beside those in use. Yields why there are not enough, or ""."""
    before = huge_pages_of("Total") - huge_pages_of("Surp")
    if not os.path.exists("/sys/kernel/mm/hugepages/hugepages-2048kB"):
        yield "the kernel has no huge pages of 2 MiB"
        return
    try:
        huge_pages_ask(huge_pages_of("Total") + HUGE_PAGES)
    except OSError:
        pass
    try:
        free = huge_pages_of("Free") - huge_pages_of("Rsvd")
        yield "" if free >= HUGE_PAGES else f"{free} huge pages of 2 MiB are free, and {HUGE_PAGES} are needed"
    finally:
        with contextlib.suppress(OSError):
            huge_pages_ask(before)


def rdma_tool(folder):
    """The tests ask iproute2's `rdma` for the network interfaces of the kernel's RDMA devices. Where the kernel has no
    RDMA it fails: then one that names none takes its place.
    @return a PATH"""
    path = os.environ["PATH"]
    if shutil.which("rdma") and subprocess.run(["rdma", "link"], capture_output=True, check=False).returncode == 0:
        return path
    os.mkdir(f"{folder}/bin")
    with open(f"{folder}/bin/rdma", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho '[]'\n")
    os.chmod(f"{folder}/bin/rdma", 0o755)
    return f"{folder}/bin:{path}"


def pyverbs_skips(said):
    """Yields the name of each skipped test, as module.class.function, and why it was skipped."""
    test = ""
    for line in said.splitlines():
        name = re.match(r"(\w+) \((?:tests\.)?(test_[\w.]+)\)", line)
        if name:  # before Python 3.11 the part in parentheses ends with the class
            test = name[2] if name[2].endswith(f".{name[1]}") else f"{name[2]}.{name[1]}"
        reason = re.search(r"\.\.\. skipped ['\"](.*)['\"]$", line)
        if reason:
            yield test, reason[1]


def pyverbs_strange(skips, allowed):
    """@return the skips that no pair of a reason and tests allows"""
    return sorted(f"{test}: {why}" for test, why in skips
                  if not any(reason.fullmatch(why) and tests.match(test) for reason, tests in allowed))


def pyverbs(tally, how, sides, env):
    """All tests of rdma-core, among them those that use rdma_cm: processes that are forked after their parent has
    opened the device."""
    source = "/usr/share/doc/rdma-core/tests"
    if not os.path.exists(f"{source}/run_tests.py"):
        print("SKIP: python3-pyverbs with its tests: not installed", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(source, f"{folder}/tests")
        for packed in glob.glob(f"{folder}/tests/*.gz"):
            with gzip.open(packed) as f, open(packed[:-3], "wb") as out:
                shutil.copyfileobj(f, out)
        with huge_pages() as no_huge:
            process = harness.Process(["/usr/bin/python3", f"{folder}/tests/run_tests.py", "--dev", "uroce0", "-v"],
                                      sides[0], {**env, "PATH": rdma_tool(folder)})
            code, said = process.wait(240), process.output()
    least = PYVERBS_LEAST - (PYVERBS_HUGE if no_huge else 0)
    if no_huge:
        print(f"SKIP: {PYVERBS_HUGE} tests of pyverbs, {how}: {no_huge}; {least} instead of {PYVERBS_LEAST} tests have "
              "to pass", flush=True)
    ran = re.search(r"^Ran (\d+) tests", said, re.M)
    skipped = re.search(r"^(?:OK|FAILED) \(.*skipped=(\d+)", said, re.M)
    skips = list(pyverbs_skips(said))
    passed = int(ran[1]) - int(skipped[1]) if ran and skipped else 0
    strange = pyverbs_strange(skips, PYVERBS_SKIPS + ([PYVERBS_NO_HUGE] if no_huge else []))
    tally.result(f"pyverbs, {how}: {passed} tests passed, at least {least} have to",
                 code == 0 and passed >= least and not strange and len(skips) == int(skipped[1]),
                 f"exit code {code}, {passed} passed, {len(skips)} skipped, for unknown reasons: {strange}", said)


def mpi(tally, how, side, env):
    """Open MPI by libfabric's verbs and ofi_rxm. Without truncation of messages, which breaks ofi_rxm 1.17 over tcp,
    too."""
    program = os.path.join(os.environ["UROCE_BUILD"], "tests", "apps", "mpi_check")
    if not shutil.which("mpirun.openmpi") or not os.path.exists(program):
        print("SKIP: Open MPI over verbs;ofi_rxm: Open MPI is not installed", flush=True)
        return
    if mpi_test.version_of() >= 5:  # without osc pt2pt
        one_sided, parts = [], ["messages", "collectives"]
    else:
        one_sided, parts = ["--mca", "osc", "pt2pt"], ["messages", "collectives", "one-sided"]
    words = ("--oversubscribe -np 4 --mca mpi_yield_when_idle 1 --mca oob_tcp_if_include va --mca pml cm --mca mtl ofi "
             "--mca mtl_ofi_provider_include verbs;ofi_rxm").split()
    process = harness.Process(["mpirun.openmpi", *words, *one_sided, program, *parts], side,
                              dict(env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
    tally.cases(f"Open MPI, verbs;ofi_rxm, {how}", process.wait(240), process.output())


# ---- all ------------------------------------------------------------------------------------------------------------

TESTS = (("cmtime", cmtime), ("qperf", qperf), ("dapltest", dapl))
RSOCKET_TESTS = (("nc.traditional", netcat), ("iperf", iperf))
NETWORK_TESTS = (("io_demo", ucx), ("fi_pingpong", pingpong))


def run(tally, tests, how, sides, env):
    """Run the tests whose programs are installed."""
    for program, test in tests:
        if shutil.which(program):
            test(tally, how, sides, env)
        else:
            print(f"SKIP: {program}: not installed", flush=True)


def main():
    harness.options(__doc__)
    tally = harness.Tally("middleware")
    for how, sides, env in (("shared memory", harness.one_device_sides(13), {}),
                            ("UDP", harness.one_device_sides(13), cm.UDP),
                            ("two devices", harness.loopback_sides(14), {})):
        run(tally, TESTS, how, sides, env)
        if RSPRELOAD:
            run(tally, RSOCKET_TESTS, how, sides, env)
        else:
            print("SKIP: TCP programs over rsockets: librspreload.so is not installed", flush=True)
        rpma(tally, how, sides, env)
    run(tally, (("qperf", qperf_lids),), "shared memory", harness.one_device_sides(13), {})
    if os.geteuid() == 0:
        first, second = harness.veth_sides()
        run(tally, NETWORK_TESTS, "shared memory", (first, first), {})
        run(tally, NETWORK_TESTS, "two hosts", (first, second), {})
        pyverbs(tally, "shared memory", (first, first), {})
        pyverbs(tally, "UDP", (first, first), cm.UDP)
        mpi(tally, "shared memory", first, {})
        mpi(tally, "UDP", first, cm.UDP)
    else:
        print("SKIP: UCX and libfabric's verbs provider: needs root to make network namespaces", flush=True)
    tally.finish()


if __name__ == "__main__":
    main()
