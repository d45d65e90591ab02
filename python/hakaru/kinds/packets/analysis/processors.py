"""Whether one processor is full while others are idle, in the highest trial next to the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hakaru.kinds.packets.analysis.trials import Trial
from hakaru.kinds.packets.rules import CPU_FULL_PERCENT, GENERATOR_PERCENT
from hakaru.wording import say, tenths

NEAR = 0.02
"""Distance from the result, as a share of it, of the trials whose CPU use is reported."""


def near(trials: Sequence[Trial], rate: float | None) -> list[Trial]:
    """The valid trials of the search whose rate is within `NEAR` of a result; None: no result."""
    searched = [trial for trial in trials if trial.purpose == "search" and trial.is_valid]
    return [trial for trial in searched if rate and abs(trial.frames_per_s - rate) <= NEAR * rate]


@dataclass(frozen=True)
class Processors:
    """Use of the processors in one trial, in percent."""

    trial: Trial
    cpu: str
    """The busiest one."""
    cpu_percent: float
    machine_percent: float
    """All together."""

    @property
    def full(self) -> Literal["one", "all", "none"]:
        """The part of them that is full. `one`: at least one, while others are idle."""
        if self.machine_percent >= CPU_FULL_PERCENT:
            return "all"
        return "one" if self.cpu_percent >= CPU_FULL_PERCENT else "none"

    def sentences(self, language: str) -> list[str]:
        """The use, which of them are full, and whether the full one may be the generator's."""
        trial = self.trial
        values: dict[str, Any] = {
            "rate": trial.frames_per_s,
            "loss": 100 * trial.judged_lost / trial.judged_sent if trial.judged_sent else 0.0,
        }
        values |= {"cpu": self.cpu, "busiest": tenths(self.cpu_percent, language)}
        values |= {"machine": tenths(self.machine_percent, language)}
        idle = {"idle": round(100 - self.machine_percent)}
        parts = [say(language, "packets.processors", values), say(language, f"packets.processors.{self.full}", idle)]
        if self.full == "one" and trial.generator_percent >= GENERATOR_PERCENT:
            used = {"percent": tenths(trial.generator_percent, language)}
            parts.append(say(language, "packets.processors.generator", used))
        return parts

    def to_json(self) -> dict[str, Any]:
        """As evidence of a finding."""
        return {
            "frames_per_s": self.trial.frames_per_s,
            "busiest_cpu": self.cpu,
            "busiest_cpu_percent": self.cpu_percent,
            "machine_percent": self.machine_percent,
            "generator_percent": self.trial.generator_percent,
            "full": self.full,
        }


def of_trials(close: Sequence[Trial]) -> Processors | None:
    """Those of the highest of the trials next to a result; None if none of them has CPU use."""
    for trial in sorted(close, key=lambda t: t.frames_per_s, reverse=True):
        if trial.busiest is not None and trial.machine_percent is not None:
            return Processors(trial, *trial.busiest, trial.machine_percent)
    return None
