"""Steps and loads of grids."""

from __future__ import annotations

import pytest
from hakaru.search import CountGrid, RateGrid
from hypothesis import given
from hypothesis import strategies as st
from MLRsearch.discrete_width import DiscreteWidth
from MLRsearch.load_rounding import LoadRounding

widths = st.lists(st.floats(0.002, 0.9), min_size=1, max_size=3)


@given(st.floats(1.0, 1e6), st.floats(1.1, 1e6), widths)
def test_widths_of_a_rate_grid_are_met_closely_and_never_exceeded(
    low: float, factor: float, asked: list[float]
) -> None:
    grid = RateGrid.for_widths(low, low * factor, asked)
    for relative_width in asked:
        steps = grid.width(relative_width)
        if steps < grid.steps:
            lower, upper = grid.load(grid.steps - steps), grid.load(grid.steps)
            assert 0.98 * relative_width < (upper - lower) / upper <= relative_width


@given(st.floats(1.0, 1e6), st.floats(1.1, 1e6), widths, st.floats(0.0, 1.0))
def test_every_load_of_a_rate_grid_has_its_step(low: float, factor: float, asked: list[float], share: float) -> None:
    grid = RateGrid.for_widths(low, low * factor, asked)
    step = round(share * grid.steps)
    assert grid.step_at_or_below(grid.load(step)) == step
    assert grid.load(grid.step_at_or_below(grid.load(step) * 1.0000001)) >= grid.load(step)
    if step:
        assert grid.step_at_or_below(grid.load(step) * 0.9999999) == step - 1


def test_loads_outside_a_grid_have_the_steps_of_its_ends() -> None:
    rates, counts = RateGrid(10.0, 1000.0, 4), CountGrid(2, 40)
    assert (rates.step_at_or_below(1.0), rates.step_at_or_below(1e9)) == (0, 4)
    assert (counts.step_at_or_below(1.0), counts.step_at_or_below(99.0)) == (0, 38)
    assert (rates.load(0), rates.load(4)) == (10.0, 1000.0)


def test_count_grid_rounds_down_and_has_widths_of_one() -> None:
    grid = CountGrid(1, 64)
    assert [grid.load(grid.step_at_or_below(load)) for load in (7.0, 7.9)] == [7, 7]
    assert grid.width(0.5) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: RateGrid(0.0, 1.0, 1),
        lambda: RateGrid(2.0, 2.0, 1),
        lambda: RateGrid(1.0, 2.0, 0),
        lambda: RateGrid.for_widths(2.0, 1.0, [0.1]),
        lambda: CountGrid(0, 5),
        lambda: CountGrid(5, 5),
    ],
)
def test_impossible_grid_is_refused(build: object) -> None:
    with pytest.raises(ValueError, match="a grid needs"):
        build()  # type: ignore[operator]


@given(st.lists(st.integers(20, 5000), min_size=1, max_size=3))
def test_grid_is_as_coarse_as_that_of_the_reference_and_has_its_widths(ten_thousandths: list[int]) -> None:
    asked = [width / 1e4 for width in ten_thousandths]
    reference = LoadRounding(9_001.0, 1_488_095.0, asked)
    grid = RateGrid.for_widths(9_001.0, 1_488_095.0, asked)
    # Coarser after a width that is too exact (see below); the widths in steps still agree.
    assert grid.steps <= reference.max_int_load
    same = RateGrid(9_001.0, 1_488_095.0, reference.max_int_load)
    assert [same.width(width) for width in asked] == [int(DiscreteWidth(reference, width)) for width in asked]


@pytest.mark.parametrize(("width", "steps", "reference_steps"), [(0.5, 1, 100), (0.9, 1, 10)])
def test_steps_differ_where_a_width_covers_the_range(width: float, steps: int, reference_steps: int) -> None:
    assert RateGrid.for_widths(500.0, 1_000.0, [width]).steps == steps
    assert LoadRounding(500.0, 1_000.0, [width]).max_int_load == reference_steps


def test_steps_differ_where_a_width_is_at_a_limit_but_for_rounding() -> None:
    """Of 100 steps, the width is 33 1/3, and 33 are 99 % of it."""
    loads, width = (8.882365357594956, 66.82210776098361), 0.48964839192960075
    assert RateGrid.for_widths(*loads, [width]).steps == 100
    assert LoadRounding(*loads, [width]).max_int_load == 103


def test_grid_is_coarser_than_that_of_the_reference_after_a_width_that_is_too_exact() -> None:
    loads, widths = (10.0, 1e9), [0.003, 0.005, 0.3810278812162367]
    assert RateGrid.for_widths(*loads, widths).steps == 18_395
    assert LoadRounding(*loads, widths).max_int_load == 18_433
