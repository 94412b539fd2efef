# SPDX-License-Identifier: BSD-3-Clause
"""Plots of scripts/bench as SVG: a line for each source, both axes logarithmic, each line labelled at its end.

The hue shows the implementation, dashes show that it uses the kernel's sockets; uroce's lines are the thick ones.
"""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 64, 58
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"
INK, FAINT, GRID = "#222222", "#666666", "#e4e4e4"
# label: colour (distinguishable by colour-blind readers), dashed
STYLES = {"uroce": ("#0b62b8", False), "uroce, UDP": ("#0b62b8", True), "memcpy pipe": ("#222222", False),
          "UCX posix": ("#c2500a", False), "UCX tcp": ("#c2500a", True), "libfabric shm": ("#1b8a5a", False),
          "libfabric tcp;ofi_rxm": ("#1b8a5a", True), "TCP": ("#777777", True)}
PLOTS = (("latency by size", "latency.svg", "One way, by message size: SENDs between two processes of one host", "us"),
         ("bandwidth by size", "bandwidth.svg", "Bandwidth by message size: WRITEs between two processes of one host",
          "MB/s"))
LINE_HEIGHT = 15


def size_text(size):
    for unit, name in ((1 << 20, " MiB"), (1 << 10, " KiB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size} B"


def value_text(value):
    return f"{value:g}" if value < 10000 else f"{value / 1000:g}k"


class Axis:
    """Logarithmic: maps values from low to high to pixels from start to end."""

    def __init__(self, low, high, start, end):
        self.low, self.start = math.log(low), start
        self.scale = (end - start) / ((math.log(high) - math.log(low)) or 1)

    def __call__(self, value):
        return self.start + (math.log(value) - self.low) * self.scale


def decades(values):
    """1, 2, 5, 10, ... from at most the least to at least the greatest value."""
    steps = [factor * 10.0 ** power for power in range(-4, 9) for factor in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= min(values))
    last = min(i for i, step in enumerate(steps) if step >= max(values))
    return steps[first:last + 1]


def series(comparisons):
    """{label: [(size, median), ...]} in the order of the sources."""
    lines = {}
    for comparison in comparisons:
        for figure in comparison["figures"]:
            if figure.get("median"):
                lines.setdefault(figure["label"], []).append((comparison["size"], figure["median"]))
    return lines


def spread(wanted):
    """@return label heights, at least a line apart and as close as possible to those wanted ({label: y})."""
    placed = []
    for label, y in sorted(wanted.items(), key=lambda item: item[1]):
        placed.append([label, max(y, placed[-1][1] + LINE_HEIGHT) if placed else y])
    below = placed[-1][1] - (HEIGHT - BOTTOM) if placed else 0
    for entry in reversed(placed):  # move labels that were pushed out at the bottom back up
        if below <= 0:
            break
        entry[1] -= below
        i = placed.index(entry)
        below = placed[i - 1][1] + LINE_HEIGHT - entry[1] if i else 0
    return dict(placed)


def text(x, y, content, size=12, colour=INK, anchor="start", weight="normal"):
    return (f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' fill='{colour}' text-anchor='{anchor}' "
            f"font-weight='{weight}'>{escape(content)}</text>")


def grid(x, y, sizes, ticks, unit):
    parts = []
    for tick in ticks:
        parts.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y(tick):.1f}' y2='{y(tick):.1f}' stroke='{GRID}'/>")
        parts.append(text(LEFT - 8, y(tick) + 4, value_text(tick), 11, FAINT, "end"))
    for size in sizes:
        parts.append(f"<line x1='{x(size):.1f}' x2='{x(size):.1f}' y1='{HEIGHT - BOTTOM}' y2='{HEIGHT - BOTTOM + 5}' "
                     f"stroke='{FAINT}'/>")
        parts.append(text(x(size), HEIGHT - BOTTOM + 19, size_text(size), 11, FAINT, "middle"))
    parts.append(text(LEFT - 8, TOP - 10, unit, 11, FAINT, "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "message size", 11, FAINT, "middle"))
    return parts


def draw_line(x, y, label, points, label_y):
    colour, dashed = STYLES.get(label, ("#8a4fae", False))
    width = 3 if label.startswith("uroce") else 1.6
    dashes = " stroke-dasharray='6 4'" if dashed else ""
    path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in points)
    parts = [f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'{dashes} "
             "stroke-linejoin='round'/>"]
    for size, value in points:
        parts.append(f"<circle cx='{x(size):.1f}' cy='{y(value):.1f}' r='{width:.1f}' fill='{colour}'>"
                     f"<title>{escape(label)}, {size_text(size)}: {value:.4g}</title></circle>")
    end_x, end_y = x(points[-1][0]), y(points[-1][1])
    parts.append(f"<line x1='{end_x + 4:.1f}' y1='{end_y:.1f}' x2='{WIDTH - RIGHT + 18}' y2='{label_y:.1f}' "
                 f"stroke='{colour}' stroke-width='0.7'/>")
    parts.append(text(WIDTH - RIGHT + 22, label_y + 4, label, 12, colour,
                      weight="bold" if label.startswith("uroce") else "normal"))
    return parts


def plot(title, subtitle, unit, lines):
    sizes = sorted({size for points in lines.values() for size, _ in points})
    ticks = decades([value for points in lines.values() for _, value in points])
    x = Axis(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    y = Axis(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    labels = spread({label: y(points[-1][1]) for label, points in lines.items()})
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' "
             f"viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>", f"<title>{escape(title)}</title>",
             f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>", text(LEFT - 8, 22, title, 15, weight="bold"),
             text(LEFT - 8, 38, subtitle, 11, FAINT)]
    parts += grid(x, y, sizes, ticks, unit)
    # uroce's last, on top of the others
    for label, points in sorted(lines.items(), key=lambda item: item[0].startswith("uroce")):
        parts += draw_line(x, y, label, points, labels[label])
    return "\n".join(parts + ["</svg>", ""])


def plots(results):
    """@return (file name, SVG) for the results by size, as --json writes them."""
    where = results["machine"]
    rounds = f"medians of {results['rounds']} rounds" if results["rounds"] > 1 else "one round"
    subtitle = (f"{rounds}; {where['cpus']} CPUs, {where['cpu']}, Linux {where['kernel']}; uroce {where['version']}")
    for section, name, title, unit in PLOTS:
        lines = series([c for c in results["comparisons"] if c["section"] == section])
        if lines:
            yield name, plot(title, subtitle, unit, lines)
