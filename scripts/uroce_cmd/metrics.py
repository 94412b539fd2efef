# SPDX-License-Identifier: BSD-3-Clause
"""Counters as metrics: their names for Prometheus, and the two text formats in which it reads them.

The port's counters have the names that node_exporter gives to those of InfiniBand and RoCE adapters, with the values
that the files of verbs_shim/sysfs/port_counters.def have; all counters have names of our own, uroce_GROUP_NAME. A
device is labelled with its first address: names such as uroce0 are each process's own."""
import re

from .devices import choose, without_others
from .proto import UroceError, ask_all, checked, clean, understood

GROUPS = ("nic", "port", "control", "cm", "fault")  # of a function
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
COUNTERS_MAX = 1024  # of one function: others are no counters of uroce
PATIENCE = 1.0  # seconds for all processes to answer: a scrape has to end before who asks gives up
STATES = {"up": (4, 5), "down": (1, 3)}  # state and physical state (IBTA 14.2.5.6), as sysfs has them
RATE = 100_000_000_000 // 8  # 4 lanes of EDR, as in verbs_shim/facts.h
# What node_exporter calls it, the counters that are its sum, what it means.
NODE = (
    ("port_data_received_bytes_total", "nic.rx_bytes", "Payload bytes received."),
    ("port_data_transmitted_bytes_total", "nic.tx_bytes", "Payload bytes sent."),
    ("port_packets_received_total", "nic.rx_packets", "Packets received."),
    ("port_packets_transmitted_total", "nic.tx_packets", "Packets sent."),
    ("unicast_packets_received_total", "nic.rx_packets - nic.rx_multicast", "Packets received, without multicast."),
    ("unicast_packets_transmitted_total", "nic.tx_packets - nic.tx_multicast", "Packets sent, without multicast."),
    ("multicast_packets_received_total", "nic.rx_multicast", "Multicast packets received."),
    ("multicast_packets_transmitted_total", "nic.tx_multicast", "Multicast packets sent."),
    ("port_discards_transmitted_total", "port.tx_too_long + port.tx_unreachable + port.tx_errors + port.tx_local_full"
     " + port.neigh_failed + port.neigh_queue_full", "Packets that could not be sent."),
    ("port_transmit_wait_total", "port.tx_busy", "Times transmission had to wait for room."),
    ("port_errors_received_total", "nic.rx_bad_ip + nic.rx_too_short + nic.rx_too_long + nic.rx_bad_version"
     " + nic.rx_bad_opcode + nic.rx_bad_pad + nic.rx_icrc_encapsulated + nic.rx_key_missing + nic.rx_key_wrong"
     " + nic.rx_key_unknown + port.rx_truncated", "Packets received that were damaged or malformed."),
    ("excessive_buffer_overrun_errors_total", "port.rx_no_room", "Packets lost because a receive buffer was full."),
    ("port_constraint_errors_received_total", "nic.bad_pkey", "Packets received with a wrong P_Key."),
    ("port_constraint_errors_transmitted_total", "", "Always 0: packets to be sent are subject to no filter."),
    ("port_receive_switch_relay_errors_total", "", "Always 0: the port belongs to no switch."),
    ("port_receive_remote_physical_errors_total", "", "Always 0: there is no physical layer."),
    ("symbol_error_total", "", "Always 0: there is no physical layer."),
    ("link_error_recovery_total", "", "Always 0: there is no physical layer."),
    ("link_downed_total", "", "Always 0: there is no physical layer."),
    ("local_link_integrity_errors_total", "", "Always 0: there is no physical layer."),
    ("vl15_dropped_total", "", "Always 0: RoCE has no virtual lanes."),
    ("duplicate_requests_packets_total", "nic.duplicate_request", "Duplicate requests received."),
    ("implied_nak_seq_errors_total", "nic.implied_nak_seq_err", "Responses that implied the loss of an earlier one."),
    ("local_ack_timeout_errors_total", "nic.local_ack_timeout_err", "Times the ACK timer of a QP expired."),
    ("out_of_buffer_drops_total", "nic.rcvd_rnr_sent + nic.ud_no_wqe", "Messages for which no receive was posted."),
    ("out_of_sequence_packets_received_total", "nic.out_of_sequence", "Requests received ahead of their turn."),
    ("packet_sequence_errors_total", "nic.packet_seq_err", "PSN sequence error NAKs received."),
    ("req_cqes_errors_total", "nic.req_cqe_error", "Requests that completed in error."),
    ("req_cqes_flush_errors_total", "nic.req_cqe_flush_error", "Send WRs flushed."),
    ("resp_cqes_errors_total", "nic.resp_cqe_error", "Receives that completed in error."),
    ("resp_cqes_flush_errors_total", "nic.resp_cqe_flush_error", "Receive WRs flushed."),
    ("rnr_nak_retry_packets_received_total", "nic.rnr_nak_retry", "RNR NAKs received."),
    ("rx_atomic_requests_total", "nic.rx_atomic_requests", "Atomic requests received."),
    ("rx_read_requests_total", "nic.rx_read_requests", "RDMA READ requests received."),
    ("rx_write_requests_total", "nic.rx_write_requests", "RDMA WRITE messages received."),
    ("rx_icrc_encapsulated_errors_total", "nic.rx_icrc_encapsulated", "Packets received with a wrong ICRC."),
)


def is_most(name):
    """Whether the value is a maximum so far, not a count."""
    return name.endswith("_max")


def summed(expression, values):
    """@return the value of "nic.a + port.b - nic.c": 0 for what the processes do not have"""
    total, sign = 0, 1
    for word in expression.split():
        if word in "+-":
            sign = -1 if word == "-" else 1
        else:
            total += sign * values.get(tuple(word.split(".")), 0)
    return max(total, 0)


def told(answer, groups, who):
    """@return ({(group, name): value}, {(group, name): sentence}) of an answer of ask_all to "stats". UroceError if it
    makes no sense."""
    values, sentences = {}, {}
    with understood(who):
        for group in groups:
            for name, value, sentence in checked(answer, who, {}).get(group, []):
                if not NAME.fullmatch(name) or type(value) is not int or not 0 <= value < 1 << 64:
                    raise ValueError
                values[group, name], sentences[group, name] = value, clean(sentence)
        if len(values) > COUNTERS_MAX:
            raise ValueError
    return values, sentences


def add_up(total, values):
    for key, value in values.items():
        total[key] = max(total.get(key, 0), value) if is_most(key[1]) else total.get(key, 0) + value


class Past:
    """What the functions of a device have counted, so that a sum over them only grows: the counters of a process end
    with it, those of one that does not answer are taken to be as they were."""

    def __init__(self):
        self.ended, self.last = {}, {}  # {counter: value}; {function's number: (pid, {counter: value})}

    def retire(self, number):
        _, values = self.last.pop(number)
        add_up(self.ended, {key: value for key, value in values.items() if not is_most(key[1]) and
                            (key in self.ended or len(self.ended) < COUNTERS_MAX)})

    def learn(self, number, pid, values):
        """`values` None: it has not answered."""
        if values is None:
            return
        if number in self.last:
            before_pid, before = self.last[number]
            if before_pid != pid or any(values.get(key, 0) < value for key, value in before.items()):
                self.retire(number)  # another process has its number now
        self.last[number] = (pid, values)

    def keep_only(self, numbers):
        for number in set(self.last) - set(numbers):
            self.retire(number)

    def total(self):
        total = dict(self.ended)
        for _, values in self.last.values():
            add_up(total, values)
        return total


class Collector:
    """Asks all devices, or the one that is named."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.past = {}  # {device's key: Past}
        self.sentences = {}

    def look_first(self):
        """A device that is named has to be there at first; UroceError otherwise."""
        if self.wanted:
            found = choose(self.wanted)
            without_others(found)
            self.wanted = found[0].key  # its name is known only as long as its processes answer

    def collect(self):
        """@return the families of metrics as of now"""
        families = Families()
        try:
            devices = choose(self.wanted, patience=PATIENCE)
        except UroceError:
            devices = []  # the one that is named has gone
        refused = [device for device in devices if device.refused]
        families.add("uroce_devices", "gauge", "Devices that this user may look at.", {}, len(devices) - len(refused))
        families.add("uroce_devices_refused", "gauge", "Devices of other users or of another version of uroce.", {},
                     len(refused))
        devices = [device for device in devices if not device.refused]
        self.past = {device.key: self.past.get(device.key) or Past() for device in devices}
        self.sentences = {}
        answers = ask_all(questions(devices), PATIENCE)
        for device in devices:
            self.device(families, device, answers)
        return families

    def device(self, families, device, answers):
        past, daemon = self.past[device.key], self.learn_daemon(device, answers)
        for function in device.functions:
            past.learn(function.number, function.pid, self.learn(function, answers))
        past.keep_only(function.number for function in device.functions)
        labels = {"device": device.key, "port": "1"}
        put_state(families, device, labels)
        total = past.total()
        for name, expression, sentence in NODE:
            families.add("node_infiniband_" + name, "counter", sentence, labels, summed(expression, total))
        rows = {}
        for key, value in {**total, **daemon}.items():
            row = described(*key, self.sentences.get(key, ""), value, labels)
            rows[row[0]] = row  # a process may tell two names that become one
        for row in rows.values():
            families.add(*row)

    def learn(self, function, answers):
        """@return the function's counters; None: it has not answered as it should"""
        if not function.status:
            return None
        try:
            values, sentences = told(answers[function], GROUPS, function.who)
        except UroceError:
            function.status = None
            return None
        self.sentences.update((key, value) for key, value in sentences.items() if key not in self.sentences)
        return values

    def learn_daemon(self, device, answers):
        if not device.daemon:
            return {}
        try:
            values, sentences = told(answers[device], ("daemon",), f"the daemon of {device.key}")
        except UroceError as error:
            device.daemon, device.problem = None, str(error)
            return {}
        self.sentences.update(sentences)
        return values


def questions(devices):
    """@return what ask_all takes, to those that have answered before"""
    for device in devices:
        for one in (device, *device.functions):
            if one.daemon if one is device else one.status:
                yield one, one.connect, "stats"


def put_state(families, device, labels):
    """What the device is and how it does."""
    daemon, statuses = device.daemon, [function.status for function in device.functions if function.status]
    links = [daemon["port"]] if daemon else [status["link"] for status in statuses]
    state, physical = STATES["up" if "up" in links else "down"]
    gauge = lambda name, sentence, value: families.add(name, "gauge", sentence, labels, value)  # noqa: E731
    gauge("node_infiniband_state_id", "State of the port: 1 down, 4 active.", state)
    gauge("node_infiniband_physical_state_id", "Physical state of the port: 3 disabled, 5 link up.", physical)
    gauge("node_infiniband_rate_bytes_per_second", "Rate that the port reports to programs; it is not limited to that.",
          RATE)
    families.add("uroce_device_info", "info", "The device: the name that most of its processes use, its interface.",
                 {**labels, "name": device.name, "interface": clean(daemon["interface"]) if daemon else ""}, 1)
    gauge("uroce_device_daemon", "Whether a daemon of the device is there and answers.", int(daemon is not None))
    gauge("uroce_device_problem", "Whether the device has a problem; uroce status says which.",
          int(bool(daemon["problem"] if daemon else device.problem)))
    gauge("uroce_functions", "Processes that have the device open, and answer.", len(statuses))
    gauge("uroce_functions_silent", "Processes that have the device open, but do not answer: their counters are those "
          "of their last answer.", len(device.functions) - len(statuses))
    gauge("uroce_queue_pairs", "Queue pairs.", sum(status["qps"] for status in statuses))


def described(group, name, sentence, value, labels):
    """@return the arguments of Families.add for a counter. Names have units in which Prometheus counts: seconds."""
    name = name.removeprefix(group + "_")
    if not is_most(name):
        return f"uroce_{group}_{name}_total", "counter", sentence, labels, value
    if name.endswith("_ns_max"):
        sentence = sentence.replace(" in ns ", " in seconds ")
        return f"uroce_{group}_{name.removesuffix('_ns_max')}_max_seconds", "gauge", sentence, labels, value / 1e9
    return f"uroce_{group}_{name}", "gauge", sentence, labels, value


def escaped(text, quotes=False):
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


class Families:
    """Metrics by name, in the order of their first mention: {name: (kind, sentence, [(labels, value)])}"""

    def __init__(self):
        self.all = {}

    def add(self, name, kind, sentence, labels, value):
        self.all.setdefault(name, (kind, sentence, []))[2].append((labels, value))

    def text(self, openmetrics=False):
        """@return them in Prometheus's text format 0.0.4, or in OpenMetrics 1.0.0"""
        lines = []
        for name, (kind, sentence, samples) in self.all.items():
            family = name
            if openmetrics and kind in ("counter", "info"):
                family = name.removesuffix("_total" if kind == "counter" else "_info")
            elif kind == "info":
                kind = "gauge"
            lines += [f"# HELP {family} {escaped(sentence, openmetrics)}", f"# TYPE {family} {kind}"]
            for labels, value in samples:
                inner = ",".join(f'{key}="{escaped(text, True)}"' for key, text in labels.items())
                lines.append(f"{name}{{{inner}}} {value}" if inner else f"{name} {value}")
        return "\n".join(lines + ["# EOF"] * openmetrics) + "\n"
