"""A controller of a load while it runs: it orders trials and learns their results.

A kind whose load needs one returns it from `RunKind.dialogue`. A dialogue is pure: the time is
passed in, and `converse` sends its orders to the engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession

Losses = Mapping[str, int]
"""Place in the device or around it → frames lost there (`hakaru.lab.build.losses`)."""


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
    def record(self, order: Order, result: contract.TrialOutcome, losses: Losses) -> None:
        """Learn the result of the trial that `next_order` returned, and the frames that the device
        lost in it by its own counters.
        """

    @abstractmethod
    def window(self) -> tuple[int, int] | None:
        """From the first trial to the end of the last, ns of CLOCK_MONOTONIC; None without any."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything learned, as plain JSON; stored as `trials` with the repetition."""

    @abstractmethod
    def histograms(self) -> Mapping[str, Sequence[contract.NamedHistogram]]:
        """Node → histograms to store with the repetition."""


async def converse(
    dialogue: Dialogue, loads: Sequence[EngineSession], count_losses: Callable[[], Awaitable[Losses]]
) -> None:
    """Run the trials that a dialogue orders, then stop the loads.

    `count_losses` returns cumulative counts. It is called before the first trial and after each
    one, while no frame is under way. Raises as it and `EngineSession.trial` do.
    """
    by_node = {engine.node: engine for engine in loads}
    before = await count_losses()
    while (order := dialogue.next_order(clock.now_ns() / 1e9)) is not None:
        result = await by_node[order.node].trial(order.trial)
        after = await count_losses()
        dialogue.record(order, result, {place: lost - before.get(place, 0) for place, lost in after.items()})
        before = after
    for engine in loads:
        await engine.stop()
