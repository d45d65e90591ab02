"""Procedure of a tuning: chooses the next measurement from those made. Pure, so that a tuning can
stop after any of them.

    search         one trial per setting, until the reachable throughput is reached, nothing
                   improves, or trials or time run out
    contribution   the best and the best with each knob reverted, in rounds of shuffled order; the
                   peer, a setting from elsewhere to compare with the best, takes part in the rounds
    advice         the best with all knobs reverted that contribute nothing; while that is slower
                   than the best, half of them are restored, those with the larger losses first

`Tuning.next(trials)` depends on the trials alone, so a resumed run takes the same next step.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from hakaru.tune.closed_form import reachable_bytes_per_s
from hakaru.tune.contribution import Contribution, contributions
from hakaru.tune.knobs import Settings, Value, changed, defaults_of, settle
from hakaru.tune.search import NEAR, Search, SearchTrial

Phase = Literal["search", "contribution", "peer", "advice"]
ROUNDS: tuple[Phase, ...] = ("contribution", "peer")
"""Phases whose measurements are made in rounds."""
Reason = Literal["reached", "patience", "trials", "time", "failed"]
Kept = Literal["slower", "memory", "unmeasured"]
"""Why the advice keeps a knob changed that contributes nothing alone. `slower`: a measured setting
with that knob and others at their defaults was slower than the best. `memory`: its default needs
more memory, with the goal `memory`. `unmeasured`: no setting with its default was measured often
enough, or all of these trials failed.
"""
PEER = "(peer)"
"""Name of the peer among the names of knobs. No knob has this name."""
TOLERANCE, TOLERANCE_MAX = 0.03, 0.1
"""Bounds of the share by which advice may be slower than the best. Repetitions of a few seconds
vary this much on a busy machine.
"""
FAILURES_MAX = 3
"""Consecutive failures that end a tuning. So many failures are not due to the settings."""


@dataclass(frozen=True)
class Step:
    """Next measurement. `knob`: the knob that is reverted, for a contribution."""

    phase: Phase
    settings: dict[str, Value]
    knob: str | None = None


@dataclass(frozen=True)
class Trial:
    """One finished measurement. `mb_per_s`: None if it failed. `seconds`: its duration, including
    the time without load.
    """

    phase: Phase
    settings: Settings
    knob: str | None
    mb_per_s: float | None
    seconds: float
    point: str = ""
    repetition: int = 1
    error: str | None = None
    caveats: tuple[dict[str, Any], ...] = field(default=(), compare=False)

    @property
    def valid(self) -> bool:
        """Whether no check found that the rate must not be used. A failed trial has no rate, so it
        is valid.
        """
        return all(caveat["severity"] != "invalid" for caveat in self.caveats)


@dataclass(frozen=True)
class Peer:
    """A setting from elsewhere, such as one tuned by hand. `name`: as given with `--against`."""

    name: str
    settings: Settings


@dataclass(frozen=True)
class Limits:
    """Limits of a tuning. `patience`: consecutive trials without a better result that end a search.
    `repetitions`: measurements of each setting after the search.
    """

    trials: int = 25
    budget_s: float = 300.0
    patience: int = 10
    repetitions: int = 3


@dataclass(frozen=True)
class Tuning:
    """A tuning, which continues until `next` returns None."""

    search: Search
    limits: Limits
    peer: Peer | None = None

    def next(self, trials: Sequence[Trial]) -> Step | None:
        """Return the next measurement; None if all are done."""
        tried = self.tried(trials)
        if self.search_ended(trials) is None:
            return Step("search", self.search.propose(tried))
        best = self.search.best(tried)
        if best is None or self._out_of_time(trials):
            return None
        schedule = self.schedule(tried[best].settings)
        done = [t for t in trials if t.phase in ROUNDS]
        if len(done) < len(schedule):
            return schedule[len(done)]
        return self._advice_step(trials, tried[best].settings)

    def tried(self, trials: Sequence[Trial]) -> list[SearchTrial]:
        """Return the trials of the search."""
        return [SearchTrial(t.settings, counted_rate(t, trials)) for t in trials if t.phase == "search"]

    def search_ended(self, trials: Sequence[Trial]) -> Reason | None:
        """Return the reason why the search ended; None if it continues."""
        # Later trials must not change the answer: a search that continued during the rounds could
        # find another best, and the rounds would compare with both.
        searched = [t for t in trials if t.phase == "search"]
        tried = self.tried(searched)
        if failed_in_a_row(searched) >= FAILURES_MAX:
            return "failed"
        if len(tried) < len(self.search.first_settings()) and len(tried) < self.limits.trials:
            # The first settings are tried with any budget.
            return None
        reachable = reachable_bytes_per_s(self.search.conditions, self.search.space)
        fastest = max((trial.mb_per_s or 0.0 for trial in tried), default=0.0)
        if self.search.goal == "throughput" and reachable is not None and fastest * 1e6 >= NEAR * reachable:
            return "reached"
        if len(tried) >= self.limits.trials:
            return "trials"
        if self.search.since_better(tried) >= self.limits.patience:
            return "patience"
        searched_s = sum(t.seconds for t in searched)
        return "time" if searched_s + self._reserve_s(searched) >= self.limits.budget_s else None

    def _reserve_s(self, searched: Sequence[Trial]) -> float:
        """Return the part of the budget reserved for the contributions and the next trial, from the
        trials of the search.
        """
        tried = self.tried(searched)
        best = self.search.best(tried)
        each = sum(t.seconds for t in searched) / len(searched)
        changed_count = len(changed(self.search.space, tried[best].settings)) if best is not None else 0
        return each * (1 + self.limits.repetitions * (2 + changed_count + (self.peer is not None)))

    def _out_of_time(self, trials: Sequence[Trial]) -> bool:
        return sum(t.seconds for t in trials) >= self.limits.budget_s or failed_in_a_row(trials) >= FAILURES_MAX

    def switched(self, best: Settings) -> dict[str, dict[str, Value]]:
        """Return knob → the best setting with that knob at its default. Omits a knob that makes no
        difference to the setting.
        """
        space, reverted = self.search.space, {}
        for knob in changed(space, best):
            back = settle(space, {**best, knob.name: knob.default})
            if back != settle(space, best):
                reverted[knob.name] = back
        return reverted

    def schedule(self, best: Settings) -> list[Step]:
        """Return every measurement of the contributions and of the peer, in order."""
        variants = [Step("contribution", settle(self.search.space, best))]
        variants += [Step("contribution", settings, knob) for knob, settings in self.switched(best).items()]
        if self.peer is not None:
            variants.append(Step("peer", self.of_peer(best)))
        steps = []
        for turn in range(self.limits.repetitions):
            order = list(variants)
            # Shuffling spreads drift evenly over the variants.
            random.Random(f"{self.search.seed}/contribution/{turn}").shuffle(order)
            steps += order
        return steps

    def of_peer(self, best: Settings) -> dict[str, Value]:
        """Return the peer's settings, with as many requests outstanding as the best has."""
        assert self.peer is not None, "called only for a tuning with a peer"
        depth = {"queue_depth": best["queue_depth"]} if "queue_depth" in best else {}
        return settle(self.search.space, {**self.peer.settings, **depth})

    def contributions(self, trials: Sequence[Trial]) -> list[Contribution]:
        """Return the contribution of each measured knob."""
        return [contribution for contribution in self._compared(trials) if contribution.knob != PEER]

    def against_peer(self, trials: Sequence[Trial]) -> Contribution | None:
        """Return the loss from using the peer instead of the best; below 0 if it is faster."""
        return next((contribution for contribution in self._compared(trials) if contribution.knob == PEER), None)

    def _compared(self, trials: Sequence[Trial]) -> list[Contribution]:
        values: dict[str | None, list[float | None]] = {}
        for t in trials:
            if t.phase in ROUNDS:
                values.setdefault(PEER if t.phase == "peer" else t.knob, []).append(counted_rate(t, trials) or None)
        return contributions(values.pop(None, []), {knob: v for knob, v in values.items() if knob is not None})

    def best(self, trials: Sequence[Trial]) -> dict[str, Value] | None:
        """Return the best setting of the search."""
        tried = self.tried(trials)
        index = self.search.best(tried)
        return None if index is None else settle(self.search.space, tried[index].settings)

    def advised(self, trials: Sequence[Trial]) -> tuple[dict[str, Value] | None, bool]:
        """Return the setting to advise, and whether measurements confirm it as good as the best."""
        best = self.best(trials)
        if best is None:
            return None, False
        for candidate in self._candidates(trials, best):
            if candidate != best and self._is_accepted(trials, best, candidate):
                return candidate, True
        return best, bool(self._values(trials, "contribution", best))

    def kept(self, trials: Sequence[Trial]) -> dict[Kept, list[str]]:
        """Return reason → the knobs that the advice keeps changed although they contribute nothing
        alone.
        """
        best, (advised, _) = self.best(trials), self.advised(trials)
        if best is None or advised is None:
            return {}
        defaults = defaults_of(self.search.space)
        slower = [
            candidate
            for candidate in self._candidates(trials, best)
            if self._values(trials, "advice", candidate) and self._is_accepted(trials, best, candidate) is False
        ]
        kept: dict[Kept, list[str]] = {}
        for knob in (c.knob for c in self.contributions(trials) if not c.contributes):
            if advised[knob] == defaults[knob]:
                continue
            reason: Kept = "unmeasured"
            if not self._may_revert(best, knob):
                reason = "memory"
            elif any(candidate[knob] == defaults[knob] for candidate in slower):
                reason = "slower"
            kept.setdefault(reason, []).append(knob)
        return kept

    def _advice_step(self, trials: Sequence[Trial], best: Settings) -> Step | None:
        best = settle(self.search.space, best)
        for candidate in self._candidates(trials, best):
            if candidate == best:
                return None
            is_accepted = self._is_accepted(trials, best, candidate)
            if is_accepted is None:
                return Step("advice", candidate)
            if is_accepted:
                return None
        return None

    def _is_accepted(self, trials: Sequence[Trial], best: Settings, candidate: Settings) -> bool | None:
        """Return whether a candidate is as good as the best; None until it has all repetitions. A
        failed repetition is not repeated: the others decide.
        """
        done = [t for t in trials if t.phase == "advice" and t.settings == candidate]
        if len(done) < self.limits.repetitions:
            return None
        return self._as_good(trials, best, self._values(trials, "advice", candidate))

    def _candidates(self, trials: Sequence[Trial], best: dict[str, Value]) -> list[dict[str, Value]]:
        """Return settings from the simplest to the best itself, with fewer and fewer knobs at their
        defaults.
        """
        defaults, space = defaults_of(self.search.space), self.search.space
        idle = [c for c in self.contributions(trials) if not c.contributes and self._may_revert(best, c.knob)]
        # `settle` below also reduces FirstBurstLength when MaxBurstLength reverts.
        candidates, keep = [], 0
        while keep < len(idle):
            back = {c.knob: defaults[c.knob] for c in idle[keep:]}
            candidates.append(settle(space, {**best, **back}))
            keep = max(keep + 1, (keep + len(idle) + 1) // 2)
        return [*(setting for setting in candidates if setting != best), best]

    def _may_revert(self, best: dict[str, Value], knob: str) -> bool:
        """Return whether advice may revert a knob: not with the goal `memory` if its default needs
        more memory.
        """
        if self.search.goal == "throughput":
            return True
        back = self.switched(best).get(knob, best)
        return self.search.memory(back) <= self.search.memory(best)

    def _values(self, trials: Sequence[Trial], phase: Phase, settings: Settings) -> list[float]:
        alike = [t for t in trials if t.phase == phase and t.settings == settings]
        return [rate for t in alike if (rate := counted_rate(t, alike))]

    def _as_good(self, trials: Sequence[Trial], best: Settings, values: Sequence[float]) -> bool:
        reference = self._values(trials, "contribution", best)
        if not values or not reference:
            return False
        return median(values) >= (1 - self._tolerance(trials)) * median(reference)

    def _tolerance(self, trials: Sequence[Trial]) -> float:
        """Return the relative loss that advice may have: the uncertainty of the measurements, up to
        a limit.
        """
        widths = [(c.high - c.low) / 200 for c in self._compared(trials) if c.low is not None and c.high is not None]
        return min(TOLERANCE_MAX, max(TOLERANCE, median(widths) if widths else 0.0))


def counted_rate(trial: Trial, trials: Sequence[Trial]) -> float | None:
    """Return the rate of a trial in MB/s; None if it failed, or if it is invalid and `trials` have
    a valid rate of its setting in its phase.
    """
    if trial.valid:
        return trial.mb_per_s
    is_replaced = any(
        t.valid and t.mb_per_s is not None and t.phase == trial.phase and t.settings == trial.settings for t in trials
    )
    return None if is_replaced else trial.mb_per_s


def failed_in_a_row(trials: Sequence[Trial]) -> int:
    """Return the number of consecutive failures at the end of the trials."""
    count = 0
    for trial in reversed(trials):
        if trial.mb_per_s is not None:
            break
        count += 1
    return count
