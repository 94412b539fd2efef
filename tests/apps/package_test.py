#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The life of Debian's packages, in a bare tree of this machine's release or of another one (--release): installed,
used without any setting, upgraded while connections are in use, two versions at once, removed, purged without a trace.

scripts/package builds the packages, again as a higher version, and again with another protocol between processes;
lintian checks the first. For another release that is done in a second tree. debootstrap makes the trees, and other
packages are downloaded, once: both are kept in the build folder. All else happens in a layer above the tree, without a
network. The packages of this machine are not touched."""
import os
import re
import shutil
import subprocess

import builds
import harness
import trees

# What a user of uroce might have; all from Debian.
PROGRAMS = ("ibverbs-utils", "libfabric-bin", "perftest", "rdmacm-utils", "openmpi-bin", "man-db", "bash-completion",
            "zsh", "groff-base")
# Written by the package manager, and by what it starts, for any package.
BOOKS = re.compile(r"/(var/(lib/(dpkg|apt)|cache|log)|etc/ld\.so\.cache)(/|$)")
OURS = ("uroce", "uroce-dev", "uroce-tests")
RUN = "/usr/libexec/uroce-tests/run"
USER = 1234
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"
OLD = "/opt/old"  # where the older version is unpacked, beside the newer one
GET = ["apt-get", "-y", "-q", "-o", "Acquire::Retries=2", "-o", "Dpkg::Use-Pty=0"]


class Machine(trees.Root):
    """A bare Debian with lists and archives of packages, which outlive it, and ours in /packages."""

    def __init__(self, tree, work, network=False):
        self.binds = []
        for name, place in (("lists", "var/lib/apt/lists"), ("archives", "var/cache/apt/archives")):
            os.makedirs(os.path.join(work, name, "partial"), exist_ok=True)
            self.binds.append((os.path.join(work, name), place))
        super().__init__(tree, network, [*self.binds, (work, "packages")])

    def installed(self):
        """@return {package: version} of ours"""
        _, out = self.run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n")
        rows = [line.split() for line in out.splitlines() if line.startswith("uroce")]
        return {row[0]: row[1] for row in rows if row[2:] == ["installed"]}


    def daemons(self):
        """@return {PID in there: program} of the daemons that run"""
        _, out = self.run("sh", "-c", "for p in /proc/[0-9]*; do echo ${p#/proc/} $(readlink $p/exe); done")
        rows = [line.split(" ", 1) for line in out.splitlines() if "/uroced" in line]
        return {row[0]: row[1] for row in rows}


def inside(path, work):
    return os.path.join("/packages", os.path.relpath(path, work))


def ours(debs, work):
    """@return the paths inside of all packages"""
    return [inside(debs[name], work) for name in OURS]


def download(tree, work, packages):
    """Have all archives there that the test installs; needs the network only the first time, or when they change."""
    wanted = [*GET, "install", "--download-only", *packages, *PROGRAMS]
    with Machine(tree, work) as machine:
        if machine.run(*wanted)[0] == 0:
            return
    with Machine(tree, work, network=True) as machine:
        for argv in ([*GET, "update"], wanted):
            code, out = machine.run(*argv, seconds=600)
            if code:
                harness.skip(f"packages cannot be downloaded here: {' '.join(argv)}: {out.strip()[-500:]}")


class Case:
    """What a program must say."""

    def __init__(self, tally, machine):
        self.tally, self.machine = tally, machine

    def __call__(self, name, pattern, *argv, code=0, **where):
        got, out = self.machine.run(*argv, **where)
        self.tally.result(name, got == code and re.search(pattern, out) is not None,
                          f"exit code {got}, expected {code} and {pattern}", out)
        return out

    def sh(self, name, pattern, text, **where):
        return self(name, pattern, "sh", "-c", text, **where)


def on_bare_tree(tally, tree, work, debs):
    """Two commands on a Debian that has nothing else."""
    with Machine(tree, work) as machine:
        case = Case(tally, machine)
        case("bare: apt-get install", "Setting up uroce", *GET, "install", inside(debs["uroce"], work), seconds=600)
        case("bare: uroce run -- ibv_devinfo", rf"hca_id:\s+uroce0[^$]*transport:\s+InfiniBand", "uroce", "run", "--",
             "ibv_devinfo", user=USER)
        case.sh("bare: no library is missing", r"\A\Z", "for f in $(dpkg -L uroce); do case $f in *.so*|*/uroced|"
                "*/uroce-mount-ns) ldd $f | grep 'not found';; esac; done; true")
        case("bare: without what is recommended", "Removing ibverbs-utils", *GET, "remove", "ibverbs-utils",
             "libfabric1")
        case("bare: uroce up", "stays until", "uroce", "up")
        case("bare: uroce status", "leaves|stays", "uroce", "status")
        case("bare: uroce down", "gone", "uroce", "down")
        case("bare: apt-get install uroce-uplink", "Setting up uroce-uplink", *GET, "--no-install-recommends",
             "install", inside(debs["uroce-uplink"], work), seconds=600)
        case("bare: an uplink, without its driver", "DPDK cannot open 'net_none0'", "uroce", "up",
             "10.99.0.1/uplink=net_none0", code=1)
        case("bare: apt-get install uroce-tests", "Setting up uroce-tests", *GET, "--no-install-recommends", "install",
             inside(debs["uroce-tests"], work), seconds=600)
        own_tests(tally, machine)
        readme(tally, machine)


def pair(machine, prefix, port, more=(), env=None):
    """@return the two processes of a stream of WRITEs, each side by the uroce installed at its prefix"""
    argv = ["ib_write_bw", "-F", "-p", str(port), *more]
    server = machine.start(f"{prefix[0]}/bin/uroce", "run", "-d", SERVER, "--", *argv, env=env)
    server.wait_listen(port, 20)
    return server, machine.start(f"{prefix[1]}/bin/uroce", "run", "-d", CLIENT, "--", *argv, SERVER, env=env)


def must_end(tally, name, processes, seconds=60):
    for process in processes:
        code = process.wait(seconds)
        tally.result(f"{name}: {'client' if process is processes[-1] else 'server'} ends well", code == 0,
                     f"exit code {code}", process.output())


def use(tally, machine, version):
    """Everything that an installed uroce offers, as an ordinary user without a single variable."""
    case = Case(tally, machine)
    for name in ("uroce", "uroce-run", "uroced"):
        case(f"{name} --version", rf"\A{name} {re.escape(version)}\n\Z", name, "--version", user=USER)
    case("uroce run -- ibv_devinfo -v", rf"hca_id:\s+uroce0[^$]*::ffff:{SERVER}, RoCE v2", "uroce", "run", "--",
         "ibv_devinfo", "-v", user=USER)
    case("fi_info -p uroce", r"(?m)^provider: uroce$", "fi_info", "-p", "uroce", user=USER)
    case("without uroce run there is no device", "No IB devices found|Failed to get IB devices", "ibv_devinfo",
         code=255, user=USER)
    job = ["mpirun.openmpi", "--oversubscribe", "-np", "2", "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca",
           "mtl_ofi_provider_include", "uroce", "--mca", "oob_tcp_if_include", "lo", "--mca", "mpi_yield_when_idle",
           "1", "/opt/mpi_check", "messages", "collectives"]
    out = case("MPI", r"(?m)^ok ", *job, user=USER, env={"HOME": "/tmp"}, seconds=240)
    tally.result("MPI: no case fails", "FAIL" not in out, "", out)
    pages = {"uroce": 1, "uroce-run": 1, "uroce-": 7, "uroced": 8}
    for page, section in pages.items():
        name = page.rstrip("-")
        case(f"man {section} {name}", rf"(?i){name}\({section}\)[^$]*NAME", "man", str(section), name,
             env={"MANPAGER": "cat", "MANWIDTH": "100"}, user=USER)
    case("completion in bash", r"(?m)^stat status $", "bash", "-c", ". /usr/share/bash-completion/bash_completion\n"
         "_completion_loader uroce; COMP_WORDS=(uroce sta) COMP_CWORD=1\n"
         "$(complete -p uroce | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
         "printf '%s ' $(printf '%s\\n' ${COMPREPLY[@]} | sort)\necho", user=USER)
    case("completion in zsh", r"(?m)^_uroce$", "zsh", "-fc", "autoload -U compinit; compinit -u -D\n"
         "echo $_comps[uroce]; autoload +X -U _uroce", user=USER)


def own_tests(tally, machine):
    """uroce-tests, as a user and as root: the tests of debian/tests/control."""
    case = Case(tally, machine)
    with open(os.path.join(harness.ROOT, "debian", "tests", "control"), encoding="utf-8") as f:
        tests = [dict(re.findall(r"(?m)^([\w-]+): (.*)$", test)) for test in f.read().split("\n\n")]
    tally.result("autopkgtest's tests", sorted(test["Test-Command"] for test in tests) == [RUN, f"{RUN} --user"],
                 str(tests))
    for test in tests:
        name, argv = test["Features"], test["Test-Command"].split()
        user = None if "needs-root" in test["Restrictions"] else USER
        out = case(f"uroce-tests {name}", r"(?m)^all of it ran over uroce", *argv, user=user, seconds=300)
        rows = [row for row in ("ibv_rc_pingpong", "ib_write_lat", "verify", "cross", "uroce_sim", "own")
                if re.search(rf"(?m)^{row} +\S", out)]
        tally.result(f"uroce-tests {name}: what was run", len(rows) == 6 and ("RC FETCH ADD" in out) == (not user),
                     str(rows), out)
    case.sh("uroce-tests without a part", "FAILED[^$]*1 of the programs failed: own",
            "mkdir -p /tmp/tests/libexec /tmp/tests/share; cp -r /usr/libexec/uroce-tests /tmp/tests/libexec; "
            "cp -r /usr/share/uroce-tests /tmp/tests/share; rm /tmp/tests/share/uroce-tests/own.txt; "
            "/tmp/tests/libexec/uroce-tests/run --user", code=1, user=USER, seconds=300)
    case.sh("the copy is removed", r"\A\Z", "rm -r /tmp/tests")


def readme(tally, machine):
    """The commands of uroce-tests' README.Debian, as they stand there."""
    case = Case(tally, machine)
    with open(os.path.join(harness.ROOT, "debian", "uroce-tests.README.Debian"), encoding="utf-8") as f:
        text = f.read()
    path = re.search(r"(?m)^  (PATH=\S+)$", text)[1]
    words = [" ".join(command.split()) for command in re.findall(r'"([^"]+)"', text)]
    server, client, *others = words
    case.sh(f"README.Debian: {client}", r"\d+ bytes intact", f"{path}\n{server} >/dev/null &\n{client} && wait $!",
            user=USER)
    results = ("1000003000", "1000 passed, 0 failed", "packets, 0 failures", "usage: packets.py")
    tally.result("README.Debian: commands", len(others) == len(results), str(words))
    for command, result in zip(others, results):
        case.sh(f"README.Debian: {command}", result, f"{path}\n{command.replace(' FILE', '')}",
                code=1 if " FILE" in command else 0, user=USER, seconds=300)


def header(tally, machine):
    """A program for the experimental verbs compiles with what uroce-dev has installed."""
    if not shutil.which("cc"):
        print("SKIP uroce-dev: there is no compiler", flush=True)
        return
    include = f"/proc/{machine.inner()}/root{machine.folder}/root/usr/include/uroce"
    done = subprocess.run(["cc", "-D_GNU_SOURCE", "-fsyntax-only", "-isystem", include,
                           os.path.join(harness.ROOT, "tests", "apps", "cross.c")], capture_output=True, text=True,
                          check=False)
    tally.result("uroce-dev: a program for experimental verbs compiles", done.returncode == 0, "it does not",
                 done.stderr)


def upgrade(tally, machine, work, debs, version):
    """To a higher version while connections are in use, through shared memory and over UDP; and a server of the old
    version that waits for a client."""
    case, both, before = Case(tally, machine), ("/usr", "/usr"), machine.installed().get("uroce", "?")
    rings = pair(machine, both, 18600, ["-D", "60"])  # longer than an upgrade takes
    udp = pair(machine, both, 18601, ["-D", "60"], {"UROCE_RING": "off"})
    waiting = machine.start("uroce", "run", "-d", SERVER, "--", "ib_write_bw", "-F", "-p", "18602")
    waiting.wait_listen(18602, 20)
    in_use = harness.until(20, lambda: re.search(r'"qps": [1-9]', machine.run("uroce", "status", "--json")[1]))
    tally.result("connections are in use", in_use, "no queue pair")
    case("upgrade", "Setting up uroce", *GET, "install", *ours(debs, work))
    alive = [process.popen.poll() is None for process in (*rings, *udp, waiting)]
    tally.result("the connections were in use all the time", all(alive), f"{alive}: -D is too short for this machine")
    tally.result("the version is higher", set(machine.installed().values()) == {version}, str(machine.installed()))
    # A daemon beside processes that spin on all cores may get none of them for seconds.
    harness.until(30, lambda: "problem" not in machine.run("uroce", "status")[1])
    out = case("the new uroce status shows the old processes", "ib_write_bw", "uroce", "status")
    tally.result("without a problem", "problem" not in out, "", out)
    told = len(re.findall(rf"of uroce {re.escape(before)}\b(?!\+)", out))
    tally.result("which tells the version of two daemons and five processes", told == 7, f"of {told}", out)
    case("the new uroce stat reads the old processes", "tx_packets|sent", "uroce", "stat", "--all")
    client = machine.start("uroce", "run", "-d", CLIENT, "--", "ib_write_bw", "-F", "-p", "18602", SERVER)
    must_end(tally, "an old server and a new client", (waiting, client))
    killed = machine.daemons()
    tally.result("the daemons are the old ones", len(killed) == 2 and all("(deleted)" in exe for exe in
                 killed.values()), str(killed))
    case.sh("they are killed", r"\A\Z", f"kill -KILL {' '.join(killed)}")
    must_end(tally, "a new pair among old processes", pair(machine, both, 18603, ["-n", "500"]))
    fresh = machine.daemons()
    tally.result("the new daemons are of the new version", fresh and set(fresh.values()) == {"/usr/bin/uroced"},
                 str(fresh))
    must_end(tally, "old pair through shared memory", rings, 150)
    must_end(tally, "old pair over UDP", udp, 150)


def side_by_side(tally, machine, work, old):
    """The older version in another place of the same machine: programs and tools of both."""
    case = Case(tally, machine)
    case.sh("the old version beside the new one", r"\A\Z", f"dpkg-deb -x {inside(old['uroce'], work)} {OLD}")
    case("the old version is the old one", r"\Auroce [^+]*\n\Z", f"{OLD}/usr/bin/uroce", "--version")
    for port, (name, sides) in enumerate({"old server, new client": (f"{OLD}/usr", "/usr"),
                                          "new server, old client": ("/usr", f"{OLD}/usr")}.items()):
        for ring in ("on", "off"):
            must_end(tally, f"{name}, rings {ring}",
                     pair(machine, sides, 18610 + port, ["-n", "500"], {"UROCE_RING": ring}))
    for mine, other in (("/usr", f"{OLD}/usr"), (f"{OLD}/usr", "/usr")):
        case(f"{mine}: uroce up", "stays", f"{mine}/bin/uroce", "up", SERVER)
        for argv, pattern in ((["status"], SERVER), (["stat", "--all"], "daemon"), (["fault", SERVER, "--loss", "1%"],
                              "1 device"), (["fault", "clear"], "device"), (["down"], "gone")):
            case(f"{other}: uroce {argv[0]} of a device of {mine}", pattern, f"{other}/bin/uroce", *argv)
        gone = harness.until(20, lambda: machine.run("uroce", "status")[1].startswith("No device"))
        tally.result(f"{mine}: the device has gone", gone, "it has not")
    case.sh("the old version is removed", r"\A\Z", f"rm -rf {OLD}")


def protocols(tally, machine, work, other):
    """A version with another protocol beside: its programs cannot join the device, are told why and what to do, and
    that can be done with the tools of either version."""
    case = Case(tally, machine)
    case.sh("a version with another protocol", r"\A\Z", f"dpkg-deb -x {inside(other['uroce'], work)} {OLD}")
    for mine, theirs in (("/usr", f"{OLD}/usr"), (f"{OLD}/usr", "/usr")):
        program = [f"{theirs}/bin/uroce", "run", "-d", SERVER, "--", "ibv_rc_pingpong", "-g", "0", "-n", "10"]
        version = machine.run(f"{mine}/bin/uroce", "--version")[1].split()[-1]
        case(f"{mine}: uroce up", "stays", f"{mine}/bin/uroce", "up", SERVER)
        case(f"{theirs}: a program is told", rf"the daemon of {SERVER} \(uroced, pid \d+\) is of uroce "
             rf"{re.escape(version)}, and this .*uroce down", *program, code=1)
        out = case(f"{theirs}: status tells the version", rf"of uroce {re.escape(version)}\n", f"{theirs}/bin/uroce",
                   "status")
        tally.result(f"{theirs}: status has no problem", "problem" not in out, "", out)
        case(f"{theirs}: stat", "daemon", f"{theirs}/bin/uroce", "stat", "--all")
        case(f"{theirs}: uroce down", "gone", f"{theirs}/bin/uroce", "down")
        harness.until(20, lambda: not machine.daemons())
        case(f"{theirs}: then a program runs", "hca_id", *program[:5], "ibv_devinfo")
        harness.until(20, lambda: not machine.daemons())
        must_end(tally, f"two devices, the server of {mine}", pair(machine, (mine, theirs), 18620, ["-n", "500"]))
        harness.until(20, lambda: not machine.daemons())
    case.sh("that version is removed", r"\A\Z", f"rm -rf {OLD}")


def leftovers(before, after):
    """@return what is there now and was not, and what was there and is not any more"""
    def ours(files):
        return {(path, kind) for path, kind in files.items() if not BOOKS.match(path)}
    return sorted(ours(after) ^ ours(before))


def life(tally, tree, work, debs, newer, other, version, mpi_check):
    with Machine(tree, work) as machine:
        case = Case(tally, machine)
        depends = subprocess.run(["dpkg-deb", "-f", debs["uroce"], "Depends"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        code, out = machine.run(*GET, "install", *PROGRAMS, seconds=600)
        tally.result("Debian's programs are installed", code == 0, f"exit code {code}", out)
        case("what uroce depends on is installed", "", *GET, "satisfy",
             f"{depends}, libibverbs-dev, iproute2, tcpdump", seconds=300)
        machine.put(mpi_check, "/opt/mpi_check")
        before = machine.files()
        case("install", "Setting up uroce", *GET, "install", *ours(debs, work))
        tally.result("all are installed", sorted(machine.installed()) == list(OURS), str(machine.installed()))
        use(tally, machine, machine.installed().get("uroce", "?"))
        header(tally, machine)
        upgrade(tally, machine, work, newer, version)
        use(tally, machine, version)
        side_by_side(tally, machine, work, debs)
        protocols(tally, machine, work, other)
        case("a device is kept", "stays", "uroce", "up", "127.0.0.3")
        kept = machine.daemons()
        last = pair(machine, ("/usr", "/usr"), 18630, ["-D", "10"])
        harness.until(20, lambda: re.search(r'"qps": [1-9]', machine.run("uroce", "status", "--json")[1]))
        case("remove", "Removing uroce", *GET, "remove", *OURS)
        tally.result("the kept daemon has ended", len(kept) == 1 and harness.until(20, lambda: not set(kept) & set(
            machine.daemons())), str(machine.daemons()))
        must_end(tally, "a pair that was in use", last)
        tally.result("none is installed", machine.installed() == {}, str(machine.installed()))
        tally.result("nothing is left after the removal", not leftovers(before, machine.files()), "files differ",
                     "\n".join(map(str, leftovers(before, machine.files()))))
        case("install again", "Setting up uroce", *GET, "install", inside(debs["uroce"], work))
        case("purge", "Removing uroce", *GET, "purge", "uroce")
        tally.result("nothing is left after the purge", not leftovers(before, machine.files()), "files differ",
                     "\n".join(map(str, leftovers(before, machine.files()))))
        tally.result("no daemon runs on", harness.until(20, lambda: not machine.daemons()), "one does",
                     str(machine.daemons()))


def books():
    """@return what the package manager of this machine knows of the packages that the test installs elsewhere"""
    return subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", "uroce*",
                           *PROGRAMS], capture_output=True, text=True, check=False).stdout


def main():
    args = harness.options(__doc__, ("--release", "in trees of this release, such as debian-13", ""))
    harness.need_root()
    harness.need_programs("debootstrap", "dpkg-deb", "unshare", "nsenter", "setpriv")
    name = args.release or builds.release()
    if not args.release:
        harness.need_programs("dpkg-buildpackage", "dh", "lintian")
        if not name or not name.startswith("debian-"):
            harness.skip("this machine is no Debian that scripts/distribution has a tree of")
    work = os.path.abspath(os.path.join(args.build, "-".join(filter(None, ["package", args.release]))))
    os.makedirs(work, exist_ok=True)
    tree, status = builds.bare_tree(work, name), books()
    builder = (builds.There if args.release else builds.Here)(work, name)
    mpi_check = builder.mpi_check()
    tally = harness.Tally("package")
    debs = builds.build(tally, builder, work)
    version = f"{os.path.basename(debs['uroce']).split('_')[1]}+1"
    newer = builds.build(tally, builder, work, version)
    other = builds.build(tally, builder, work, f"{version}+protocol", builds.another_protocol(work))
    if not args.release:
        builds.rpms(tally, work)
    try:
        download(tree, work, [*ours(debs, work), inside(debs["uroce-uplink"], work)])
        on_bare_tree(tally, tree, work, debs)
        life(tally, tree, work, debs, newer, other, version, mpi_check)
    except trees.Unavailable as why:
        harness.skip(f"no root file system can be made here: {why}")
    tally.result("the packages of this machine are as before", books() == status, "they are not")
    tally.finish()


if __name__ == "__main__":
    main()
