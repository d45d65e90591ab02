"""Figures: labels do not overlap, ids do not clash, text is never markup."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hakaru import report
from hakaru.report import charts
from hakaru.report.charts import (
    NARROW,
    WIDE,
    Axes,
    Bar,
    Cell,
    Chart,
    Columns,
    Line,
    Size,
    Stack,
    bars,
    columns,
    dots,
    heat,
    lines,
    panels,
    stacks,
)
from hakaru.report.charts.line import nice
from hakaru.report.charts.text import apart, wrap
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("lines", "logarithmic", "ended", "panels", "bars", "columns", "dots", "stacks", "heat")
POINTS = [(1.0, 100.0, 90.0, 110.0), (4.0, 300.0, None, None)]


@given(st.lists(st.floats(0, 240), min_size=1, max_size=8).map(sorted))
def test_labels_are_moved_apart(places: list[float]) -> None:
    heights = [17.0] * len(places)
    moved = apart(places, heights, 240)
    assert moved[-1] <= 240.0001
    assert all(b - a >= 16.999 for a, b in pairwise(moved))


@given(st.text(alphabet="ab cd計測テスト", max_size=60))
def test_wrapping_loses_no_letter(text: str) -> None:
    assert "".join("".join(wrap(text, 90)).split()) == "".join(text.split())


def test_name_of_a_run_is_broken_after_a_hyphen() -> None:
    assert wrap("vm-sweep-20261126-124238-e496", 140) == ["vm-sweep-20261126-", "124238-e496"]
    assert wrap("open-loop read", 140) == ["open-loop read"]


def test_markup_in_labels_stays_text() -> None:
    chart = lines([Line("</text><script>alert(1)</script>", POINTS)], Axes("x", "<b>y</b>"), WIDE)
    drawn = charts.svg(chart, '"><script>')
    assert "<script" not in drawn
    assert "<b>" not in drawn


@pytest.mark.parametrize("name", NAMES)
def test_charts_have_no_ids_that_could_clash_on_a_page(name: str) -> None:
    drawn = charts.svg(every_chart(WIDE)[name])
    assert " id=" not in drawn
    assert "url(#" not in drawn


def test_figures_need_no_other_font_and_no_network() -> None:
    drawn = charts.svg(lines([Line("計測", POINTS)], Axes("VM の台数", "IOPS"), WIDE))
    assert "Hakaru Sans" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/", "")


def test_curve_with_one_point_or_zeros_is_drawn() -> None:
    for points in ([(1.0, 0.0, None, None)], [(1.0, 0.0, 0.0, 0.0), (2.0, 0.0, 0.0, 0.0)]):
        assert "<svg" in charts.svg(lines([Line("a", points)], Axes("x", "y"), WIDE))


def test_numbers_on_axes_have_no_exponents() -> None:
    points = [(float(x), float(x % 3), None, None) for x in range(61)]
    drawn = charts.svg(lines([Line("a", points)], Axes("s", "count"), WIDE))
    assert ">60<" in drawn
    assert not re.search(r">\d(\.\d+)?e[+-]?\d", drawn)


def test_interval_of_a_bar_ends_at_the_axis() -> None:
    chart = bars([Bar("unthrottled", 15.5, -43.0, 73.9, "15.5")], "MB/s", WIDE).to_dict()
    rows = [row for layer in chart["layer"] for row in layer.get("data", {}).get("values", []) if "low" in row]
    assert rows
    assert {row["low"] for row in rows} == {0.0}


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_axis_ends_slightly_above_its_largest_value(value: float) -> None:
    top = nice(value)
    assert value < top <= 2.1 * value


def every_chart(size: Size) -> dict[str, Chart]:
    curve = lines([Line("this run", POINTS), Line("published", POINTS, hollow=True)], Axes("VMs", "IOPS"), size)
    return {
        "lines": curve,
        "logarithmic": lines([Line("a", POINTS)], Axes("x", "ms", y_log=True), size),
        "ended": lines([Line("a", POINTS), Line("b", POINTS[:1])], Axes("x", "y"), size),
        "panels": panels(curve, curve),
        "bars": bars([Bar("a", 3.0, 2.0, 4.0, "3 MB/s", 5.0, "5"), Bar("b", None, None, None, "")], "x", size),
        "columns": columns([Columns("a", [3.0, None]), Columns("b", [40.0, 7.0])], ["x", "y"], "MiB", size),
        "dots": dots([Bar("a", 3.0, 2.0, 4.0, "3 ms", 5.0, "5"), Bar("b", 300.0, None, None, "300")], "x", size),
        "stacks": stacks([Stack("a", [60, None, 40])], ["x", "y", "z"], "%", size),
        "heat": heat([Cell(0, 0, None, "–", True), Cell(1, 0, 50, "1", False)], ["1", "2"], ["a"], ("x", "y"), size),
    }


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_valid_vega_lite(name: str) -> None:
    every_chart(WIDE)[name].to_dict(validate=True)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_charts_of_a_size_are_equally_wide(size: Size) -> None:
    widths = {
        name: float(re.search(r'viewBox="0 0 ([0-9.]+)', charts.svg(chart))[1])  # type: ignore[index]
        for name, chart in every_chart(size).items()
    }
    assert max(widths.values()) - min(widths.values()) <= 8, widths


def test_marks_have_their_numbers_as_tooltip() -> None:
    drawn = charts.svg(every_chart(WIDE)["lines"], "Requests per second")
    assert drawn.count("<title>") == 4
    assert "<title>this run: VMs 4, IOPS 300</title>" in drawn
    assert "<title>this run: VMs 1, IOPS 100 (90–110)</title>" in drawn


def test_drawings_have_their_numbers_as_text_for_readers_who_do_not_see_them() -> None:
    named = {name: re.search(r'aria-label="([^"]*)"', charts.svg(c, "A"))[1] for name, c in every_chart(WIDE).items()}  # type: ignore[index]
    assert named["lines"] == "A. this run (VMs: IOPS) 1: 100, 4: 300; published (VMs: IOPS) 1: 100, 4: 300"
    assert named["panels"].count("this run") == 2
    assert named["bars"] == "A. a: 3 MB/s, 5"
    assert named["columns"] == "A. a, x: 3; b, x: 40; b, y: 7"
    assert named["stacks"] == "A. a, x: 60.0 %; a, z: 40.0 %"
    assert named["heat"] == "A. x 1, y a: –; x 2, y a: 1"


def test_long_lines_are_described_by_their_ends_and_extremes() -> None:
    points = [(float(x), float((x - 30) ** 2), None, None) for x in range(50)]
    (text,) = charts.numbers_of(lines([Line("a", points)], Axes("s", "ms"), WIDE))
    assert text == "a (s: ms) 0: 900, 30: 0, 49: 361"


def test_marks_of_a_series_have_its_class_and_marks_with_text_on_them_keep_their_colour() -> None:
    drawn = charts.svg(lines([Line("", POINTS), Line("a", POINTS), Line("b", POINTS)], Axes("x", "y"), WIDE))
    assert set(re.findall(r' class="([^"]*)"', drawn)) == {"s0", "s1"}
    assert set(re.findall(r' class="([^"]*)"', charts.svg(every_chart(WIDE)["heat"]))) == {"keep"}


def test_bars_of_each_panel_are_as_wide_as_its_groups_allow() -> None:
    def widths(chart: Chart) -> list[float]:
        """The widths of the bars of each panel, from the top down."""
        bars = re.findall(r'<path[^>]*d="M[-0-9.,]+h([0-9.]+)v[^>]*fill="#0b5395"', charts.svg(chart))
        # The squares of the legend are smaller.
        return [float(width) for width in bars if float(width) > 12]

    many, few = (columns([Columns(str(i), [1.0, 2.0]) for i in range(n)], ["x", "y"], "MiB", WIDE) for n in (6, 2))
    assert len(widths(many)) == 6 and min(widths(few)) > 2 * max(widths(many)) > 0
    assert widths(panels(many, few)) == pytest.approx(widths(many) + widths(few))


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_every_row_of_a_heat_map_has_its_name(size: Size) -> None:
    rows = [f"row-{i}" for i in range(12)]
    drawn = charts.svg(heat([Cell(0, i, 0, "1", False) for i in range(12)], ["a"], rows, ("x", "y"), size))
    assert [name for name in rows if f">{name}<" not in drawn] == []


def test_series_look_different_and_each_box_has_a_rule() -> None:
    assert len({charts.look(place) for place in range(32)}) == 32
    css = (Path(report.__file__).parent / "templates" / "report.css").read_text()
    assert all(f".t{place}:not(:checked)) .s{place} " in css for place in range(32))
