"""Search: proposes the next setting from the trials made. Pure: the same trials and seed give the
same setting.

The first trial uses the defaults, the second the setting that the closed forms suggest
(`closed_form.suggest`). With the goal `memory` a third uses their lean form (`memory.lean`). After
these, optuna's tree-structured Parzen estimator (Bergstra et al. 2011) proposes the settings. The
estimator is rebuilt from all trials for every proposal, so every score is relative to the best
trial so far, and an interrupted search resumes unchanged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Literal

from hakaru.extras import extra
from hakaru.tune.closed_form import bound_bytes_per_s, suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Knob, Machine, Settings, Space, Value, defaults_of, settle
from hakaru.tune.memory import lean, memory_bytes

Goal = Literal["throughput", "memory"]
ENOUGH = 0.95
"""Share of the best throughput that suffices with the goal `memory`."""
BETTER = 1.01
"""Factor by which a trial must exceed another to count as better. Trials of a few seconds vary by
less.
"""
NEAR = 0.97
"""Share of the reachable throughput at which the search ends."""
FREE_KNOBS = 4
"""Number of knobs that are redrawn while the others keep the best trial's values."""
PROMISING = 0.7
"""A setting whose upper bound is below this share of the best rate is not tried."""
ESTIMATOR_DRAWS = 8
"""Draws by the estimator for one proposal."""
DRAWS_MAX = 100
"""Maximum draws for one proposal. Those after `ESTIMATOR_DRAWS` redraw a few knobs of the best
setting uniformly, which is cheap.
"""


@dataclass(frozen=True)
class SearchTrial:
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
        """Return the buffer bytes that a setting needs at both ends."""
        return memory_bytes(self.conditions, settings, self.machine)

    def best(self, tried: Sequence[SearchTrial]) -> int | None:
        """Return the index of the best trial: the fastest, or the one with the least memory among
        those that are fast enough. None if no trial has a result.
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

    def since_better(self, tried: Sequence[SearchTrial]) -> int:
        """Return the number of trials since the last improvement."""
        last, best = -1, None
        for i in range(len(tried)):
            current = self.best(tried[: i + 1])
            if current is None or current == best:
                continue
            if best is None or self._is_better(tried[current], tried[best]):
                last = i
                best = current
        return len(tried) - 1 - last

    def _is_better(self, trial: SearchTrial, other: SearchTrial) -> bool:
        if _rate(trial) >= BETTER * _rate(other):
            return True
        return self.goal == "memory" and self.memory(trial.settings) * BETTER <= self.memory(other.settings)

    def propose(self, tried: Sequence[SearchTrial]) -> dict[str, Value]:
        """Return the next setting. Raises EnvironmentError_ if optuna is needed and not
        installed.
        """
        fixed = self.first_settings()
        if len(tried) < len(fixed):
            return fixed[len(tried)]
        return self._drawn(tried)

    def first_settings(self) -> list[dict[str, Value]]:
        """Return the settings of the trials before the first random one."""
        first = [settle(self.space, defaults_of(self.space)), suggest(self.conditions, self.space, self.machine)]
        if self.goal == "memory":
            first.append(lean(self.conditions, self.space, self.machine))
        return first

    def _drawn(self, tried: Sequence[SearchTrial]) -> dict[str, Value]:
        optuna = _optuna()
        distributions = {knob.name: _distribution(optuna, knob) for knob in self.space}
        past_trials = [
            optuna.trial.create_trial(params=self._params(trial.settings), distributions=distributions, value=score)
            for trial, score in zip(tried, self.scores(tried), strict=True)
        ]
        # Every draw follows from the seed and the number of trials.
        seed = (self.seed * 1_000_003 + len(tried)) % (1 << 32)
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=1)
        )
        study.add_trials(past_trials)
        seen = [settle(self.space, trial.settings) for trial in tried]
        bound_min = PROMISING * max((_rate(trial) for trial in tried), default=0.0) * 1e6
        drawn: list[tuple[float, dict[str, Value]]] = []
        for attempt in range(DRAWS_MAX):
            if attempt < ESTIMATOR_DRAWS or self.best(tried) is None:
                params = study.ask(distributions).params | self._fixed_params(tried, seed + attempt)
                settings = settle(self.space, {knob.name: _value(knob, params[knob.name]) for knob in self.space})
            else:
                settings = self._near(tried, seed + attempt)
            if settings not in seen:
                drawn.append((self._bound(settings), settings))
                if drawn[-1][0] >= bound_min:
                    return settings
        return max(drawn, key=lambda trial: trial[0])[1] if drawn else self._best_again(tried)

    def _bound(self, settings: Settings) -> float:
        """Return the upper bound of a setting in bytes/s; infinite if the path is unknown."""
        if self.conditions.rate_bits_per_s is None or self.conditions.rtt_ns is None:
            return float("inf")
        return bound_bytes_per_s(self.conditions, settings, self.machine)

    def _best_again(self, tried: Sequence[SearchTrial]) -> dict[str, Value]:
        """Return the best setting again, because every drawn setting was already tried."""
        best = self.best(tried)
        return settle(self.space, tried[best].settings if best is not None else defaults_of(self.space))

    def _near(self, tried: Sequence[SearchTrial], seed: int) -> dict[str, Value]:
        """Return the best setting with a few knobs redrawn uniformly."""
        best = self.best(tried)
        assert best is not None, "without a best trial the estimator draws"
        generator = random.Random(seed)
        free = generator.sample(list(self.space), min(FREE_KNOBS, len(self.space)))
        return settle(self.space, {**tried[best].settings, **{k.name: generator.choice(k.levels) for k in free}})

    def _fixed_params(self, tried: Sequence[SearchTrial], seed: int) -> dict[str, Value]:
        """Return the parameters that override the estimator's draw: in every third trial all but
        `FREE_KNOBS` knobs, at the values of the best trial; otherwise none.

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

    def scores(self, tried: Sequence[SearchTrial]) -> list[float]:
        """Return the scores that the search maximises. A failed trial scores 0.

        With the goal `throughput` a score is the trial's share of the best rate. With the goal
        `memory` a trial whose rate suffices scores from 1 (most memory of all trials) to 2 (least).
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


def _rate(trial: SearchTrial) -> float:
    return trial.mb_per_s or 0.0


def _optuna() -> Any:
    with extra("tune"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, knob: Knob) -> Any:
    if knob.ordered:
        return optuna.distributions.IntDistribution(0, len(knob.levels) - 1)
    return optuna.distributions.CategoricalDistribution(knob.levels)


def _position(knob: Knob, value: Value) -> Value:
    """Return a value as the search encodes it: its index among the levels. A value between two
    levels takes the lower index.
    """
    if not knob.ordered:
        return value
    if value in knob.levels:
        return knob.levels.index(value)
    return max(i for i, level in enumerate(knob.levels) if level == knob.levels[0] or int(level) <= int(value))


def _value(knob: Knob, position: Value) -> Value:
    return knob.levels[int(position)] if knob.ordered else position
