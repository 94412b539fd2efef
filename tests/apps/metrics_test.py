#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce stat --openmetrics and --listen: names and values, requests that are wrong or too many, devices that go, and
what Prometheus and its promtool make of it, if they are there.

It runs in a network namespace of its own, because the command concerns all devices of a namespace."""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import fake
import harness

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(harness.ROOT, "scripts"))
FIRST, SECOND, STRANGER = harness.Side("127.0.0.1"), harness.Side("127.0.0.2"), "127.0.0.9"
DASHBOARD = os.path.join(harness.ROOT, "docs", "grafana.json")
SAMPLE = re.compile(r'([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)')
# The files of sysfs, as node_exporter reads them, and what it calls them.
FILES = {
    "port_xmit_data": "port_data_transmitted_bytes", "port_rcv_data": "port_data_received_bytes",
    "port_xmit_packets": "port_packets_transmitted", "port_rcv_packets": "port_packets_received",
    "unicast_xmit_packets": "unicast_packets_transmitted", "unicast_rcv_packets": "unicast_packets_received",
    "multicast_xmit_packets": "multicast_packets_transmitted", "multicast_rcv_packets": "multicast_packets_received",
    "port_xmit_discards": "port_discards_transmitted", "port_xmit_wait": "port_transmit_wait",
    "port_rcv_errors": "port_errors_received", "port_rcv_constraint_errors": "port_constraint_errors_received",
    "port_xmit_constraint_errors": "port_constraint_errors_transmitted",
    "port_rcv_switch_relay_errors": "port_receive_switch_relay_errors",
    "port_rcv_remote_physical_errors": "port_receive_remote_physical_errors", "VL15_dropped": "vl15_dropped",
    "out_of_buffer": "out_of_buffer_drops", "rnr_nak_retry_err": "rnr_nak_retry_packets_received"}


def parsed(text):
    """@return {(name, labels): value}. Each family has HELP and TYPE, once, before its samples."""
    found, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds, f"{name} comes twice"
            kinds[name] = kind
        elif not line.startswith("#"):
            assert SAMPLE.fullmatch(line), line
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert list(kinds)[-1] in (name, name.removesuffix("_total"), name.removesuffix("_info")), line
            assert f"# HELP {list(kinds)[-1]} " in text and (name, labels) not in found, line
            found[name, labels] = float(value)
    return found


def fetch(url, **headers):
    """@return (status, headers, text)"""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


class Endpoint:
    def __init__(self, *argv):
        self.process = harness.Process([harness.UROCE, "stat", *argv, "--listen", "127.0.0.1:0"])
        harness.until(20, lambda: "Ctrl-C" in self.process.output() or self.process.popen.poll() is not None)
        found = re.search(r"http://\S+", self.process.output())
        self.url = found.group() if found else ""
        self.port = urllib.parse.urlparse(self.url).port

    def scrape(self, **headers):
        return fetch(self.url, **headers)

    def values(self):
        return parsed(self.scrape()[2])

    def raw(self, data, wait=10):
        """@return what the endpoint answers to these bytes, until it ends the connection"""
        with socket.create_connection(("127.0.0.1", self.port), wait) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while more := sock.recv(1 << 16):
                answer += more
        return answer.decode()

    def end(self, signum=signal.SIGTERM):
        self.process.popen.send_signal(signum)
        return self.process.wait(20)


class Traffic:
    """A ping-pong between two devices that goes on."""

    def __init__(self):
        port = str(harness.free_port())
        argv = ["ibv_rc_pingpong", "-g", "0", "-p", port, "-n", "100000000"]
        self.server = harness.Process(argv, FIRST)
        self.server.wait_listen(int(port), 20)
        self.client = harness.Process([*argv, FIRST.address], SECOND)

    def runs(self, endpoint):
        values = endpoint.values()
        return all(values.get(("node_infiniband_port_packets_received_total", labels(side.address)), 0) > 1000
                   for side in (FIRST, SECOND))

    def end(self):
        self.server.kill()
        self.client.kill()


def labels(device):
    return f'device="{device}",port="1"'


def sources(tally):
    """The names that node_exporter has: the same sums as in the files of sysfs."""
    from uroce_cmd import metrics
    with open(os.path.join(harness.ROOT, "verbs_shim", "sysfs", "port_counters.def"), encoding="utf-8") as file:
        lines = re.findall(r"^(PORT|HW)_COUNTER\((\w+),\s*(.*?)\)$", file.read(), re.M | re.S)
    ours = {name: sorted(expression.split()) for name, expression, _ in metrics.NODE}
    missing = []
    for kind, name, expression in lines:
        metric = FILES.get(name, name).lower() + "_total"
        if kind == "HW" and metric not in ours:
            continue  # rxe's names, which node_exporter does not read
        words = re.sub(r"(NIC|PORT)\((\w+)\)", lambda m: f"{m[1].lower()}.{m[2]}", expression)
        words = words.replace(" / 4", "").split()
        if ours.get(metric) != ([] if words == ["0"] else sorted(words)):
            missing.append(metric)
    tally.result("node_exporter's names: sums as in port_counters.def", lines and not missing, str(missing))


def expected(device, group, name):
    """@return the metric of a counter that stat --json shows, and by what its values are divided"""
    name = name.removeprefix(group + "_")
    if name.endswith("_ns_max"):
        return f"uroce_{group}_{name[:-7]}_max_seconds", labels(device), 1e9
    return f"uroce_{group}_{name}" + ("" if name.endswith("_max") else "_total"), labels(device), 1


def counters():
    """@return {(metric, labels): value} by stat --json"""
    found = {}
    for device in json.loads(harness.uroce("stat", "--json", "--all").stdout)["devices"]:
        key = re.search(r"127\.[0-9.]+", device.pop("name")).group()
        for group, values in device.items():
            for name, counter in values.items():
                metric, with_labels, scale = expected(key, group, name)
                found[metric, with_labels] = counter["value"] / scale
    return found


def values_agree(tally, endpoint):
    """Each counter of stat --json, asked before and after, has its metric with a value between."""
    for what, ask in (("--listen", endpoint.values),
                      ("--openmetrics", lambda: parsed(harness.uroce("stat", "--openmetrics").stdout))):
        before, now, after = counters(), ask(), counters()
        wrong = [f"{key}: {before[key]} {now.get(key)} {after[key]}" for key in before
                 if not before[key] <= now.get(key, -1) <= after[key]]
        more = [key for key in now if key[0].startswith("uroce_") and key[0].endswith("_total") and key not in before]
        tally.result(f"{what}: the values of stat --json", len(before) > 200 and not wrong and not more,
                     f"{len(before)} counters", *wrong[:5], str(more[:5]))
        received = [now[f"node_infiniband_port_data_received_bytes_total", labels(side.address)]
                    for side in (FIRST, SECOND)]
        again = [now["uroce_nic_rx_bytes_total", labels(side.address)] for side in (FIRST, SECOND)]
        tally.result(f"{what}: two devices", received == again and min(received) > 0, str(received))
    code, headers, text = endpoint.scrape(Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    tally.result("OpenMetrics for those who ask for it", code == 200 and text.endswith("\n# EOF\n")
                 and headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
                 and "# TYPE uroce_nic_rx_bytes counter" in text and len(parsed(text)) > 300, text[-200:])
    only = parsed(harness.uroce("stat", "--openmetrics", FIRST.address).stdout)
    tally.result("one device only", only.get(("uroce_functions", labels(FIRST.address))) == 1
                 and ("uroce_functions", labels(SECOND.address)) not in only, str(len(only)))


def bad_requests(tally, endpoint):
    for request, status in (
            ("GET /metrics HTTP/1.0", 200), ("HEAD /metrics HTTP/1.1", 200), ("GET /metrics?x=1 HTTP/1.1", 200),
            ("GET / HTTP/1.0", 404), ("GET http://127.0.0.1/other HTTP/1.0", 404), ("POST /metrics HTTP/1.1", 405),
            ("DELETE /metrics HTTP/1.1", 405), ("BREW /metrics HTTP/1.1", 501), ("nonsense", 400),
            ("GET /metrics HTTP/9.9", 505), ("GET /metrics HTTP/x", 400), ("\x16\x03\x01", 400),
            ("GET /" + "a" * 70000 + " HTTP/1.0", 414),
            ("GET /metrics HTTP/1.0\r\n" + "\r\n".join(f"h{n}: x" for n in range(200)), 431)):
        text = endpoint.raw(request.encode() + b"\r\n\r\n")
        first = text.split("\r\n")[0] or text
        body = text.partition("\r\n\r\n")[2]
        tally.result(f"request {request[:40]!r}: {status}", first.split(" ")[1:2] == [str(status)], first)
        tally.result(f"request {request[:40]!r}: says why", body.endswith("\n") or request.startswith("HEAD"),
                     text[:300])


def many(tally, endpoint):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: endpoint.scrape()[0], range(40)))
    tally.result("eight scrapers at a time", answers == [200] * 40, str(answers))
    idle = [socket.create_connection(("127.0.0.1", endpoint.port), 10) for _ in range(80)]
    code = harness.until(10, lambda: endpoint_says(endpoint) == 503)
    tally.result("too many connections: 503", code, "another answer")
    for sock in idle:
        sock.close()
    tally.result("when they have gone", harness.until(20, lambda: endpoint_says(endpoint) == 200), "no answer")


def endpoint_says(endpoint):
    try:
        return endpoint.scrape()[0]
    except OSError:  # more than 64: it has closed the connection
        return None


def gone(tally, endpoint, traffic):
    """Processes and devices end while scrapers ask; what the processes have counted stays in the sums."""
    key = ("node_infiniband_port_packets_received_total", labels(FIRST.address))
    seen, problems, ended = [], [], []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        def look():
            while not ended:
                try:
                    seen.append(endpoint.values().get(key))
                except (OSError, AssertionError, AttributeError) as error:
                    problems.append(str(error))
        looks = [pool.submit(look) for _ in range(3)]
        harness.until(20, lambda: len(seen) > 5)
        traffic.end()
        harness.until(20, lambda: endpoint.values()["uroce_functions", labels(FIRST.address)] == 0)
        last = endpoint.values()[key]
        harness.uroce("down", FIRST.address)
        left = harness.until(20, lambda: key not in endpoint.values())
        ended.append(True)
        for one in looks:
            one.result()
    had = [value for value in seen if value is not None]
    tally.result("processes end: their counts stay", not problems and last >= max(had, default=1) > 0,
                 f"{last}, before {max(had, default=0)}", *problems[:3])
    tally.result("a device ends: so do its metrics", left and ("uroce_functions", labels(SECOND.address)) in
                 endpoint.values(), "still there, or not the other one")


def past(tally):
    """Sums over processes only grow, whatever ends, is silent, or takes another's number."""
    from uroce_cmd.metrics import Past
    count, most = ("nic", "a"), ("port", "b_max")
    one = Past()
    for pid, values, total in ((1, {count: 5, most: 9}, 5), (1, None, 5), (1, {count: 7, most: 9}, 7),
                               (2, {count: 1, most: 3}, 8), (2, {count: 0, most: 3}, 8)):
        one.learn(3, pid, values)
        one.keep_only([3])
        tally.result(f"function 3, process {pid}, {values}", one.total()[count] == total, str(one.total()))
    one.keep_only([])
    tally.result("no function", one.total() == {count: 8}, str(one.total()))


def strangers(tally, endpoint):
    """Whoever takes a function's name with nonsense to tell appears with no counter, and the others do."""
    from uroce_cmd.proto import MAGIC
    status = {"device": 'a"\\\n{}', "command": "x", "mtu": 1, "link": "up", "faults": 0, "qps": 0,
              "gids": [{"address": STRANGER}]}
    for what, stats in (("a name with a quote", {"nic": [['x"} 1', 1, ""]]}), ("no number", {"nic": [["a", "1", ""]]}),
                        ("a negative number", {"nic": [["a", -1, ""]]}), ("a bool", {"nic": [["a", True, ""]]}),
                        ("too many", {"nic": [[f"a{n}", 1, ""] for n in range(1500)]}),
                        ("nothing", []), ("a sentence of two lines", {"nic": [["a", 1, "x\ny\\"]]})):
        def answer(request, stats=stats):
            return fake.says(MAGIC, json.dumps(status if request.startswith(b"status") else stats))(request)
        with fake.listening(answer, f"{STRANGER}/1"):
            values = endpoint.values()
            good = what.startswith("a sentence")
            tally.result(f"a process that tells {what}", (("uroce_nic_a_total", labels(STRANGER)) in values) == good
                         and values["uroce_functions_silent", labels(STRANGER)] == (not good)
                         and ("uroce_functions", labels(SECOND.address)) in values, str(len(values)))
    twice = {"nic": [["a", 1, ""], ["nic_a", 2, ""]]}
    with fake.listening(lambda request: fake.says(MAGIC, json.dumps(
            {**status, "device": "alone"} if request.startswith(b"status") else twice))(request), f"{STRANGER}/1"):
        done = harness.uroce("stat", "alone", "--openmetrics")
        tally.result("a device by its name; two names that become one", done.returncode == 0 and
                     done.stdout.count(f'\nuroce_nic_a_total{{device="{STRANGER}"') == 1, done.stderr, done.stdout)
    with fake.listening(fake.of_another_version, f"{STRANGER}"):
        values = endpoint.values()
        tally.result("a device of another version", values["uroce_devices_refused", None] == 1
                     and values["uroce_devices", None] == 1, str(values["uroce_devices", None]))


def dripping(tally, endpoint):
    """Processes and a daemon whose counters drip: all are asked at a time. One after the other they would take longer
    than a scrape may."""
    from uroce_cmd.proto import MAGIC, Connection
    function = {"device": "slow", "command": "x", "mtu": 1, "link": "up", "faults": 0, "qps": 0,
                "gids": [{"address": STRANGER}]}
    with Connection(f"\0uroce/{SECOND.address}", "it") as daemon:
        status = {**daemon.ask("status"), "device": STRANGER, "gids": [{"gid": STRANGER}]}

    def drips(status):
        return lambda request: (fake.says(MAGIC, json.dumps(status)) if request.startswith(b"status") else
                                fake.endless(MAGIC, 1, 0.1))(request)
    slow = [f"{STRANGER}/{number}" for number in range(1, 9)]
    with fake.listening(drips(function), *slow), fake.processes(drips(status), STRANGER):
        values = endpoint.values()
    tally.result("processes that drip", values["uroce_functions_silent", labels(STRANGER)] == len(slow)
                 and values["uroce_device_problem", labels(STRANGER)] == 1, str(len(values)))
    tally.result("the others beside them", values["uroce_functions_silent", labels(SECOND.address)] == 0
                 and values["uroce_device_problem", labels(SECOND.address)] == 0
                 and ("uroce_nic_rx_packets_total", labels(SECOND.address)) in values
                 and ("uroce_daemon_joins_total", labels(SECOND.address)) in values, str(len(values)))


def command_line(tally, endpoint):
    for argv, code, words in ((["--listen", f"127.0.0.1:{endpoint.port}"], 1, "cannot listen on 127.0.0.1, port "),
                              (["--listen", "203.0.113.7:1"], 1, "cannot listen on 203.0.113.7"),
                              (["--listen", "eth0"], 2, "'eth0' is not an address"),
                              (["--listen", "127.0.0.1:70000"], 2, "is not an address"),
                              (["--listen", "--watch", "1"], 2, "take no --watch"),
                              (["--openmetrics", "--qp", "0x010001"], 2, "take no --qp"),
                              (["--openmetrics", "--listen", "127.0.0.1:0"], 2, "give one of them"),
                              (["127.0.0.77", "--listen"], 3, "no device '127.0.0.77'")):
        done = harness.uroce("stat", *argv)
        tally.result(f"uroce stat {' '.join(argv)}", done.returncode == code and words in done.stderr,
                     f"exit code {done.returncode}", done.stderr)
    from uroce_cmd import listen
    for text, place in (("", ("127.0.0.1", 9791)), (":1", ("127.0.0.1", 1)), ("::1", ("::1", 9791)),
                        ("[::1]:2", ("::1", 2)), ("0.0.0.0", ("0.0.0.0", 9791)), ("localhost:3", ("127.0.0.1", 3))):
        tally.result(f"--listen {text!r}", listen.place(text) == place, str(listen.place(text)))


def program(name):
    """@return a program of the package prometheus: installed, or unpacked by scripts/test."""
    unpacked = os.path.join(os.environ["UROCE_BUILD"], "peers", "prometheus", "usr", "bin", name)
    return unpacked if os.path.exists(unpacked) else shutil.which(name)


def promtool(tally, endpoint):
    if not program("promtool"):
        print("SKIP promtool: it is not there (package prometheus)", flush=True)
        return
    for what, text in (("--listen", endpoint.scrape()[2]),
                       ("--openmetrics", harness.uroce("stat", "--openmetrics").stdout)):
        done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True,
                              timeout=60, check=False)
        tally.result(f"promtool check metrics: {what}", done.returncode == 0 and not done.stdout + done.stderr,
                     f"exit code {done.returncode}", done.stdout + done.stderr)


def expressions():
    with open(DASHBOARD, encoding="utf-8") as file:
        board = json.load(file)
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found, found + [variable["query"] for variable in board["templating"]["list"]
                           if variable["type"] == "query"]


def dashboard(tally, endpoint):
    names = {name for name, _ in endpoint.values()}
    _, texts = expressions()
    used = set(re.findall(r"\b(?:uroce|node_infiniband)_\w+", " ".join(texts)))
    tally.result("dashboard: names that exist", len(used) > 20 and used <= names, str(used - names))


def prometheus(tally, endpoint, folder):
    """The real one reads the endpoint, in the format that it prefers, and answers what the dashboard asks."""
    if not program("prometheus"):
        print("SKIP prometheus: it is not there", flush=True)
        return
    config, port = os.path.join(folder, "prometheus.yml"), harness.free_port()
    with open(config, "w", encoding="utf-8") as file:
        file.write("global: {scrape_interval: 500ms}\nscrape_configs: [{job_name: uroce, static_configs: "
                   f"[{{targets: ['127.0.0.1:{endpoint.port}']}}]}}]\n")
    server = harness.Process([program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                              f"--web.listen-address=127.0.0.1:{port}"])

    def ask(text):
        try:
            answer = json.loads(fetch(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(text)}")[2])
            return answer["data"]["result"] if answer["status"] == "success" else answer["error"]
        except (OSError, ValueError):
            return []  # not yet
    packets = f'rate(uroce_nic_rx_packets_total{{device="{FIRST.address}"}}[30s])'
    ready = harness.until(60, lambda: any(float(row["value"][1]) > 0 for row in ask(packets)))
    tally.result("prometheus: it reads the endpoint", ready, str(ask("up")), server.output())
    for text in expressions()[0]:
        text = text.replace("$__rate_interval", "30s").replace("$instance", ".*").replace("$device", ".*")
        found = ask(text)
        tally.result(f"prometheus: {text}", isinstance(found, list) and found, str(found))
    server.kill()


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_rc_pingpong", "ip")
    harness.own_namespace()
    tally = harness.Tally("metrics")
    sources(tally)
    past(tally)
    for side in (FIRST, SECOND):
        harness.uroce("up", side.address)
    endpoint, traffic = Endpoint(), Traffic()
    tally.result("traffic", harness.until(30, lambda: traffic.runs(endpoint)), "none", traffic.client.output())
    values_agree(tally, endpoint)
    bad_requests(tally, endpoint)
    command_line(tally, endpoint)
    promtool(tally, endpoint)
    dashboard(tally, endpoint)
    with tempfile.TemporaryDirectory() as folder:
        prometheus(tally, endpoint, folder)
    many(tally, endpoint)
    gone(tally, endpoint, traffic)
    strangers(tally, endpoint)
    dripping(tally, endpoint)
    tally.result("SIGTERM ends it", endpoint.end() == 0, "another exit code", endpoint.process.output())
    tally.result("it has printed where it is, and no more", endpoint.process.output().count("\n") == 1, "more",
                 endpoint.process.output())
    other = Endpoint(SECOND.address)
    with socket.create_connection(("127.0.0.1", other.port), 10):
        tally.result("SIGINT ends it, while one is connected", other.end(signal.SIGINT) == 0, "another exit code")
    harness.uroce("down")
    tally.finish()


if __name__ == "__main__":
    main()
