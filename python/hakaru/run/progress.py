"""Progress of a run: one line, redrawn, on a terminal; plain lines elsewhere; events for programs.

People read stderr, programs read stdout. The runner calls a `Watcher`. This module has its three
implementations, and `Watchers`, which forwards every call to several of them. `Events` makes the
events once, for all their readers: stdout with `--json`, and the socket of the run
(`hakaru.run.publisher`). Rates shown are those of the last second and are not stored.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from hakaru.errors import Interrupted
from hakaru.run.meter import Rates
from hakaru.run.publisher import Publisher
from hakaru.study import Repetition
from hakaru.study.part import level_text
from hakaru.translation import shown


class Watcher(Protocol):
    """Receives the progress of a run. `left_s`: expected seconds until the end."""

    def opened(self, directory: Path) -> None:
        """The run has a directory, which describes it. Called before anything else, once."""

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """The run entered a phase: lab, check, baseline, load, analysis, report."""

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """A repetition begins; `done` of `total` are finished."""

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """About once a second under load: the rates of the last interval, and lengths of queues."""

    def result(self, turn: Repetition, rates: Rates) -> None:
        """A repetition has ended with these rates."""

    def event(self, name: str, **values: Any) -> None:
        """An event for programs. People see it in the report."""

    def close(self) -> None:
        """The run has ended."""


def duration(seconds: float) -> str:
    """`1:05`, `2:03:04`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def factors_text(turn: Repetition) -> str:
    """`random-32k, vms 7`; `case throttled, tcp 2009`."""
    if turn.point.label:
        return turn.point.label
    return ", ".join(str(v) if k == "pattern" else f"{k} {level_text(v)}" for k, v in turn.point.factors.items())


class Terminal:
    """One line on a terminal, redrawn in place, below the results of the repetitions so far."""

    def __init__(self, stream: IO[str]) -> None:
        console = Console(file=stream, emoji=False)
        columns = (BarColumn(24), TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=console, transient=True)
        self._task: TaskID = self._progress.add_task("", total=None)
        self._place = ""
        self._progress.start()

    def _show(self, text: str, **fields: Any) -> None:
        self._progress.update(self._task, description=shown(text), **fields)

    def opened(self, directory: Path) -> None:
        """Do nothing."""

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """Show the phase instead of the load."""
        self._show(f"{name}: {detail}, {duration(left_s)} left")

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """Advance the bar by one repetition."""
        self._place = f"{done + 1}/{total}"
        self._show(f"load {self._place}: {factors_text(turn)}, {duration(left_s)} left", completed=done, total=total)

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """Show the current rates beside the repetition."""
        self._show(f"load {self._place}: {factors_text(turn)}: now {rates.text}, {duration(left_s)} left")

    def result(self, turn: Repetition, rates: Rates) -> None:
        """Print the rates of the repetition above the line."""
        text = f"load {self._place}: {factors_text(turn)}, repetition {turn.repetition}: {rates.text}"
        self._progress.console.print(shown(text), highlight=False, markup=False, soft_wrap=True)

    def event(self, name: str, **values: Any) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Remove the line from the terminal."""
        self._progress.stop()


class Lines:
    """A line per phase and repetition, for files and pipes."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def _print(self, text: str) -> None:
        try:
            print(shown(text), file=self._stream, flush=True)
        except OSError:
            # The reader of the lines has ended, or the disk is full. The run continues.
            self._stream = io.StringIO()

    def opened(self, directory: Path) -> None:
        """Do nothing."""

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """Print the phase."""
        self._print(f"{name}: {detail} ({duration(left_s)} left)")

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """Print the repetition that begins."""
        text = f"load {done + 1}/{total}: {factors_text(turn)}, repetition {turn.repetition} ({duration(left_s)} left)"
        self._print(text)

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """Print nothing, because a line per second would bury everything else."""

    def result(self, turn: Repetition, rates: Rates) -> None:
        """Print the rates of the repetition."""
        self._print(f"  result: {rates.text}")

    def event(self, name: str, **values: Any) -> None:
        """Print nothing."""

    def close(self) -> None:
        """Do nothing; the stream belongs to the caller."""


class Events:
    """Makes the events of a run: JSON objects, one per line, each with `event` and `at` (seconds
    since the epoch). `publisher` serves them to views; `stream`, if any, gets them too.
    """

    def __init__(self, publisher: Publisher, stream: IO[str] | None = None) -> None:
        self._publisher = publisher
        self._stream = stream

    def opened(self, directory: Path) -> None:
        """Serve the events in the run's directory. A run that cannot be watched is run anyway."""
        self._publisher.open(directory)
        if self._publisher.error is not None:
            print(shown(f"note: the run cannot be watched: {self._publisher.error}"), file=sys.stderr)

    def event(self, name: str, **values: Any) -> None:
        """Publish an event. Raises Interrupted if the reader of the stream closed the pipe."""
        line = json.dumps({"event": name, "at": round(time.time(), 3)} | values, ensure_ascii=False, allow_nan=False)
        self._publisher.publish(name, line)
        if self._stream is not None:
            _print(line, self._stream)

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """`{"event": "phase", …}`."""
        self.event("phase", phase=name, detail=detail, left_s=round(left_s))

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """`{"event": "repetition_started", …}`."""
        self.event(
            "repetition_started",
            point=turn.point.id,
            repetition=turn.repetition,
            factors=turn.point.factors,
            label=factors_text(turn),
            done=done,
            total=total,
            left_s=round(left_s),
        )

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """`{"event": "sample", …}`."""
        self.event(
            "sample",
            point=turn.point.id,
            repetition=turn.repetition,
            left_s=round(left_s),
            text=rates.text,
            queues=dict(queues),
            **rates.values,
        )

    def result(self, turn: Repetition, rates: Rates) -> None:
        """`{"event": "result", …}`."""
        self.event("result", point=turn.point.id, repetition=turn.repetition, text=rates.text, **rates.values)

    def close(self) -> None:
        """Disconnect the views. The stream belongs to the caller."""
        self._publisher.close()


def _print(line: str, stream: IO[str]) -> None:
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        # Buffered output must not fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise Interrupted("the reader of the JSON stream closed the pipe", signal=signal.SIGPIPE) from None


class Watchers:
    """Forwards every call to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def opened(self, directory: Path) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.opened(directory)

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.phase(name, detail, left_s)

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.turn(turn, done, total, left_s)

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.now(turn, rates, queues, left_s)

    def result(self, turn: Repetition, rates: Rates) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.result(turn, rates)

    def event(self, name: str, **values: Any) -> None:
        """Forward to all."""
        for watcher in self._watchers:
            watcher.event(name, **values)

    def close(self) -> None:
        """Close all."""
        for watcher in self._watchers:
            watcher.close()


def watchers(*, json_lines: bool, quiet: bool, colour: bool, view: Watcher | None = None) -> Watchers:
    """Return the watchers that the command line selects. Lines are plain if stderr is not a
    terminal or NO_COLOR is set. `view` takes their place.
    """
    chosen: list[Watcher] = [Events(Publisher(), sys.stdout if json_lines else None)]
    if view is not None:
        chosen.append(view)
    elif not quiet:
        chosen.append(Terminal(sys.stderr) if colour and sys.stderr.isatty() else Lines(sys.stderr))
    return Watchers(chosen)
