"""A controller of a load while it runs: it orders trials and learns their results.

A kind whose load needs one returns it from `RunKind.dialogue`. A dialogue is pure: the time is
passed in, and `converse` sends its orders to the engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession


@dataclass(frozen=True)
class Order:
    """A trial for the load on a node."""

    node: str
    trial: contract.Trial


class Dialogue(ABC):
    """Orders trials one by one. Call `next_order` and `record` in turn; None ends the load."""

    @abstractmethod
    def next_order(self, now_s: float) -> Order | None:
        """The next trial, or None at the end. `now_s`: seconds on a clock that does not step."""

    @abstractmethod
    def record(self, order: Order, result: contract.TrialOutcome) -> None:
        """Learn the result of the trial that `next_order` returned."""

    @abstractmethod
    def window(self) -> tuple[int, int] | None:
        """From the first trial to the end of the last, ns of CLOCK_MONOTONIC; None without any."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything learned, as plain JSON; stored as `trials` with the repetition."""

    @abstractmethod
    def histograms(self) -> Mapping[str, Sequence[contract.NamedHistogram]]:
        """Node → histograms to store with the repetition."""


async def converse(dialogue: Dialogue, loads: Sequence[EngineSession], check: Callable[[], None]) -> None:
    """Run the trials that a dialogue orders, then stop the loads. Raises as `EngineSession.trial`
    does, and the error of `check`, which is called after each trial.
    """
    by_node = {engine.node: engine for engine in loads}
    while (order := dialogue.next_order(clock.now_ns() / 1e9)) is not None:
        result = await by_node[order.node].trial(order.trial)
        check()
        dialogue.record(order, result)
    for engine in loads:
        await engine.stop()
