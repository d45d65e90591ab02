"""A model of a path from the closed forms, with noise, to test the search without a lab."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hakaru.tune.closed_form import bound_bytes_per_s
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Machine, Settings, Space, Value, settle, space_of
from hakaru.tune.search import Goal, Search, SearchTrial
from hakaru.tune.start import TODAY
from hakaru.tune.tuning import Limits, Trial, Tuning

MS = 1_000_000
GBIT = 10**9
MIB = 1 << 20


def conditions(
    rtt_ms: float = 20, loss: float = 0.0, rate: int = GBIT, block: int = 4 * MIB, depth: int | None = None
) -> Conditions:
    return Conditions(round(rtt_ms * MS), loss, rate, block, "write", depth)


@dataclass
class PathModel:
    """`measure(settings)` in MB/s; `noise`: relative standard deviation."""

    conditions: Conditions
    machine: Machine = field(default_factory=Machine)
    noise: float = 0.02
    seed: int = 1

    def __post_init__(self) -> None:
        self.space: Space = space_of(self.conditions, TODAY, self.machine, lab=True)
        self.random = random.Random(self.seed)

    def exact(self, settings: Settings) -> float:
        return bound_bytes_per_s(self.conditions, settings, self.machine) / 1e6

    def measure(self, settings: Settings) -> float:
        return self.exact(settings) * max(0.5, self.random.gauss(1, self.noise))

    def search(self, goal: Goal = "throughput", seed: int = 1) -> Search:
        return Search(self.conditions, self.space, self.machine, goal, seed)

    def tuning(self, goal: Goal = "throughput", seed: int = 1, limits: Limits | None = None) -> Tuning:
        return Tuning(self.search(goal, seed), limits or Limits(budget_s=1e9))

    def optimum(self) -> tuple[dict[str, Value], float]:
        """Return the best settings of the model and their rate in MB/s, by coordinate ascent."""
        return climb(self.space, self.exact)


def climb(space: Space, value: Callable[[Settings], float], starts: int = 30) -> tuple[dict[str, Value], float]:
    """Return the best settings that coordinate ascent finds from many starts, and their value."""
    drawn = random.Random(7)
    best: tuple[dict[str, Value], float] = ({}, float("-inf"))
    for _ in range(starts):
        now = settle(space, {knob.name: drawn.choice(knob.levels) for knob in space})
        score = value(now)
        better = True
        while better:
            better = False
            for knob in space:
                for level in knob.levels:
                    candidate = settle(space, {**now, knob.name: level})
                    if (candidate_score := value(candidate)) > score:
                        now, score, better = candidate, candidate_score, True
        if score > best[1]:
            best = now, score
    return best


def run(tuning: Tuning, model: PathModel, trials: Sequence[Trial] = (), most: int = 1000) -> list[Trial]:
    """Return all trials of a tuning, or at most `most` of them. Each takes four seconds."""
    measured = list(trials)
    while len(measured) < most and (step := tuning.next(measured)) is not None:
        measured.append(Trial(step.phase, step.settings, step.knob, model.measure(step.settings), 4.0))
    return measured


def search_only(search: Search, model: PathModel, trials: int) -> list[SearchTrial]:
    """Measure this many proposals of the search."""
    tried: list[SearchTrial] = []
    for _ in range(trials):
        settings = search.propose(tried)
        tried.append(SearchTrial(settings, model.measure(settings)))
    return tried
