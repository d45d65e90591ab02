"""The full-screen view, at the sizes of a small and a large terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hakaru.live.screen import RunScreen
from textual.pilot import Pilot
from textual.widgets import DataTable, Label

from tests.live.conftest import ScriptedRun

TURNS = 600


async def until(pilot: Pilot[int], condition: Callable[[], bool], state: Callable[[], str] = str) -> None:
    """Let the view work until the condition holds; fail with `state` after two minutes."""
    for _ in range(TURNS):
        if condition():
            return
        await pilot.pause(0.2)
    pytest.fail(f"the view did not get there:\n{state()}")


def shown(screen: RunScreen) -> str:
    """The text of the whole screen, one line per row."""
    lines = (strip.text.rstrip() for strip in screen.screen._compositor.render_strips())
    return "\n".join(lines)


def view(
    run: ScriptedRun, size: tuple[int, int], check: Callable[[RunScreen, Pilot[int]], Awaitable[None]]
) -> RunScreen:
    """Run the view on a terminal of `size` columns and lines."""

    async def body() -> RunScreen:
        screen = RunScreen(run.run, "en")
        async with screen.run_test(size=size) as pilot:
            await check(screen, pilot)
        return screen

    return asyncio.run(body())


def load_two_points(run: ScriptedRun) -> None:
    run.start()
    run.begin(0, 1, 0)
    run.end(0, 1, 1300)
    run.begin(1, 1, 1)
    for second in range(30):
        run.sample(1, 1, 2600 + 10 * second)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_points_fill_and_everything_fits(scripted: ScriptedRun, size: tuple[int, int]) -> None:
    load_two_points(scripted)

    async def check(screen: RunScreen, pilot: Pilot[int]) -> None:
        parts = ("running (load 2/12)", "left", "IOPS", "±", "p99", "bottleneck", "caveats", "undetermined", "Leave")
        values = ("1,297 ±", "60.9", "2,890", "drives", "link", "the confidence interval is wide")

        def is_filled() -> bool:
            # Every point has a row, and no column is cut off.
            table = screen.query_one(DataTable)
            complete = table.row_count == len(scripted.points) and not table.show_horizontal_scrollbar
            return complete and all(part in shown(screen) for part in (*parts, *values))

        await until(pilot, is_filled, lambda: shown(screen))

    view(scripted, size, check)


def test_leaving_the_view_leaves_the_run_and_coming_back_shows_it_again(scripted: ScriptedRun) -> None:
    load_two_points(scripted)
    for key in ("q", "ctrl+c"):

        async def leave(screen: RunScreen, pilot: Pilot[int], key: str = key) -> None:
            await until(pilot, lambda: "2,890" in shown(screen))
            await pilot.press(key)
            await until(pilot, lambda: not screen.is_running)

        assert view(scripted, (80, 24), leave).return_value == 0
    assert scripted.run.is_live()


def test_the_end_of_the_run_is_shown_until_the_user_leaves(scripted: ScriptedRun) -> None:
    load_two_points(scripted)

    async def check(screen: RunScreen, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "2,890" in shown(screen))
        scripted.finish()
        await until(pilot, lambda: str(screen.query_one("#status", Label).content).startswith("done"))
        assert "left" not in str(screen.query_one("#left", Label).content)
        await pilot.press("q")

    assert view(scripted, (80, 24), check).return_value == 0


def test_a_killed_run_is_reported(scripted: ScriptedRun) -> None:
    load_two_points(scripted)

    async def check(screen: RunScreen, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "2,890" in shown(screen))
        # The connection ends without the last events, and run.json says that the run continues.
        scripted.publisher.close()
        await until(pilot, lambda: str(screen.query_one("#status", Label).content).startswith("killed"))
        await pilot.press("q")

    assert view(scripted, (80, 24), check).return_value == 7
