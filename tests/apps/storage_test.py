#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Storage and virtual machines over librdmacm, Debian's programs unmodified: fio; iSER by tgt with qemu-io and with
libiscsi's own tests; live migration of a running guest by QEMU. Through shared memory and by the kernel's UDP."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import cm
import harness

PORT = 7321      # of the device, not a TCP port
ISER_PORT = 7322
MIB = 1 << 20


# ---- fio ------------------------------------------------------------------------------------------------------------

def fio_pair(sides, env, verb, depth, server_more=(), client_more=()):
    common = ["fio", "--thread", "--ioengine=rdma", f"--port={PORT}", "--bs=64k", "--size=16m",
              "--verify_state_save=0"]
    # The server posts a receive for each message before the first one comes: fio's connections do not wait for receives
    # (rnr_retry_count is 0), and a server that is not scheduled for a moment would lose its client.
    return cm.pair([*common, "--name=server", "--rw=read", "--iodepth=256", *server_more],
                   [*common, "--name=client", "--rw=write", f"--hostname={sides[0].address}", f"--verb={verb}",
                    f"--iodepth={depth}", "--iodepth_batch_complete=1", *client_more], sides, env)


def fio(tally, how, sides, env):
    checked = ["--verify=crc32c"], ["--verify=crc32c", "--do_verify=0"]
    for name, *arguments in (("write", "write", 16), ("read", "read", 16), ("send", "send", 1),
                             ("send, data verified", "send", 1, *checked)):
        ok, reason, *outputs = fio_pair(sides, env, *arguments)
        if not ok and "RNR retry" in outputs[1]:  # the client waits only 0.5 s for the server's receives
            print(f"once more: fio, {name}, {how}: {reason}", flush=True)
            ok, reason, *outputs = fio_pair(sides, env, *arguments)
        tally.result(f"fio, {name}, {how}", ok and all("err= 0" in output for output in outputs), reason, *outputs)
    ok, reason, *outputs = fio_pair(sides, env, "send", 1, checked[0])
    tally.result(f"fio sees data that are wrong, {how}", not ok and "verify: bad" in outputs[0], reason, *outputs)


# ---- iSER -----------------------------------------------------------------------------------------------------------

class Target:
    """tgtd with one LUN of 32 MiB on a file."""

    NAME = "iqn.2026-11.uroce:lun"
    USERS = "iqn.2026-11.uroce:user", "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test"

    def __init__(self, folder, side, env):
        self.side = side
        self.file = os.path.join(folder, "lun")
        self.env = dict(env, TGT_IPC_SOCKET=os.path.join(folder, "control"))
        with open(self.file, "wb") as f:
            f.truncate(32 * MIB)
        self.process = harness.Process(["tgtd", "-f", "--iscsi", f"portal={side.host}:{harness.free_port()}", "--iser",
                                        f"port={ISER_PORT},pool_sz_mb=128"], side, self.env)

    def control(self, *argv):
        return subprocess.run(["tgtadm", "--lld", "iser", *argv], env=dict(os.environ, **self.env), timeout=20,
                              capture_output=True, text=True, check=False)

    def set_up(self):
        """@return whether all of it succeeded"""
        target = ["--mode", "target", "--tid", "1"]
        orders = [[*target, "--op", "new", "--targetname", self.NAME],
                  ["--mode", "logicalunit", "--tid", "1", "--op", "new", "--lun", "1", "--backing-store", self.file],
                  [*target, "--op", "bind", "--initiator-address", "ALL"]]
        orders += [[*target, "--op", "bind", "--initiator-name", user] for user in self.USERS]
        return harness.until(20, lambda: self.control("--mode", "target", "--op", "show").returncode == 0) and \
            all(self.control(*order).returncode == 0 for order in orders)

    def url(self):
        return f"iser://{self.side.address}:{ISER_PORT}/{self.NAME}/1"

    def options(self):
        return (f"driver=iscsi,transport=iser,portal={self.side.address}:{ISER_PORT},target={self.NAME},lun=1,"
                f"initiator-name={self.USERS[0]}")


def iser_io(tally, how, target, side, env, folder):
    """qemu-io writes and reads patterns and random data; the target's file has the same data afterwards. Requests of at
    most 128 KiB: libiscsi 1.19 has no buffers for longer ones."""
    noise = os.path.join(folder, "noise")
    with open(noise, "wb") as f:
        f.write(os.urandom(128 << 10))
    orders = [f"write -P {i + 1} {128 * i}k 128k" for i in range(64)]
    orders += [f"read -P {i + 1} {128 * i}k 128k" for i in range(64)]
    orders += [f"write -s {noise} 16M 128k", "read -P 65 0 512"]
    argv = ["qemu-io", "--image-opts", target.options()] + [word for order in orders for word in ("-c", order)]
    process = harness.Process(argv, side, env)
    code, said = process.wait(60), process.output()
    tally.result(f"iSER, written and read, {how}", code is not None and said.count("wrote ") == 65 and
                 said.count("read ") == 65 and said.count("Pattern verification failed") == 1, f"exit code {code}",
                 said)
    with open(target.file, "rb") as f, open(noise, "rb") as n:
        data, wanted = f.read(), b"".join(bytes([i + 1]) * (128 << 10) for i in range(64))
        tally.result(f"iSER, the target's file, {how}",
                     data[:8 * MIB] == wanted and data[16 * MIB:][:128 << 10] == n.read())


def iscsi_test(suite, target, side, env):
    """Run a suite of libiscsi. Its thread for CM events reads a connection that its main thread may have freed: if that
    ends it, try again. @return exit code, output"""
    for _ in range(3):
        process = harness.Process(["iscsi-test-cu", "-d", "-n", "-t", f"SCSI.{suite}", target.url()], side, env)
        code, said = process.wait(60), process.output()
        if code != -signal.SIGSEGV:
            break
    return code, said


def iser_suites(tally, how, target, side, env):
    for suite in ("Read16", "Write16", "CompareAndWrite", "WriteVerify16"):
        code, said = iscsi_test(suite, target, side, env)
        tally.result(f"iSER, libiscsi's {suite}, {how}", code == 0 and "asserts" in said and "FAILED" not in said,
                     f"exit code {code}", said)


def iser(tally, how, sides, env):
    # libiscsi 1.19 reads memory that it has not initialized: spare it the pattern with which meson fills such memory.
    env = dict(env, MALLOC_PERTURB_="0")
    with tempfile.TemporaryDirectory() as folder:
        target = Target(folder, sides[0], env)
        if target.set_up():
            iser_io(tally, how, target, sides[1], env, folder)
            iser_suites(tally, how, target, sides[1], env)
        else:
            tally.result(f"iSER, {how}", False, "tgtd does not start", target.process.output())
        target.process.kill()


# ---- QEMU -----------------------------------------------------------------------------------------------------------

class Machine:
    """QEMU with the guest of guest/tick.S, stopped by kill."""

    def __init__(self, name, folder, side, env, *more):
        self.serial, control = os.path.join(folder, name), os.path.join(folder, name + ".control")
        self.process = harness.Process(
            ["qemu-system-x86_64", "-accel", "tcg", "-m", "128", "-display", "none", "-nodefaults", "-drive",
             f"file={folder}/tick,format=raw,if=floppy,readonly=on", "-serial", f"file:{self.serial}", "-qmp",
             f"unix:{control},server,nowait", *more], side, env)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        harness.until(20, lambda: self.socket.connect_ex(control) == 0)
        self.lines = self.socket.makefile("rw")
        self.lines.readline()  # the greeting
        self.do("qmp_capabilities")

    def do(self, command, **arguments):
        """@return what the command returned, or its error"""
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            said = json.loads(self.lines.readline())
            if "return" in said or "error" in said:
                return said.get("return", said)

    def ticks(self):
        """@return the complete lines that the guest has printed"""
        with open(self.serial) as f:
            return [line for line in f.read().split("\n")[:-1] if len(line) == 9]


def guest_make(folder):
    source = os.path.join(harness.ROOT, "tests", "apps", "guest", "tick.S")
    subprocess.run(["as", "--32", "-o", f"{folder}/tick.o", source], check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-o", f"{folder}/tick",
                    f"{folder}/tick.o"], check=True)


def migrate(source, target, uri, pin):
    """@return how the migration ended"""
    for machine in (target, source):
        machine.do("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin}])
    target.do("migrate-incoming", uri=uri)
    source.do("migrate", uri=uri)
    return harness.until(60, lambda: source.do("query-migrate").get("status") in ("completed", "failed")) and \
        source.do("query-migrate")


def migration(tally, how, sides, env, pin):
    """The guest goes on counting where it was, and its memory is intact."""
    with tempfile.TemporaryDirectory() as folder:
        guest_make(folder)
        target = Machine("target", folder, sides[0], env, "-incoming", "defer")
        source = Machine("source", folder, sides[1], env)
        harness.until(20, lambda: len(source.ticks()) > 10)
        ended = migrate(source, target, f"rdma:{sides[0].address}:{PORT}", pin)
        alive = harness.until(20, lambda: len(target.ticks()) > 10) and target.do("query-status").get("running")
        source.process.kill()
        target.process.kill()
        last, first = (int(line[1:], 16) for line in (source.ticks()[-1], (target.ticks() or [".0"])[0]))
        tally.result(f"QEMU's live migration{', all memory pinned' if pin else ''}, {how}",
                     ended and ended["status"] == "completed" and alive and last < first <= last + 3 and
                     not any(line[0] == "X" for line in target.ticks()),
                     f"{ended}, alive: {alive}, last and first line: {last} {first}", source.process.output(),
                     target.process.output())


# ---- all ------------------------------------------------------------------------------------------------------------

def has(*names):
    """Whether the programs are installed; reported as skipped otherwise."""
    missing = [name for name in names if not shutil.which(name)]
    if missing:
        print(f"SKIP: {', '.join(missing)}: not installed", flush=True)
    return not missing


def main():
    harness.options(__doc__)
    # scripts/test only unpacks tgt.
    os.environ["PATH"] += f":{os.environ['UROCE_BUILD']}/peers/tgt/usr/sbin"
    tally = harness.Tally("storage")
    for how, sides, env in (("shared memory", harness.one_device_sides(11), {}),
                            ("UDP", harness.one_device_sides(11), cm.UDP),
                            ("two devices", harness.loopback_sides(12), {})):
        if has("fio"):
            fio(tally, how, sides, env)
        if has("tgtd", "tgtadm", "qemu-io", "iscsi-test-cu"):
            iser(tally, how, sides, env)
        if has("qemu-system-x86_64", "as", "ld"):
            for pin in (False, True):
                migration(tally, how, sides, env, pin)
    tally.finish()


if __name__ == "__main__":
    main()
