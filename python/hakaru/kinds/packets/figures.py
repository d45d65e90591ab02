"""Figures of a study of packet forwarding.

rates     frames per second of each point
sizes     frames per second against the frame size, a line for each set of other levels of a device;
          sizes_2 and so on have further devices and levels
curve     loss and use of each CPU against the rate offered, at the slowest point of a device or NIC
          among those with the fewest levels
curve_N   the same for the device or NIC that is the Nth slowest
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.packets import names
from hakaru.report import charts
from hakaru.report.charts import Axes, Bar, Chart, Line, Size
from hakaru.report.figures import Figure, note, origin_of
from hakaru.wording import number, say

Json = dict[str, Any]
GROUPS_MAX = 24
"""Groups that the trials of a curve are gathered in, by rate."""
CPUS_MAX = 4
"""Number of CPUs up to which each line has a name and a colour; of more, only the busiest."""
CURVES_MAX = 8
"""Devices and NICs with a curve, the slowest first."""
LINES_MAX = 8
"""Lines in a figure over frame sizes, those with the fewest levels first."""
WIDE = 3.0
"""Ratio of the highest to the lowest rate from which on the axis of rates is logarithmic."""


def of_run(summary: Json, language: str) -> list[Figure]:
    """All figures of the run; none if no rate was found."""
    measured = [p for p in summary["points"] if p["metrics"][names.RATE]["mean"] is not None]
    if not measured:
        return []
    curves = [_curve(point, language) for point in _slowest(measured)]
    named = [
        replace(curve, name="curve" if place == 1 else f"curve_{place}")
        for place, curve in enumerate((c for c in curves if c is not None), start=1)
    ]
    return [_rates(measured, language), *_sizes(measured, language), *named]


def _slowest(points: list[Json]) -> list[Json]:
    """The slowest point of each device and NIC, the slowest first. Points with the fewest levels
    are preferred: a level more is a change of the device, such as a place on the processors.
    """

    def rate(point: Json) -> float:
        return float(point["metrics"][names.RATE]["mean"])

    found: dict[tuple[str, str], Json] = {}
    for point in sorted(points, key=lambda point: (len(point["factors"]), rate(point))):
        found.setdefault((point["device"], str(point["factors"].get("nic", ""))), point)
    return sorted(found.values(), key=rate)[:CURVES_MAX]


def label(point: Json, language: str) -> str:
    """A point's levels in words."""
    return sentences.series(point["factors"], language) or str(point["point"])


def _rates(points: list[Json], language: str) -> Figure:
    rows = []
    for point in points:
        rate = point["metrics"][names.RATE]
        text = say(language, "figure.packets.rate", {"rate": number(rate["mean"], language)})
        rows.append(Bar(label(point, language), rate["mean"], rate["low"], rate["high"], text))
    title = say(language, "figure.packets")
    axis = say(language, "axis.frames")

    def draw(size: Size) -> Chart:
        return charts.bars(rows, axis, size)

    return Figure("rates", title, note(points, language, names.RATE), draw)


def _sizes(points: list[Json], language: str) -> list[Figure]:
    """The figures of rates over sizes, of the points whose searches bracketed a rate; none if no
    set of points has enough sizes.
    """
    of_device: dict[str, list[list[Json]]] = {}
    for group in names.over_sizes(points).values():
        if len(group) >= names.SIZES_MIN:
            of_device.setdefault(group[0]["device"], []).append(group)
    drawn = []
    for groups in of_device.values():
        groups.sort(key=lambda group: len(group[0]["factors"]))
        parts = (groups[begin : begin + LINES_MAX] for begin in range(0, len(groups), LINES_MAX))
        drawn += [_over_sizes(part, language) for part in parts]
    return [
        replace(figure, name="sizes" if place == 1 else f"sizes_{place}") for place, figure in enumerate(drawn, start=1)
    ]


def _over_sizes(groups: Sequence[list[Json]], language: str) -> Figure:
    """A line for each set of levels besides the size."""
    lines = []
    for place, group in enumerate(groups):
        values = [
            (float(names.frame_size(point["factors"]) or 0), *_thousands(point["metrics"][names.RATE]))
            for point in group
        ]
        others = {factor: level for factor, level in group[0]["factors"].items() if factor != names.FRAME}
        colour, dash, marker = charts.look(place)
        name = sentences.series(others, language) or say(language, "label.frames")
        lines.append(Line(name, sorted(values), colour, dash, marker))
    ticks = sorted({x for line in lines for x, *_ in line.points})
    rates = [y for line in lines for _, y, *_ in line.points]
    is_wide = max(rates) > WIDE * min(rates)

    def draw(size: Size) -> Chart:
        titles = (say(language, "axis.frame_size"), say(language, "axis.frames.thousand"))
        return charts.lines(lines, Axes(*titles, x_log=True, x_ticks=ticks, y_log=is_wide), size)

    shown = [point for group in groups for point in group]
    return Figure("sizes", say(language, "figure.packets.sizes"), note(shown, language, names.RATE), draw)


def _thousands(metric: Json) -> tuple[float, float | None, float | None]:
    """Mean and interval in thousand frames per second."""
    low, high = metric["low"], metric["high"]
    return (metric["mean"] / 1e3, *((None, None) if low is None else (low / 1e3, high / 1e3)))


def _curve(point: Json, language: str) -> Figure | None:
    """Loss, and use of each processor and of all, against the rate offered; None without enough
    trials.
    """
    searched, delays = (
        [t for t in point["trials"] if t["purpose"] == purpose and t["valid"] and t["sent"]]
        for purpose in ("search", "latency")
    )
    if len(searched) < 3:
        return None
    low, high = (choose(t["frames_per_s"] for t in searched) for choose in (min, max))
    # A search may begin far above its result. On a linear axis all other trials would be one point.
    is_wide = high > WIDE * low
    groups = _groups(searched, is_wide)
    if len(groups) < 2:
        return None
    # The trials that measure delays have the rates below the result, which a search leaves out.
    groups = sorted([*_groups(delays, True), *groups], key=_offered)
    trials = [*searched, *delays]
    offered = [_offered(group) / 1e3 for group in groups]
    loss: list[float | None] = [
        100 * _sum(group, "judged_lost") / max(1, _sum(group, "judged_sent")) for group in groups
    ]
    upper = [Line(say(language, "label.loss"), _points(offered, loss), charts.PALETTE[1])]
    lower = [
        Line(name, _points(offered, [_mean([use(t) for t in group]) for group in groups]), colour)
        for name, use, colour in _processors(trials, language)
    ]

    scale: Json = {"x_log": True, "x_ticks": charts.log_ticks(offered[0], offered[-1])} if is_wide else {}

    def draw(size: Size) -> Chart:
        part = Size(size.width, size.height * 3 // 5, size.labels)
        rate = say(language, "axis.offered")
        return charts.panels(
            charts.lines(upper, Axes("", say(language, "axis.frame_loss"), **scale), part),
            charts.lines(lower, Axes(rate, say(language, "axis.cpu"), y_max=100.0, **scale), part),
        )

    title = say(language, "figure.packets.curve", {"series": label(point, language)})
    about = {"origin": origin_of([point], language), "trials": len(searched), "delays": len(delays)}
    text = say(language, "figure.note.packets", about)
    return Figure("curve", title, text, draw)


def _processors(trials: list[Json], language: str) -> list[tuple[str, Callable[[Json], float | None], str]]:
    """Name, use in a trial and colour of each CPU, and of all. Of many CPUs, only the busiest has a
    name.
    """
    cpus = sorted({cpu for trial in trials for cpu in trial["cpu_percent"]}, key=int)
    colours = (charts.OURS, *(c for c in charts.PALETTE if c not in (charts.OURS, charts.PALETTE[2])))
    if len(cpus) <= CPUS_MAX:
        shown = [
            (say(language, "label.cpu", {"cpu": cpu}), partial(_use_of, cpu), colour)
            for cpu, colour in zip(cpus, colours, strict=False)
        ]
    else:
        shown = [("", partial(_use_of, cpu), charts.theme.QUIET) for cpu in cpus]
        shown.append((say(language, "label.busiest_cpu"), partial(_value, "busiest_cpu_percent"), charts.OURS))
    return [*shown, (say(language, "label.all_cpus"), partial(_value, "machine_percent"), charts.PALETTE[2])]


def _use_of(cpu: str, trial: Json) -> float | None:
    used: float | None = trial["cpu_percent"].get(cpu)
    return used


def _value(name: str, trial: Json) -> float | None:
    value: float | None = trial[name]
    return value


def _groups(trials: list[Json], is_wide: bool) -> list[list[Json]]:
    """Trials in groups of neighbouring rates, of equal width on the axis, which is logarithmic if
    `is_wide`. In the order of their rates.
    """
    if not trials:
        return []
    places = [math.log(t["frames_per_s"]) if is_wide else float(t["frames_per_s"]) for t in trials]
    low = min(places)
    width = (max(places) - low) / GROUPS_MAX or 1.0
    groups: dict[int, list[Json]] = {}
    for trial, place in zip(trials, places, strict=True):
        groups.setdefault(min(GROUPS_MAX - 1, int((place - low) / width)), []).append(trial)
    return [groups[place] for place in sorted(groups)]


def _offered(trials: list[Json]) -> float:
    """Mean rate offered in some trials, frames/s."""
    return float(sum(t["frames_per_s"] for t in trials)) / len(trials)


def _points(xs: list[float], ys: list[float | None]) -> list[tuple[float, float, None, None]]:
    return [(x, y, None, None) for x, y in zip(xs, ys, strict=True) if y is not None]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _sum(trials: Sequence[Json], count: str) -> int:
    return sum(int(trial[count]) for trial in trials)
