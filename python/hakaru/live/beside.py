"""The full-screen view of `hakaru run --live`: the view of `hakaru attach` on the run's terminal.

It is a process of its own, so that it takes no time from the run's. When the user leaves it, the
run continues with its line of progress. It ends with the run. If it is killed, this process
restores the terminal. If the run is killed as well, the supervisor of its sandbox does so; nothing
does if that is killed, and `reset` helps then.

    python -m hakaru.live.beside FOLDER RUN LANGUAGE
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hakaru import left_terminal
from hakaru.live.attach import load_screen
from hakaru.live.feed import LiveRun, of_directory
from hakaru.live.follow import step_back
from hakaru.run.meter import Rates
from hakaru.run.progress import Terminal, Watcher
from hakaru.study import Repetition

END_S = 5.0
"""Time for the view to leave the terminal at the end of the run."""
TERMINATE_S = 1.0
"""Time for it to do so when asked. A view that is stopped cannot."""


class Beside:
    """A watcher that shows the view until the user leaves it, and the line of progress then.
    Raises EnvironmentError_ without the extra `live`.
    """

    def __init__(self, language: str) -> None:
        load_screen()
        self._language = language
        self._view: subprocess.Popen[bytes] | None = None
        self._line: Terminal | None = None
        self._turn: tuple[Repetition, int, int, float] | None = None
        self._terminal = left_terminal.attributes()

    def _watcher(self) -> Watcher | None:
        """The line of progress; None while the terminal belongs to the view."""
        if self._view is not None and self._view.poll() is None:
            return None
        if self._line is None:
            left_terminal.restore(self._terminal)
            self._line = Terminal(sys.stderr)
            if self._turn is not None:
                self._line.turn(*self._turn)
        return self._line

    def opened(self, directory: Path) -> None:
        """Start the view."""
        run = of_directory(directory)
        command = [sys.executable, "-m", "hakaru.live.beside", str(run.folder), run.name, self._language]
        self._view = subprocess.Popen(command)

    def phase(self, name: str, detail: str, left_s: float) -> None:
        """Forward to the line."""
        if watcher := self._watcher():
            watcher.phase(name, detail, left_s)

    def turn(self, turn: Repetition, done: int, total: int, left_s: float) -> None:
        """Forward to the line, which may begin later."""
        self._turn = turn, done, total, left_s
        if watcher := self._watcher():
            watcher.turn(turn, done, total, left_s)

    def now(self, turn: Repetition, rates: Rates, queues: Mapping[str, float], left_s: float) -> None:
        """Forward to the line."""
        if watcher := self._watcher():
            watcher.now(turn, rates, queues, left_s)

    def result(self, turn: Repetition, rates: Rates) -> None:
        """Forward to the line."""
        if watcher := self._watcher():
            watcher.result(turn, rates)

    def event(self, name: str, **values: Any) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Give the terminal back. The view has seen the end of the run."""
        if self._view is not None:
            try:
                self._view.wait(END_S)
            except subprocess.TimeoutExpired:
                self._end(self._view)
            left_terminal.restore(self._terminal)
        if self._line is not None:
            self._line.close()

    def _end(self, view: subprocess.Popen[bytes]) -> None:
        view.terminate()
        try:
            view.wait(TERMINATE_S)
        except subprocess.TimeoutExpired:
            view.kill()
            view.wait()


def main() -> None:
    """Show the view until the run ends or the user leaves."""
    step_back()
    folder, name, language = sys.argv[1:]
    screen = load_screen()(LiveRun(Path(folder), name), language, leave_at_end=True)
    screen.run()


if __name__ == "__main__":
    main()
