#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The uroce command when processes of other releases, of other users, or with nonsense to tell have names of uroce.

It runs in a network namespace of its own, because the command concerns all devices of a namespace."""
import json
import os
import struct
import tempfile
import time

import fake
import harness
import uroce_test
from uroce_test import ADDRESS, SIDES, functions, uroce, uroce_json


def another_version(tally):
    """A device whose processes are of another release: it is named, and the others can be used."""
    other, second, words = ADDRESS[:-1] + "9", ADDRESS[:-1] + "10", "speaks another version"
    uroce("up", ADDRESS)
    with fake.listening(fake.of_another_version, other, second):
        code, out, err = uroce("fault", ADDRESS, "--delay", "0us")
        tally.result("beside a device of another version", code == 0 and "1 device" in out, f"exit code {code}", err)
        code, out, err = uroce("fault", "show")
        tally.result("it is left out", code == 0 and words in err and min(other, second) in err,
                     f"exit code {code}", out + err)
        code, out, err = uroce("status")
        tally.result("and shown", code == 0 and words in out and ADDRESS in out, f"exit code {code}", out + err)
        devices = [device["addresses"] for device in uroce_json("status")["devices"]]
        tally.result("as one device with all its addresses", sorted([second, other]) in devices and
                     not any(other in addresses and len(addresses) == 1 for addresses in devices), str(devices))
        for place in (other, second):
            code, out, err = uroce("fault", place, "--delay", "0us")
            tally.result("and cannot be used", code == 1 and words in err, f"exit code {code}", out + err)
    functions_of_another_version(tally)
    answers_of_another_version(tally)
    uroce("down", ADDRESS)


def others_are_not_asked(tally):
    """Commands about one device do not wait for the processes of others, which may be stopped."""
    other, asked = ADDRESS[:-1] + "9", []

    def listener(request):
        asked.append(request)
        yield None
    uroce("up", ADDRESS)
    keep = harness.Process(["ibv_asyncwatch"], SIDES[0])
    harness.until(20, functions)
    with fake.listening(listener, other, f"{other}/1"):
        for argv in (("status", ADDRESS), ("status", ADDRESS, "--qps"), ("stat", ADDRESS), ("fault", ADDRESS, "clear")):
            code, out, err = uroce(*argv)
            tally.result(f"{' '.join(argv)}: no other device is asked", code == 0 and not asked,
                         f"exit code {code}, {asked}", out + err)
        uroce("status")
        tally.result("status: all devices are asked", len(asked) == 2, str(asked))
    keep.kill()
    uroce("down", ADDRESS)


def answers_of_another_version(tally):
    """A process of another release, whose protocol is another one, answers tools all the same: it is used as any."""
    from uroce_cmd.proto import Connection
    other, reason = ADDRESS[:-1] + "9", b"this is another user's"
    with Connection(f"\0uroce/{ADDRESS}", "it") as daemon:
        status = daemon.ask("status")
    status.update(device=other, gids=[{"gid": other}])
    status["daemon"]["version"] = "99.1"
    with fake.listening(fake.says(fake.OTHER_MAGIC, json.dumps(status)), other):
        code, out, err = uroce("status", other)
        tally.result("another version's daemon: status", code == 0 and "of uroce 99.1" in out and "problem" not in out,
                     f"exit code {code}", out + err)
        code, out, err = uroce("down", other)
        tally.result("another version's daemon: down", code == 0 and other in out, f"exit code {code}", out + err)
    refusal = fake.message(fake.OTHER_MAGIC, fake.REFUSED, struct.pack("=i", 1) + reason + bytes(8))
    with fake.listening(lambda _: [refusal], other):
        code, out, err = uroce("status", other)
        tally.result("another version's daemon refuses", "another version" in out and reason.decode() in out,
                     f"exit code {code}", out + err)
    version = uroce_json("status", ADDRESS)["devices"][0]["daemon"]["version"]
    tally.result("a daemon tells its version", uroce("--version")[1] == f"uroce {version}\n", version)
    # The other way round: a tool of another version asks the daemon.
    with Connection(f"\0uroce/{ADDRESS}", "it") as daemon:
        daemon.sock.send(fake.HEADER.pack(fake.OTHER_MAGIC, fake.TOOL, 6) + b"status")
        tally.result("a tool of another version is answered", daemon.answer()["device"] == ADDRESS, "it is not")


def functions_of_another_version(tally):
    """A daemon has been replaced, its processes go on with their old release, or another user's do: they are named."""
    for kind, words in ((fake.of_another_version, "speaks another version"),
                        (fake.silent, "may be of another version, or another user's")):
        with fake.listening(kind, f"{ADDRESS}/201"):
            who = f"function 201 of {ADDRESS}"
            code, out, err = uroce("status", ADDRESS)
            tally.result(f"a function that {words}: status", code == 0 and f"problem: {who} " in out and words in out,
                         f"exit code {code}", out + err)
            for argv in (("fault", "--loss", "1%"), ("fault", ADDRESS, "clear"), ("stat", "--qp", "0xc90001"),
                         ("capture", "/dev/null", "--device", ADDRESS, "--seconds", "0.3")):
                code, out, err = uroce(*argv)
                tally.result(f"a function that {words}: {argv[0]}", code == 1 and who in err and words in err
                             and "No process" not in out, f"exit code {code}", out + err)
            keep = harness.Process(["ibv_asyncwatch"], SIDES[0])
            harness.until(20, functions)
            code, out, err = uroce("fault", "clear")
            tally.result("the others are told", code == 0 and "1 process" in out and who in err, f"exit code {code}",
                         out + err)
            code, out, err = uroce("fault", ADDRESS, "clear")
            tally.result("an error says that one is not", code == 1 and "1 has not" in err and who in err,
                         f"exit code {code}", out + err)
            keep.kill()


def wrong_answers(tally, folder):
    """One process with wrong answers, which any user can be, does not keep commands from the others."""
    from uroce_cmd.proto import MAGIC, Connection, function_name
    stranger = ADDRESS[:-1] + "8"
    uroce("up", ADDRESS)
    keep = harness.Process(["ibv_asyncwatch"], SIDES[0])
    harness.until(20, functions)
    number = functions()[0]["function"]
    busy = []
    for _ in range(32):
        busy.append(Connection(function_name(ADDRESS, number), "it"))
        busy[-1].ask("status")
    code, out, err = uroce("status", ADDRESS)
    tally.result("a function with too many tools: status", code == 0 and "as many tools" in out, f"exit code {code}",
                 out + err)
    for tool in busy:
        tool.close()
    good = {"device": stranger, "daemon": {}, "gids": [{"gid": stranger}]}
    for what, kind, words in (
            ("nothing", fake.says(MAGIC, "{}"), "does not understand"),
            ("other keys", fake.says(MAGIC, json.dumps(good)), "does not understand"),
            ("no JSON", fake.says(MAGIC, "{"), "does not understand"),
            ("a deep list", fake.says(MAGIC, "[" * 30000), "does not understand"),
            ("an error", fake.says(MAGIC, "go away", -16), "go away"),
            ("no text", fake.says(MAGIC, '{"nic": [["\\ud800", 1, ""]]}'), "does not understand"),
            ("a short end", lambda _: [fake.message(MAGIC, fake.END, b"x")], "does not understand"),
            ("a stream", fake.endless(MAGIC, 30000, 0), "too long an answer"),
            ("a slow stream", fake.endless(MAGIC, 0, 0.1), "come to an end")):
        for name in (stranger, f"{ADDRESS}/202"):
            with fake.listening(kind, name):
                code, out, err = uroce("status")
                tally.result(f"{name} answers {what}: status", code == 0 and words in out and "ibv_asyncwatch" in out,
                             f"exit code {code}", out + err)
                if what == "a slow stream":
                    continue
                code, out, err = uroce("stat")
                tally.result(f"{name} answers {what}: stat", code == 0 and words in err and ADDRESS in out,
                             f"exit code {code}", out + err)
                code, out, err = uroce("fault", "clear")
                tally.result(f"{name} answers {what}: fault", code == 0 and words in err and "on 1 device, 1 process"
                             in out, f"exit code {code}", out + err)
    wrong_captures(tally, folder, MAGIC, number)
    claims = json.loads(uroce("status", "--json")[1])["devices"]  # the device of ADDRESS, said by another process
    tally.result("the stranger has gone", len(claims) == 1, str(claims))
    with Connection(f"\0uroce/{ADDRESS}", "it") as daemon:
        copy = daemon.ask("status")
    with fake.listening(fake.says(MAGIC, json.dumps(copy)), "0.0.0.1"):
        code, out, err = uroce("status")
        pid = uroce_json("status", ADDRESS)["devices"][0]["daemon"]["pid"]
        tally.result("a daemon tells of its own device only", code == 0 and "belongs to another process" in out
                     and pid == claims[0]["daemon"]["pid"], f"exit code {code}, pid {pid}", out + err)
    keep.kill()
    uroce("down", ADDRESS)


def dripping(tally):
    """Daemons whose answers drip, or do not come, cost the others nothing: all are asked at a time. One after the
    other they would take longer than the command may."""
    from uroce_cmd.proto import MAGIC
    places = [f"{ADDRESS.rsplit('.', 1)[0]}.{20 + n}" for n in range(8)]
    quiet = ADDRESS[:-1] + "7"
    uroce("up", ADDRESS)
    with fake.processes(fake.endless(MAGIC, 1, 0.1), *places), fake.processes(fake.endless(MAGIC, 0, 600), quiet):
        for argv in (("status",), ("fault", "clear")):
            code, out, err = uroce(*argv)
            tally.result(f"daemons that drip: {argv[0]}", code == 0 and all(
                f"the daemon of {place} does not come to an end" in out + err for place in places) and
                f"the daemon of {quiet} does not answer" in out + err, f"exit code {code}", out + err)
        daemons = {device["addresses"][0]: device["daemon"] for device in uroce_json("status")["devices"]}
        tally.result("the other one has answered", daemons.pop(ADDRESS, None) and not any(daemons.values()) and
                     sorted(daemons) == sorted([*places, quiet]), json.dumps(daemons))
    uroce("down", ADDRESS)


def function_status(address):
    return json.dumps({"device": "fake", "command": "fake", "mtu": 1024, "link": "up", "faults": 0, "qps": 1,
                       "gids": [{"address": address}]})


def dripping_functions(tally):
    """The same of functions that tell their status, but drip whatever else they are asked."""
    from uroce_cmd.proto import MAGIC
    stranger = ADDRESS[:-1] + "6"

    def drips(request):
        kind = fake.says(MAGIC, function_status(stranger)) if request == b"status" else fake.endless(MAGIC, 1, 0.1)
        yield from kind(request)
    uroce("up", ADDRESS)
    keep = harness.Process(["ibv_asyncwatch"], SIDES[0])
    harness.until(20, functions)
    numbers = range(1, 9)
    with fake.processes(drips, *(f"{stranger}/{number}" for number in numbers)):
        for argv, words in ((("stat",), "the daemon"), (("status", "--qps", "--cm"), "ibv_asyncwatch"),
                            (("fault", "--delay", "0us"), ""), (("fault", "show", "--json"), "ibv_asyncwatch")):
            code, out, err = uroce(*argv)
            tally.result(f"functions that drip: {' '.join(argv)}", code == (words == "") and words in out and all(
                f"function {number} of {stranger} does not come to an end" in out + err for number in numbers) and
                ("1 process has done it, 8 have not" in err or words), f"exit code {code}", out + err)
    keep.kill()
    uroce("down", ADDRESS)


def long_lists(tally):
    """Lists that come in many parts; one that is told from its beginning again and again, and one without an end."""
    from uroce_cmd.proto import MAGIC
    stranger, count = ADDRESS[:-1] + "6", 5000
    counters = dict.fromkeys(("tx_packets", "rx_packets"), 0)

    def tells(request):
        what, *start = request.split()
        start = int(start[0]) if start else 0
        qps = [{"qpn": n, "type": "RC", "state": "INIT", "counters": counters} for n in range(start, start + 40)]
        page = {"cm": [], what.decode(): qps, "next": start + 40 if start + 40 < count else 0}
        if what == b"cm":
            page = {"cm": [], "next": 7}
        yield from fake.says(MAGIC, function_status(stranger) if what == b"status" else json.dumps(page))(request)
    with fake.processes(tells, f"{stranger}/1"):
        code, out, err = uroce("status", "--qps", stranger)
        tally.result("a list of many parts", code == 0 and out.count("  QP 0x") == count, f"{out.count('  QP 0x')}",
                     err)
        code, out, err = uroce("status", "--cm", stranger)
        tally.result("a list that begins again", code == 0 and "does not understand" in out, f"exit code {code}",
                     out + err)

    def goes_on(request):
        page = {"qps": [{}] * 10000, "next": int(request.split()[1]) + 1} if b" " in request else {}
        yield from fake.says(MAGIC, json.dumps(page) if page else function_status(stranger))(request)
    with fake.processes(goes_on, f"{stranger}/1"):
        code, out, err = uroce("status", "--qps", stranger)
        tally.result("a list without an end", code == 0 and "does not understand" in out, f"exit code {code}",
                     out[:1000] + err)


def wrong_uplinks(tally):
    """A daemon that tells something else where its uplink is expected."""
    from uroce_cmd.proto import MAGIC, Connection
    stranger = ADDRESS[:-1] + "5"
    uroce("up", ADDRESS)
    with Connection(f"\0uroce/{ADDRESS}", "it") as daemon:
        status = {**daemon.ask("status"), "device": stranger, "gids": [{"gid": stranger}]}
    for uplink in (["net_null0"], "net_null0", 7):
        with fake.listening(fake.says(MAGIC, json.dumps({**status, "uplink": uplink})), stranger):
            for argv in (("up", f"{stranger}/uplink=net_null0"), ("status", stranger)):
                code, out, err = uroce(*argv)
                tally.result(f"an uplink told as {uplink!r}: {argv[0]}", code == (argv[0] == "up") and
                             "does not understand" in out + err and "Traceback" not in err, f"exit code {code}",
                             out + err)
    uroce("down", ADDRESS)


def asker_busy(tally):
    """A process whose time passes while the command is busy with others has answered, if its answer is there."""
    from uroce_cmd.proto import MAGIC, Connection, ask_all
    name = f"{ADDRESS}/205"

    def questions():
        yield "asked", lambda: Connection(f"\0uroce/{name}", "it"), "status"
        time.sleep(0.5)  # as an answer that takes long to read
    with fake.processes(fake.says(MAGIC, '{"a": 1}'), name):
        found = ask_all(questions(), 0.2)
    tally.result("an answer that waits counts", found == {"asked": {"a": 1}}, str(found))
    with fake.processes(fake.endless(MAGIC, 30000, 0), name):
        found = ask_all(questions(), 0.2)
    tally.result("one without an end does not", "come to an end" in str(found["asked"]) or "too long" in
                 str(found["asked"]), str(found))


def wrong_captures(tally, folder, magic, number):
    """A process that sends nonsense in the middle of a capture ends for itself only; what it has sent is kept."""
    path = os.path.join(folder, "wrong.pcapng")
    for what, last, words in (
            ("an error", fake.message(magic, fake.END, struct.pack("=i", -5)), f"function 203 of {ADDRESS}: "),
            ("a short packet", fake.message(magic, fake.PACKET, b"x"), "does not understand"),
            ("a packet with too many lost", fake.message(magic, fake.PACKET, b"\xff" * 24), "does not understand"),
            ("another version", fake.message(fake.OTHER_MAGIC, fake.PACKET), "speaks another version"),
            ("a refusal", fake.message(magic, fake.REFUSED, struct.pack("=i", 5) + b"go away\0"), "go away")):
        with fake.listening(fake.captured(magic, ADDRESS, [b"E" * 60] * 3, last), f"{ADDRESS}/203"):
            code, out, err = uroce("capture", path, "--seconds", "1")
            found = uroce_test.Pcapng(path)
            names = {name: index for index, name in enumerate(found.names)}
            own = next((index for name, index in names.items() if name.endswith("/203")), None)
            real = next((index for name, index in names.items() if name.endswith(f"/{number}")), None)
            tally.result(f"capture of a process that sends {what}", code == 0 and words in err and
                         found.statistics.get(own) == (3, 0) and found.statistics.get(real) == (0, 0) and
                         [packet[0] for packet in found.packets] == [own] * 3,
                         f"exit code {code}, {found.names}, {found.statistics}, {len(found.packets)} packets",
                         out + err)


def counted_captures(tally, folder):
    """With --count, what comes after the last packet that was wanted is not called lost."""
    from uroce_cmd.proto import MAGIC
    path = os.path.join(folder, "counted.pcapng")
    end = fake.message(MAGIC, fake.TEXT, b'{"seen": 1005, "lost": 1000}')
    kind = fake.captured(MAGIC, ADDRESS, [b"E" * 60] * 5, end, (0, 0, 7, 7, 900))
    with fake.listening(kind, f"{ADDRESS}/204"):
        for count, lost in ((2, 0), (4, 7)):
            code, _, err = uroce("capture", path, "--count", str(count))
            tally.result(f"capture --count {count}", code == 0 and f"{count} packets written" in err
                         and (f", {lost} lost: " in err if lost else "lost" not in err)
                         and uroce_test.Pcapng(path).statistics == {0: (count + lost, lost)}, f"exit code {code}, "
                         f"{uroce_test.Pcapng(path).statistics}", err)


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_asyncwatch", "ip")
    harness.own_namespace()
    tally = harness.Tally("uroce_wrong")
    another_version(tally)
    others_are_not_asked(tally)
    with tempfile.TemporaryDirectory() as folder:
        counted_captures(tally, folder)
        wrong_answers(tally, folder)
    dripping(tally)
    dripping_functions(tally)
    long_lists(tally)
    wrong_uplinks(tally)
    asker_busy(tally)
    tally.finish()


if __name__ == "__main__":
    main()
