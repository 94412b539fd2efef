# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU guest that runs the kernel's rdma_rxe, and the network it shares with this process.

The caller is in a network namespace of its own (see rxe.py), so everything created here vanishes with it.

    guest eth0 192.168.77.1 ── tap0 ┐
                                    ├ br0 192.168.77.254 (this namespace; uroce's udp port)
    uroce's ethdev port ── ve1 ─ ve0 ┘                    192.168.77.253, an address no kernel knows
"""
import ctypes
import os
import signal
import socket
import subprocess
import time

GUEST_IP, HOST_IP, ETHDEV_IP = "192.168.77.1", "192.168.77.254", "192.168.77.253"
TAP_MTU = 9000


def run(*command):
    subprocess.run(command, check=True)


def network_up():
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "tuntap", "add", "dev", "tap0", "mode", "tap")
    run("ip", "link", "add", "ve0", "type", "veth", "peer", "name", "ve1")
    for name in ("tap0", "ve0", "ve1", "br0"):
        run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
        # Room for a 3 MiB message at once: packets in the queue wait for an emulated CPU.
        run("ip", "link", "set", name, "mtu", str(TAP_MTU), "txqueuelen", "20000", "up")
    for name in ("tap0", "ve0"):
        run("ip", "link", "set", name, "master", "br0")
    run("ip", "addr", "add", HOST_IP + "/24", "dev", "br0")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Guest:
    def __init__(self, kernel, initramfs, folder, cpus=1, relay=None, persistent=False):
        self.console = os.path.join(folder, "console.log")
        if os.path.exists(self.console):
            os.unlink(self.console)
        accel = os.environ.get("UROCE_VM_ACCEL", "tcg,thread=multi")
        append = (f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check random.trust_cpu=1 "
                  f"ip4={GUEST_IP}/24 mtu={TAP_MTU}")
        netdev = f"dgram,id=n0,local.type=fd,local.str={relay.guests.fileno()}" if relay else \
            "tap,id=n0,ifname=tap0,script=no,downscript=no"
        command = ["qemu-system-x86_64", "-accel", accel, "-M", "pc", "-cpu", "max", "-smp", str(cpus), "-m", "640",
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial",
                   f"file:{self.console}", "-kernel", kernel, "-initrd", initramfs, "-append", append,
                   "-netdev", netdev, "-device",
                   f"virtio-net-pci,netdev=n0,mac=52:54:00:77:00:01,romfile=,host_mtu={TAP_MTU}"]
        if persistent:
            command[command.index("-M") + 1] += ",nvdimm=on"
            command[command.index("-m") + 1] += ",slots=1,maxmem=2G"
            command += ["-object", "memory-backend-ram,id=p0,size=64M", "-device", "nvdimm,memdev=p0"]
        with open(os.path.join(folder, "qemu.log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            pass_fds=[relay.guests.fileno()] if relay else [],
                                            preexec_fn=die_with_parent)

    def console_text(self):
        try:
            with open(self.console, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def wait_ready(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if "GUEST-READY" in self.console_text() and self.serves():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError("the guest did not come up; its console says:\n" + self.console_text()[-2000:])

    @staticmethod
    def serves():
        """@return whether the guest's shells can be reached: its server may start after it says that it is ready"""
        try:
            socket.create_connection((GUEST_IP, 7777), timeout=10).close()
        except OSError:  # nor may its network be up
            return False
        return True

    def start(self, script):
        """Start a shell script in the guest; @return the socket that carries its output."""
        channel = socket.create_connection((GUEST_IP, 7777), timeout=10)
        channel.sendall(b"exec 2>&1; export PATH=/bin:/sbin; ulimit -l unlimited; " + script.encode() +
                        b"; echo EXIT-CODE $?; exit\n")
        return channel

    @staticmethod
    def finish(channel, seconds):
        """Wait for the end of a script; @return (exit code or None, output)."""
        channel.settimeout(seconds)
        output = b""
        try:
            while b"EXIT-CODE " not in output or not output.endswith(b"\n"):
                data = channel.recv(65536)
                if not data:
                    break
                output += data
        except socket.timeout:
            pass
        channel.close()
        text, _, code = output.decode(errors="replace").rpartition("EXIT-CODE ")
        return (int(code) if code.strip().isdigit() else None), text

    def sh(self, script, seconds=30):
        code, text = self.finish(self.start(script), seconds)
        if code != 0:
            raise RuntimeError(f"in the guest: {script}: exit {code}: {text[-1000:]}")
        return text

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
