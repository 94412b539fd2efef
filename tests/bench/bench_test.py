#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of scripts/bench itself: how it reads the programs' output, what it calculates, what it draws.

Nothing here checks how long anything took.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import comparisons
import measure
import plot
import report
import harness
from measure import Sample

LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]  t_stdev[usec]  99% percentile[usec]
 8       5000          4.28           18049.88      6.88     \t       45.78       \t298.57 \t\t102.64  \t\t8050.40
"""
BANDWIDTH = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      16384            0.00               2000.00 \t\t   0.032000
"""
UCX = """
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
[thread 0]               125   4000.029  4031.944  4031.944        0.00       0.00         248         248
Final:                100000      0.120     0.896     5.935        8.51       1.29     1115878      168493
"""


def equal(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


class Fixed(measure.Source):
    """Yields given numbers; None stands for a failure."""

    def __init__(self, label, numbers, ours=False):
        super().__init__(label, 1)
        self.numbers, self.ours = list(numbers), ours

    def attempt(self, iterations):
        number = self.numbers.pop(0)
        if number is None:
            raise measure.Failed("no luck")
        return Sample(number, None)


def outcome_of(ours, other, *targets):
    outcome = report.Outcome(comparisons.Comparison("here", "this", "us", [Fixed("uroce", ours, True),
                                                                             Fixed("peer", other)], targets))
    for _ in ours:
        for source, figure in zip(outcome.comparison.sources, outcome.figures):
            try:
                figure.add(source.measure())
            except measure.Failed as failure:
                figure.add(None, str(failure))
    return outcome


def test_perftest_typical_is_the_latency():
    source = measure.Perftest("", "ib_send_lat", 8, 10, factor=2)
    rows = list(source.ROW.finditer(LATENCY))
    equal(len(rows), 1)
    equal(source.parse(rows[0].group(0)), Sample(2 * 6.88, 2 * 102.64))


def test_perftest_average_is_the_bandwidth():
    source = comparisons.write_bw(65536)
    equal(source.parse(source.ROW.search(BANDWIDTH).group(0)), Sample(2000 * 1.048576, None))
    rate = measure.Perftest("", "ib_write_bw", 8, 10)
    equal(rate.parse(rate.ROW.search(BANDWIDTH).group(0)), Sample(0.032, None))


def test_ucx_final_row_counts():
    for kind, wanted in (("us", 0.12), ("MB/s", 1.29 * 1.048576), ("M/s", 0.168493)):
        source = measure.Ucx("", "posix", "tag_lat", 8, 10, kind)
        rows = list(source.ROW.finditer(UCX))
        equal(len(rows), 2)
        equal(source.parse(rows[-1].group(0)).value, wanted)


def test_atomics_use_the_addresses():
    first, second = (side.devices for side in harness.loopback_sides())
    source = measure.Atomics("", ["rtt", "faa"], 10, "udp")
    equal(source.env(), {"UROCE_RING": "off", "UROCE_DEVICES": first})
    measure.Settings.addresses = 2
    try:
        equal(source.env(), {"UROCE_RING": "off", "UROCE_DEVICES": f"{first},{second}"})
    finally:
        measure.Settings.addresses = 1
    equal(measure.Atomics("", ["rtt", "faa"], 10).env(), {"UROCE_DEVICES": first})


def test_ratio_is_the_median_of_ratios():
    outcome = outcome_of([1, 10, 100], [10, 10, 10])
    equal(report.ratio(*outcome.figures), 1)
    outcome = outcome_of([1, 2, 30], [1, 20, 10])  # the ratio of the medians would be 0.2
    equal(report.ratio(*outcome.figures), 1)


def test_rounds_that_failed_are_left_out_and_said():
    outcome = outcome_of([1, None, 3], [1, 1, None])
    equal(outcome.ours().median(), 2)
    equal(report.ratio(*outcome.figures), 1)
    equal(report.failures([outcome]), ["no luck"])
    assert "1 of 3 rounds failed: no luck" in "\n".join(report.table([outcome]))
    outcome = outcome_of([None], [1])
    assert "FAILED: no luck" in "\n".join(report.table([outcome]))


def test_targets():
    at_most, at_least = comparisons.at_most, comparisons.at_least
    outcome = outcome_of([3], [2], at_most(3), at_most(2.9), at_most(1.5, "peer"), at_least(1.6, "peer"))
    equal([met for figure in outcome.figures for _, met in outcome.targets(figure)], [True, False, True, False])
    equal(report.tally([outcome]), (2, 2, 0))
    equal(report.tally([outcome_of([1], [None], at_most(1, "peer"))]), (0, 0, 1))


def test_a_run_that_does_not_end_is_shortened():
    class Crawling(measure.Source):
        tried = []

        def attempt(self, iterations):
            self.tried.append(iterations)
            if iterations > 100:
                raise measure.TooSlow
            return Sample(1, None)

    source = Crawling("", 10000)
    source.measure()
    source.measure()
    equal(source.tried, [10000, 1000, 100, 100])


def test_comparisons_make_sense():
    names = set()
    for comparison in comparisons.comparisons(with_sweep=True):
        labels = [source.label for source in comparison.sources]
        name = (comparison.section, comparison.name)
        assert name not in names and len(set(labels)) == len(labels), name
        names.add(name)
        assert comparison.sources[0].ours, name
        for target in comparison.targets:
            assert target.against in (None, *labels), (name, target.against)
    assert len(names) > 30, len(names)


def test_plots():
    sizes, labels = (8, 4096, 1 << 20), list(plot.STYLES) + ["a < b & c"]
    results = {"machine": {"cpus": 2, "cpu": "a <CPU>", "kernel": "6", "version": "1"}, "rounds": 3, "comparisons": [
        {"section": section, "size": size, "figures": [{"label": label, "median": size * 0.001 + 1} for label in labels]
         + [{"label": "none", "absent": "not here"}]}
        for section, _, _, _ in plot.PLOTS for size in sizes]}
    drawn = dict(plot.plots(results))
    equal(sorted(drawn), ["bandwidth.svg", "latency.svg"])
    for svg in drawn.values():
        root = xml.etree.ElementTree.fromstring(svg)
        texts = {e.text: float(e.get("y")) for e in root.iter("{http://www.w3.org/2000/svg}text")}
        equal(len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))), len(labels))
        equal(len(list(root.iter("{http://www.w3.org/2000/svg}circle"))), len(labels) * len(sizes))
        heights = sorted(texts[label] for label in labels)
        assert "none" not in texts
        assert all(b - a >= plot.LINE_HEIGHT - 1 for a, b in zip(heights, heights[1:])), heights
        assert heights[0] > plot.TOP - 10 and heights[-1] <= plot.HEIGHT - plot.BOTTOM + 5, heights
    equal(list(plot.plots({**results, "comparisons": []})), [])


def test_raw_programs():
    for name, tests in (("ring_raw", ("rtt", "rate")), ("pipe_raw", ("bw", "rtt")), ("eventfd_raw", ("rtt",)),
                        ("tcp_raw", ("bw", "rtt")), ("udp_raw", ("rtt",))):
        cpu = str(min(os.sched_getaffinity(0)))
        for test in tests:
            for cpus in ([], [cpu, cpu]):
                count = "2" if test == "bw" else "50"
                size = "8" if name == "eventfd_raw" else "50"
                argv = [os.path.join(os.environ["UROCE_BUILD"], "tests", "bench", name), test, size, count, *cpus]
                done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
                numbers = [float(text) for text in done.stdout.split()]
                assert done.returncode == 0 and len(numbers) == (2 if test == "rtt" else 1), (argv, done)
                assert all(number > 0 for number in numbers), (argv, done.stdout)


def test_triggers():
    """The cost of a trigger is the difference of two variants, both in functions that callgrind can tell apart."""
    bench = os.path.join(os.environ["UROCE_BUILD"], "tests", "bench")
    program = os.path.join(bench, "nic_trigger")
    for kind in ("send", "tsend", "write", "atomic", "fetch"):
        for what in ("plain", "triggered", "extra"):
            done = subprocess.run([program, kind, what, "160", "16"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and len(done.stdout.split()) == 1, (kind, what, done)
    for argv in (["send"], ["send", "plain", "7"], ["send", "plain", "16", "3"], ["nothing", "plain"], ["send", "odd"]):
        done = subprocess.run([program, *argv], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "usage" in done.stderr, (argv, done)
    with open(program, "rb") as f:
        names = f.read()
    assert b"plain_requests" in names and b"triggered_requests" in names


def bench():
    """@return scripts/bench as a module."""
    path = os.path.join(harness.ROOT, "scripts", "bench")
    loader = importlib.machinery.SourceFileLoader("bench_script", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_script", loader))
    loader.exec_module(module)
    return module


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress():
    """A terminal has one line, which is rewritten; a log has a line each SAY_EVERY seconds, the first at once."""
    for every, terminal, wanted in ((0, False, "a\nb\n"), (1e9, False, "a\n"),
                                    (1e9, True, "\r\033[Ka\r\033[Kb\r\033[K")):
        script, out = bench(), Terminal() if terminal else io.StringIO()
        script.SAY_EVERY = every
        with contextlib.redirect_stderr(out):
            for text in ("a", "b", ""):
                script.say(text)
        equal(out.getvalue(), wanted)


def test_folder_without_tests():
    with tempfile.TemporaryDirectory() as folder:
        for name, said in ((None, "is not a build folder"), ("build.ninja", "-Dtests=true")):
            if name:
                open(os.path.join(folder, name), "w", encoding="utf-8").close()
            done = subprocess.run([os.path.join(harness.ROOT, "scripts", "bench"), "--build", folder], text=True,
                                  capture_output=True, timeout=60)
            assert done.returncode == 1 and said in done.stderr, done


def main():
    harness.options(__doc__)
    tally = harness.Tally("bench")
    for name, test in [item for item in globals().items() if item[0].startswith("test_")]:
        try:
            test()
            tally.result(name[5:], True)
        except AssertionError as error:
            tally.result(name[5:], False, str(error))
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
