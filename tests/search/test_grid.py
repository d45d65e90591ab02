"""Steps and loads of grids."""

from __future__ import annotations

import pytest
from hakaru.search import CountGrid, RateGrid
from hypothesis import given
from hypothesis import strategies as st

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
