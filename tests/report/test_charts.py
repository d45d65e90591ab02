"""Figures: labels that do not overlap, ids that do not clash, text that stays text."""

from __future__ import annotations

from itertools import pairwise

from hakaru.report import charts
from hakaru.report.charts import WIDE, Axes, Line, apart, lines, wrap
from hypothesis import given
from hypothesis import strategies as st

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


def test_markup_in_labels_stays_text() -> None:
    spec = lines([Line("</text><script>alert(1)</script>", POINTS)], Axes("x", "<b>y</b>"), WIDE)
    drawn = charts.svg(spec, "p", '"><script>')
    assert "<script" not in drawn
    assert "<b>" not in drawn


def test_two_figures_share_no_id() -> None:
    spec = lines([Line("a", POINTS)], Axes("x", "y"), WIDE)
    one, two = charts.svg(spec, "one"), charts.svg(spec, "two")
    assert one != two
    assert 'id="clip' not in one + two
    assert "url(#clip" not in one + two


def test_figures_need_no_other_font_and_no_network() -> None:
    drawn = charts.svg(lines([Line("計測", POINTS)], Axes("VM の台数", "IOPS"), WIDE), "p")
    assert "Hakaru Sans" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/", "")


def test_curve_with_one_point_or_zeros_is_drawn() -> None:
    for points in ([(1.0, 0.0, None, None)], [(1.0, 0.0, 0.0, 0.0), (2.0, 0.0, 0.0, 0.0)]):
        assert "<svg" in charts.svg(lines([Line("a", points)], Axes("x", "y"), WIDE), "p")


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_an_axis_ends_a_little_above_whatever_it_shows(value: float) -> None:
    top = charts.nice(value)
    assert value < top <= 2.1 * value
