# SPDX-License-Identifier: BSD-3-Clause
"""The results of scripts/bench: samples by round, medians, ratios, verdicts; as a table and as JSON."""
import statistics


class Figure:
    """A source's samples, one for each round (None where it failed), or the reason why there are none."""

    def __init__(self, source, absent):
        self.label, self.ours, self.absent = source.label, source.ours, absent
        self.samples, self.failures = [], []

    def add(self, sample, failure=None):
        self.samples.append(sample)
        if failure:
            self.failures.append(failure)

    def values(self):
        return [sample.value for sample in self.samples if sample]

    def median(self):
        return statistics.median(self.values()) if self.values() else None

    def p99(self):
        tails = [sample.p99 for sample in self.samples if sample and sample.p99 is not None]
        return statistics.median(tails) if tails else None


def ratio(ours, other):
    """Median of the rounds' ratios: disturbances that affect both in one round cancel out. None without samples."""
    rounds = [a.value / b.value for a, b in zip(ours.samples, other.samples) if a and b and b.value]
    return statistics.median(rounds) if rounds else None


class Outcome:
    """A comparison with its figures."""

    def __init__(self, comparison):
        self.comparison = comparison
        self.figures = [Figure(source, source.absent()) for source in comparison.sources]

    def ours(self):
        return self.figures[0]

    def targets(self, figure):
        """@return (target, whether met or None) for our figure, or for its ratio to another one."""
        for target in self.comparison.targets:
            if target.against == (None if figure is self.ours() else figure.label):
                value = figure.median() if figure is self.ours() else ratio(self.ours(), figure)
                yield target, None if value is None else target.met(value)

    def as_dict(self):
        figures = []
        for figure in self.figures:
            entry = {"label": figure.label, "ours": figure.ours}
            if figure.absent:
                entry["absent"] = figure.absent
            else:
                entry.update(median=figure.median(), p99=figure.p99(),
                             samples=[sample.value if sample else None for sample in figure.samples])
                if figure.failures:
                    entry["failures"] = figure.failures
            if figure is not self.ours():
                entry["ratio"] = ratio(self.ours(), figure)
            entry["targets"] = [{"target": str(target), "of": "ratio" if target.against else "median", "met": met}
                                for target, met in self.targets(figure)]
            figures.append(entry)
        comparison = self.comparison
        return {"section": comparison.section, "name": comparison.name, "unit": comparison.unit,
                "size": comparison.size, "figures": figures}


def number(value):
    """A number with three significant digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 \
        else f"{value:.3f}"


def verdict(met):
    return {None: "", True: "met", False: "MISSED"}[met]


def figure_lines(outcome, figure):
    """@return a figure's lines in the table: several if it has several targets."""
    if figure.absent:
        return [f"  {figure.label:22} not measured: {figure.absent}"]
    values = figure.values()
    if not values:
        return [f"  {figure.label:22} FAILED: {figure.failures[0]}"]
    spread = f"{number(min(values))} .. {number(max(values))}"
    share = "" if figure is outcome.ours() else number(ratio(outcome.ours(), figure))
    line = f"  {figure.label:22} {number(figure.median()):>8}  {spread:>16} {number(figure.p99()):>8} {share:>8}"
    lines = []
    for target, met in list(outcome.targets(figure)) or [(None, None)]:
        text = f"{line}   {str(target):8} {verdict(met)}" if target else line
        lines.append(text.rstrip())
    if figure.failures:
        lines[-1] += f"   ({len(figure.failures)} of {len(figure.samples)} rounds failed: {figure.failures[0]})"
    return lines


def table(outcomes):
    """@return the printed report, a list of lines. Results by size are only in the plots and the JSON file."""
    lines, section = [], None
    for outcome in outcomes:
        comparison = outcome.comparison
        if comparison.size is not None:
            continue
        if comparison.section != section:
            section = comparison.section
            lines += ["", f"== {section}", f"  {'':22} {'median':>8}  {'least .. most':>16} {'p99':>8} {'uroce/it':>8}"
                      "   target"]
        lines.append(f"{comparison.name}, {comparison.unit}")
        for figure in outcome.figures:
            lines += figure_lines(outcome, figure)
    return lines


def tally(outcomes):
    """(targets met, missed, not measured)."""
    verdicts = [met for outcome in outcomes for figure in outcome.figures for _, met in outcome.targets(figure)]
    return verdicts.count(True), verdicts.count(False), verdicts.count(None)


def failures(outcomes):
    """@return which of our measurements failed, for the exit code. A failed peer only shows in the table."""
    return [failure for outcome in outcomes for figure in outcome.figures if figure.ours for failure in figure.failures]
