#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""UROCE_KEY in real programs, over the kernel's UDP (conformance point SE-08): with the same key they can talk, with
another or none they are refused, and the counters say why."""
import json
import os
import re
import shutil
import stat
import tempfile

import harness

ADDRESS = f"127.{2 + os.getpid() % 250}.13.1"
PEER = f"127.{2 + os.getpid() % 250}.13.2"
SIDES = (harness.Side(ADDRESS), harness.Side(PEER))
UDP = {"UROCE_RING": "off"}
PINGPONG = ["ibv_rc_pingpong", "-g", "0", "-n", "500", "-c"]


def counters(address):
    """@return counters of the process that has the device; {} when there is none."""
    said = harness.uroce("stat", address, "--json")
    devices = json.loads(said.stdout)["devices"] if said.returncode == 0 else []
    return {name: c["value"] for device in devices for name, c in device.get("nic", {}).items()}


def key_file(folder, name, digits):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(digits + "\n")
    return path


def key__SE_08_programs_with_one_key_talk(tally, key):
    env = {**UDP, "UROCE_KEY": key}
    for argv in (PINGPONG + ["-p", "PORT"], ["ibv_ud_pingpong", "-g", "0", "-n", "200", "-s", "1000", "-p", "PORT"],
                 ["ib_write_bw", "-F", "-s", "65536", "-n", "200", "-p", "PORT"],
                 ["ib_atomic_lat", "-F", "-n", "200", "-p", "PORT"]):
        if not shutil.which(argv[0]):
            print(f"     ({argv[0]} is not installed)")
            continue
        ok, reason, server, client = harness.run_pair(argv, argv + [ADDRESS], SIDES, 60, env)
        tally.result(f"{argv[0]} with a key", ok and "invalid data" not in server + client, reason, server, client)


def key__SE_08_captures_show_tags(tally, key, folder):
    if not shutil.which("tshark"):
        print("     (tshark is not installed: no capture)")
        return
    path = os.path.join(folder, "keyed.pcapng")
    with harness.kept_device(tally, "a device for the capture", ADDRESS):
        capture = harness.Process([harness.UROCE, "capture", path, "--device", ADDRESS, "--count", "100"])
        started = harness.until(20, lambda: os.path.exists(path) and "capturing" in capture.output())
        argv = PINGPONG + ["-p", "PORT"]
        ok, reason, *_ = harness.run_pair(argv, argv + [ADDRESS], SIDES, 60, {**UDP, "UROCE_KEY": key})
        tally.result("capture with a key", started and ok and capture.wait(20) == 0, reason, capture.output())
    said = harness.tshark(path, "-T", "fields", "-e", "infiniband.bth.tver", "-e", "uroce.tag",
                          script=harness.DISSECTOR)
    lines = said.stdout.splitlines()
    good = [line for line in lines if re.fullmatch(r"15\t[0-9a-f]{16}", line)]
    tally.result("tshark shows a tag in each packet", len(lines) >= 100 and good == lines,
                 f"{len(good)} of {len(lines)}", said.stderr)


def refused(tally, name, keys, counter):
    """A server and a client with these keys (None: no key): the client gets no answer, the server counts the reason."""
    port = str(harness.free_port())
    argv = PINGPONG + ["-p", port]
    env = [{**UDP, **({"UROCE_KEY": key} if key else {})} for key in keys]
    server = harness.Process(argv, SIDES[0], env[0])
    client = None
    try:
        server.wait_listen(int(port), 20)
        client = harness.Process(argv + [ADDRESS], SIDES[1], env[1])
        code = client.wait(60)
        found = counters(ADDRESS)
        tally.result(f"{name}: the client's requests fail",
                     code not in (0, None) and "transport retry counter exceeded" in client.output(),
                     f"exit code {code}", client.output())
        tally.result(f"{name}: {counter} says why", found.get(counter, 0) >= 2 and found.get("rx_packets") == 0,
                     str({n: v for n, v in found.items() if v}))
    finally:
        server.kill()
        if client:
            client.kill()


def key__SE_08_others_are_refused(tally, key, other):
    refused(tally, "a client without a key", (key, None), "rx_key_missing")
    refused(tally, "a client with another key", (key, other), "rx_key_wrong")
    refused(tally, "a server without a key", (None, key), "rx_key_unknown")


def key__SE_08_shared_memory_has_no_tags(tally, key):
    """Processes of one user, with and without the key, reach each other through shared memory, because the kernel
    vouches for them."""
    argv = PINGPONG + ["-p", "PORT"]
    ok, reason, *outputs = harness.run_pair(argv, argv + [ADDRESS], SIDES, 60, {"UROCE_KEY": key})
    tally.result("through shared memory, with a key", ok, reason, *outputs)


def key__SE_08_a_wrong_setting_says_so(tally, key, folder):
    open_to_all = key_file(folder, "open", "00" * 16)
    os.chmod(open_to_all, stat.S_IRUSR | stat.S_IWUSR | stat.S_IROTH)
    for value, words in (("", "UROCE_KEY is empty"),
                         ("/nonexistent/key", "cannot read '/nonexistent/key': No such file"),
                         (open_to_all, "chmod 600"), (key_file(folder, "short", "00" * 15), "holds no key")):
        process = harness.Process(["ibv_devinfo"], SIDES[0], {"UROCE_KEY": value})
        code = process.wait(30)
        said = process.output()
        tally.result(f"UROCE_KEY={os.path.basename(value)}: one message, and no device",
                     code != 0 and said.count("UROCE_KEY") >= 1
                     and words in said, f"exit code {code}", said)


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_rc_pingpong", "ibv_devinfo")
    tally = harness.Tally("key")
    with tempfile.TemporaryDirectory() as folder:
        key, other = key_file(folder, "key", "000102030405060708090a0b0c0d0e0f"), key_file(folder, "other", "ff" * 16)
        probe = harness.Process(["ibv_devinfo"], SIDES[0], {"UROCE_KEY": key})
        if probe.wait(30) != 0 and "without libsodium" in probe.output():
            print("this build has no libsodium, and so no tags")
            raise SystemExit(harness.SKIP)
        key__SE_08_programs_with_one_key_talk(tally, key)
        key__SE_08_captures_show_tags(tally, key, folder)
        key__SE_08_others_are_refused(tally, key, other)
        key__SE_08_shared_memory_has_no_tags(tally, key)
        key__SE_08_a_wrong_setting_says_so(tally, key, folder)
    tally.finish()


if __name__ == "__main__":
    main()
