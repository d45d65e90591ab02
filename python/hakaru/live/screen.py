"""The full-screen view of a run (Textual): time left, rates and queues of the current repetition,
and the table of points, which fills while the run continues.

It only reads the run, in a process of its own, so leaving it changes nothing. It is drawn at most
twice a second. From 110 columns on, the table has all columns of the kind of study.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Label, ProgressBar, Sparkline, Static

from hakaru.errors import HakaruError, LostError
from hakaru.live import words
from hakaru.live.feed import LiveRun
from hakaru.live.follow import follow
from hakaru.live.state import Point, State
from hakaru.wording import say

WIDE_COLUMNS = 110
DRAW_S = 0.5
SERIES_ROWS_MAX = 7
"""Rows of sparklines. At 24 lines, ten lines remain for the table."""


class SeriesRow(Horizontal):
    """One series: name, newest value, sparkline."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._title = name

    def compose(self) -> ComposeResult:
        """Name, value and line side by side."""
        yield Label(self._title, classes="name", markup=False)
        yield Label("", classes="value", markup=False)
        yield Sparkline([], summary_function=_mean)

    def show(self, values: Sequence[float | None], text: str) -> None:
        """Draw the values; a value that is missing counts as 0."""
        self.query_one(".value", Label).update(text)
        self.query_one(Sparkline).data = [each or 0.0 for each in values]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class SeriesBox(Vertical):
    """The series of one kind, rates or queues, each in a row of its own."""

    def __init__(self, title: str, **options: Any) -> None:
        super().__init__(**options)
        self.border_title = title
        self._rows: dict[str, SeriesRow] = {}

    def show(self, series: Mapping[str, Sequence[float | None]], names: Mapping[str, str], language: str) -> None:
        """Draw every series; rows are made and removed as needed."""
        shown = dict(list(series.items())[:SERIES_ROWS_MAX])
        for name in [name for name in self._rows if name not in shown]:
            self._rows.pop(name).remove()
        for name, values in shown.items():
            if name not in self._rows:
                self._rows[name] = SeriesRow(names[name])
                self.mount(self._rows[name])
            if self._rows[name].is_mounted and values:
                self._rows[name].show(values, words.value(values[-1], language))
        self.display = bool(shown)


class RunScreen(App[int]):
    """The view. `run()` returns the exit code: 7 if the process of the run was killed, else 0.
    `leave_at_end`: return when the run ends, instead of waiting for the user.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; background: $primary; color: $text; }
    #name { width: 1fr; text-style: bold; padding: 0 1; }
    #left { width: auto; padding: 0 1; }
    #status { height: 1; padding: 0 1; }
    #progress { height: 1; padding: 0 1; }
    #progress Bar { width: 1fr; }
    #now { height: 1; padding: 0 1; color: $text-muted; }
    #series { height: auto; max-height: 9; }
    SeriesBox { width: 1fr; height: auto; border: round $primary-darken-2; padding: 0 1; }
    SeriesRow { height: 1; }
    SeriesRow .name { width: 16; }
    SeriesRow .value { width: 9; text-align: right; margin-right: 1; }
    SeriesRow Sparkline { width: 1fr; height: 1; }
    .narrow SeriesRow .name { width: 13; }
    .narrow SeriesRow .value { width: 7; }
    #points { height: 1fr; }
    #caveats { height: auto; max-height: 3; padding: 0 1; color: $warning; }
    """

    def __init__(self, run: LiveRun, language: str, *, leave_at_end: bool = False) -> None:
        super().__init__()
        self._live_run, self._language, self._leave_at_end = run, language, leave_at_end
        self._state = State(run.name)
        self._is_stale = True
        self._shown_columns: list[str] = []
        self._names: dict[str, str] = {}
        self._shown_left = self._shown_caveats = ""
        self.error: HakaruError | None = None
        """Why the view ended by itself."""
        self._bindings.bind("q", "leave", say(language, "live.leave"))

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave", show=False, priority=True)]

    def compose(self) -> ComposeResult:
        """From top to bottom: run and time left, status, progress, series, points, caveats."""
        language = self._language
        with Horizontal(id="head"):
            yield Label(self._live_run.name, id="name", markup=False)
            yield Label("", id="left", markup=False)
        yield Label("", id="status", markup=False)
        yield ProgressBar(id="progress", show_eta=False)
        yield Label("", id="now", markup=False)
        with Horizontal(id="series"):
            yield SeriesBox(say(language, "live.rates"), id="rates")
            yield SeriesBox(say(language, "live.queues"), id="queues")
        yield DataTable(id="points", cursor_type="row", zebra_stripes=True)
        caveats = Static("", id="caveats", markup=False)
        caveats.display = False
        yield caveats
        yield Footer()

    def on_mount(self) -> None:
        """Start to follow the run."""
        self.run_worker(self._follow(), exclusive=True)
        self.set_interval(DRAW_S, self._tick)
        self.query_one(DataTable).focus()

    def action_leave(self) -> None:
        """End the view. The run continues."""
        self.exit(7 if self._state.status == "killed" else 0)

    def on_resize(self) -> None:
        """Choose the columns that fit."""
        self._is_stale = True

    def on_data_table_row_highlighted(self) -> None:
        """Show the caveats of the selected point."""
        if self.is_running:
            self._show_caveats()

    async def _follow(self) -> None:
        try:
            async for state, event in follow(self._live_run):
                self._state, self._is_stale = state, True
                if self._leave_at_end and event["event"] in ("done", "closed"):
                    break
        except HakaruError as error:
            self._fail(error)
            return
        except Exception as error:
            # The events of a run may be anything.
            reason = f"{type(error).__name__}: {error}"
            self._fail(LostError(f"cannot follow {self._live_run.name}: {reason}", "`hakaru runs` shows its status"))
            return
        if self._leave_at_end:
            self.action_leave()

    def _fail(self, error: HakaruError) -> None:
        self.error = error
        self.exit(error.exit_code)

    def _tick(self) -> None:
        if not self.is_running:
            return  # the view is ending, and its widgets are being removed
        left = words.time_left(self._state, time.time(), self._language)
        if left != self._shown_left:
            self._shown_left = left
            self.query_one("#left", Label).update(left)
        if self._is_stale:
            self._is_stale = False
            self.draw()

    def draw(self) -> None:
        """Draw the whole state."""
        state, language = self._state, self._language
        self.screen.set_class(self.size.width < WIDE_COLUMNS, "narrow")
        title = state.title.get(language) or state.title.get("en", "")
        status = words.status(state, language)
        self.query_one("#status", Label).update(f"{status}   {title}" if title else status)
        self.query_one(ProgressBar).update(total=state.total or None, progress=state.done)
        self.query_one("#now", Label).update(self._now())
        rates, queues = state.series.rates, state.series.queues
        box = self.query_one("#rates", SeriesBox)
        box.show(_lists(rates), {name: words.rate_name(name, language) for name in rates}, language)
        box = self.query_one("#queues", SeriesBox)
        box.show(_lists(queues), {name: words.queue_name(name, language) for name in queues}, language)
        self._draw_points()
        self._show_caveats()

    def _now(self) -> str:
        state = self._state
        if state.reports:
            return "  ".join(state.reports)
        if state.current is None:
            return state.detail
        place = say(self._language, "live.repetition", {"label": state.detail, "repetition": state.repetition})
        return f"{place}: {state.text}" if state.text else place

    def _draw_points(self) -> None:
        table = self.query_one(DataTable)
        points = list(self._state.points.values())
        columns = self._columns(points)
        if columns != self._shown_columns or table.row_count > len(points):
            table.clear(columns=True)
            for title in columns:
                table.add_column(title, key=title)
            self._shown_columns = columns
        self._names = words.point_names(points, language=self._language)
        known = {str(key.value) for key in table.rows}
        for point in points:
            cells = self._cells(point, columns)
            if point.id not in known:
                table.add_row(*cells, key=point.id)
                continue
            for title, cell in zip(columns, cells, strict=True):
                if table.get_cell(point.id, title) != cell:
                    table.update_cell(point.id, title, cell, update_width=True)

    def _columns(self, points: Sequence[Point]) -> list[str]:
        language = self._language
        analysed = next((point for point in points if point.cells), None)
        result = words.result(analysed)[0] if analysed else say(language, "live.result")
        tail = words.tail(analysed)[0] if analysed else "p99"
        others = [title for title, _ in words.others(analysed)] if analysed else []
        first = [say(language, "live.point"), say(language, "live.repetitions"), result, *([tail] if tail else [])]
        last = [say(language, "live.bottleneck"), say(language, "live.caveats")]
        return [*first, *last, *(others if self.size.width >= WIDE_COLUMNS else [])]

    def _cells(self, point: Point, columns: Sequence[str]) -> list[Text]:
        language = self._language
        style = "bold" if point.id == self._state.current else "dim" if not point.ended else ""
        marks = "!" * bool(not point.valid) + (str(len(point.caveats)) if point.caveats else "")
        values = {
            say(language, "live.point"): self._names[point.id],
            say(language, "live.repetitions"): f"{len(point.ended)}/{point.planned}",
            columns[2]: words.result(point)[1],
            say(language, "live.bottleneck"): words.limiter(point, language),
            say(language, "live.caveats"): marks,
            **dict(words.others(point)),
        }
        title, cell = words.tail(point)
        values |= {title: cell} if title else {}
        first = say(language, "live.point")
        return [
            Text(values.get(name, ""), style=style, justify="left" if name == first else "right") for name in columns
        ]

    def _show_caveats(self) -> None:
        table = self.query_one(DataTable)
        points = list(self._state.points.values())
        selected = points[table.cursor_row] if 0 <= table.cursor_row < len(points) else None
        texts = words.caveats(selected, self._language) if selected is not None else []
        if (text := "\n".join(texts)) != self._shown_caveats:
            self._shown_caveats = text
            box = self.query_one("#caveats", Static)
            box.update(text)
            box.display = bool(text)


def _lists(series: Mapping[str, Any]) -> dict[str, list[float | None]]:
    return {name: list(values) for name, values in series.items()}
