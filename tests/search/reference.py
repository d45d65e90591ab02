"""Runs the reference library and hakaru's MLRsearch on the same simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hakaru.search import Controller, Goal, Grid, MlrSearch, Outcome, Trial, TrialResult
from hakaru.search.simulated import run_simulated
from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

Measure = Callable[[Trial], TrialResult]


@dataclass
class Recorder(AbstractMeasurer):
    """Measures trials with a device and keeps a log of load, duration and loss.

    The two implementations compute loads and durations with different rounding, in the last of 16
    digits. They are rounded before the device sees them, so that it returns the same results.
    """

    device: Measure
    log: list[tuple[float, float, int]] = field(default_factory=list)

    def run(self, load: float, duration_s: float) -> TrialResult:
        trial = Trial(float(f"{load:.10g}"), round(duration_s, 6))
        result = self.device(trial)
        self.log.append((trial.load, trial.duration_s, result.lost))
        return result

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Return the result of a trial in the form of the reference library."""
        result = self.run(intended_load, intended_duration)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=result.offered,
            loss_count=result.lost,
            intended_count=result.intended,
            duration_with_overheads=result.effective_s,
        )

    def measure_here(self, trial: Trial) -> TrialResult:
        """Return the result of a trial in hakaru's form."""
        result = self.run(trial.load, trial.duration_s)
        return TrialResult(trial, result.offered, result.lost, result.intended, result.effective_s)


def reference_search(
    goals: Iterable[Goal],
    loads: tuple[float, float],
    recorder: Recorder,
    *,
    warmup_s: float = 1.0,
    budget_s: float = 1200.0,
    fail_fast: bool = False,
) -> tuple[MultipleLossRatioSearch, list[tuple[float | None, float | None, Callable[[], float | None]]]]:
    """Run the reference library; return it and, per goal, lower and upper bound and a function that
    returns the conditional throughput.
    """
    config = Config()
    config.min_load = min(loads[0], config.min_load)
    config.max_load = loads[1]
    config.min_load = loads[0]
    config.warmup_duration = warmup_s
    config.search_duration_max = budget_s
    config.goals = [
        SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
            preceding_targets=goal.preceding_targets,
            expansion_coefficient=goal.expansion,
            fail_fast=fail_fast,
        )
        for goal in goals
    ]
    search = MultipleLossRatioSearch(config)
    results = search.search(recorder, debug=lambda text: None).values()

    def number(load: object) -> float | None:
        return None if load is None else float(load)  # type: ignore[arg-type]

    def throughput(result: object) -> Callable[[], float | None]:
        return lambda: number(result.conditional_throughput)  # type: ignore[attr-defined]

    return search, [(number(r.relevant_lower_bound), number(r.relevant_upper_bound), throughput(r)) for r in results]


def own_search(goals: Iterable[Goal], grid: Grid, recorder: Recorder, *, warmup_s: float = 1.0) -> Outcome:
    """Run hakaru's MLRsearch."""
    return run_simulated(Controller(MlrSearch(goals, warmup_s), grid), recorder.measure_here)
