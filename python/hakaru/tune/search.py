"""The next setting to try, from those tried. Pure: the same trials and seed give the same setting.

The first trial stands at the defaults, the second where closed forms say (`closed_form.suggest`),
with the goal of least memory a third at their lean form; then optuna's tree-structured Parzen
estimator (Bergstra et al. 2011) proposes. It is built anew from all trials for every proposal: what
is told is the score as it stands with the best known by then, and a search that was interrupted
goes on as if it had not been.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Literal

from hakaru.errors import EnvironmentError_
from hakaru.tune.closed_form import bound_bytes_per_s, suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Knob, Machine, Settings, Space, Value, defaults_of, settle
from hakaru.tune.memory import lean, memory_bytes

Goal = Literal["throughput", "memory"]
ENOUGH = 0.95
"""Goal `memory`: the share of the best throughput that is enough."""
BETTER = 1.01
"""Factor from which a trial counts as better: one percent. Trials of seconds vary by less."""
NEAR = 0.97
"""Share of what can be reached at all from which on there is nothing left to search for."""
FREE_KNOBS = 4
"""How many knobs are redrawn where the others stay as the best has them."""
WORTH = 0.7
"""A setting that by its bounds cannot come to this share of the best rate is not tried: it would
only take time.
"""
ESTIMATED = 8
"""Draws by the estimator for a setting that is new and worth trying."""
PROPOSALS_MAX = 100
"""Most draws in all: the rest redraw a few knobs of the best, evenly, which is cheap."""


@dataclass(frozen=True)
class Tried:
    """One trial of the search. `mb_per_s`: None where it failed."""

    settings: Settings
    mb_per_s: float | None


@dataclass(frozen=True)
class Search:
    """Goal and space of the search."""

    conditions: Conditions
    space: Space
    machine: Machine
    goal: Goal
    seed: int

    def memory(self, settings: Settings) -> int:
        """Bytes that a setting takes of both ends."""
        return memory_bytes(self.conditions, settings, self.machine)

    def best(self, tried: Sequence[Tried]) -> int | None:
        """Best trial: the fastest, or the one with the least memory among those that are fast
        enough.
        """
        measured = [i for i, trial in enumerate(tried) if trial.mb_per_s is not None]
        if not measured:
            return None
        fastest = max(measured, key=lambda i: _rate(tried[i]))
        if self.goal == "throughput":
            return fastest
        enough = ENOUGH * _rate(tried[fastest])
        fast = [i for i in measured if _rate(tried[i]) >= enough]
        return min(fast, key=lambda i: (self.memory(tried[i].settings), -_rate(tried[i])))

    def since_better(self, tried: Sequence[Tried]) -> int:
        """Trials since the last one that was better than all before it."""
        last, best = -1, None
        for i in range(len(tried)):
            now = self.best(tried[: i + 1])
            if now is None or now == best:
                continue
            if best is None or self._is_better(tried[now], tried[best]):
                last = i
                best = now
        return len(tried) - 1 - last

    def _is_better(self, trial: Tried, other: Tried) -> bool:
        if _rate(trial) >= BETTER * _rate(other):
            return True
        return self.goal == "memory" and self.memory(trial.settings) * BETTER <= self.memory(other.settings)

    def propose(self, tried: Sequence[Tried]) -> dict[str, Value]:
        """The next setting. Raises EnvironmentError_ where optuna is not installed and is
        needed.
        """
        fixed = self.first_settings()
        if len(tried) < len(fixed):
            return fixed[len(tried)]
        return self._drawn(tried)

    def first_settings(self) -> list[dict[str, Value]]:
        """Trials before the first random one."""
        first = [settle(self.space, defaults_of(self.space)), suggest(self.conditions, self.space, self.machine)]
        if self.goal == "memory":
            first.append(lean(self.conditions, self.space, self.machine))
        return first

    def _drawn(self, tried: Sequence[Tried]) -> dict[str, Value]:
        optuna = _optuna()
        distributions = {knob.name: _distribution(optuna, knob) for knob in self.space}
        told = [
            optuna.trial.create_trial(params=self._params(trial.settings), distributions=distributions, value=score)
            for trial, score in zip(tried, self.scores(tried), strict=True)
        ]
        # All that is drawn follows from the seed and how many trials there were.
        seed = (self.seed * 1_000_003 + len(tried)) % (1 << 32)
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=1)
        )
        study.add_trials(told)
        seen = [settle(self.space, trial.settings) for trial in tried]
        least = WORTH * max((_rate(trial) for trial in tried), default=0.0) * 1e6
        drawn: list[tuple[float, dict[str, Value]]] = []
        for attempt in range(PROPOSALS_MAX):
            if attempt < ESTIMATED or self.best(tried) is None:
                params = study.ask(distributions).params | self._kept(tried, seed + attempt)
                settings = settle(self.space, {knob.name: _value(knob, params[knob.name]) for knob in self.space})
            else:
                settings = self._near(tried, seed + attempt)
            if settings not in seen:
                drawn.append((self._bound(settings), settings))
                if drawn[-1][0] >= least:
                    return settings
        return max(drawn, key=lambda trial: trial[0])[1] if drawn else self._again(tried)

    def _bound(self, settings: Settings) -> float:
        """Upper bound of a setting by closed forms; infinite if the path is unknown."""
        if self.conditions.rate_bits_per_s is None or self.conditions.rtt_ns is None:
            return float("inf")
        return bound_bytes_per_s(self.conditions, settings, self.machine)

    def _again(self, tried: Sequence[Tried]) -> dict[str, Value]:
        """Every setting that was drawn had been tried: the best once more."""
        best = self.best(tried)
        return settle(self.space, tried[best].settings if best is not None else defaults_of(self.space))

    def _near(self, tried: Sequence[Tried], seed: int) -> dict[str, Value]:
        """The best with a few knobs anywhere."""
        best = self.best(tried)
        assert best is not None, "there is one"
        drawn = random.Random(seed)
        free = drawn.sample(list(self.space), min(FREE_KNOBS, len(self.space)))
        return settle(self.space, {**tried[best].settings, **{k.name: drawn.choice(k.levels) for k in free}})

    def _kept(self, tried: Sequence[Tried], seed: int) -> dict[str, Value]:
        """Values that the estimator may not draw. In every third trial these are all but a few
        knobs, at the values of the best trial; in the others none.

        With so few trials the estimator alone stays close to its prior. If the start is nearly
        right, changing one or two knobs improves it.
        """
        best = self.best(tried)
        if best is None or (len(tried) - len(self.first_settings())) % 3 != 2:
            return {}
        free = random.Random(seed).sample([knob.name for knob in self.space], min(FREE_KNOBS, len(self.space)))
        return {name: value for name, value in self._params(tried[best].settings).items() if name not in free}

    def _params(self, settings: Settings) -> dict[str, Value]:
        return {knob.name: _position(knob, settings[knob.name]) for knob in self.space}

    def scores(self, tried: Sequence[Tried]) -> list[float]:
        """Value that the search maximises: the share of the best rate. For least memory: 1 or more
        if the rate suffices.

        A trial that failed has 0. Above 1 a score rises by 1 from the most memory seen to the
        least.
        """
        top = max((_rate(trial) for trial in tried), default=0.0)
        shares = [_rate(trial) / top if top else 0.0 for trial in tried]
        if self.goal == "throughput":
            return shares
        memories = [log2(max(1, self.memory(trial.settings))) for trial in tried]
        low, span = min(memories), max(memories) - min(memories) or 1.0
        return [
            share if share < ENOUGH else 1 + (1 - (memory - low) / span)
            for share, memory in zip(shares, memories, strict=True)
        ]


def _rate(trial: Tried) -> float:
    return trial.mb_per_s or 0.0


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as e:
        raise EnvironmentError_(
            "the search needs the package optuna, which is not installed", "pip install 'hakaru[tune]'"
        ) from e
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, knob: Knob) -> Any:
    if knob.ordered:
        return optuna.distributions.IntDistribution(0, len(knob.levels) - 1)
    return optuna.distributions.CategoricalDistribution(knob.levels)


def _position(knob: Knob, value: Value) -> Value:
    """A value as the search knows it: its place among the levels, of one between levels the
    lower.
    """
    if not knob.ordered:
        return value
    if value in knob.levels:
        return knob.levels.index(value)
    return max(i for i, level in enumerate(knob.levels) if level == knob.levels[0] or int(level) <= int(value))


def _value(knob: Knob, position: Value) -> Value:
    return knob.levels[int(position)] if knob.ordered else position
