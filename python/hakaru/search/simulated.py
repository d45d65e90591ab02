"""Devices in virtual time, to show and to test what a search finds.

Their capacities are known, so the error of a search can be stated. A seed and the trials determine
all results. Every number from here has the origin `simulated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hakaru.search.controller import Controller, Outcome
from hakaru.search.trial import Trial, TrialResult


def run_simulated(controller: Controller, measure: Callable[[Trial], TrialResult]) -> Outcome:
    """Run a search in virtual time, which only trials consume, and return its outcome."""
    now_s = 0.0
    while (trial := controller.next_trial(now_s)) is not None:
        result = measure(trial)
        now_s += result.cost_s
        controller.record(result)
    return controller.outcome()


class SimulatedForwarder:
    """A device that forwards frames.

    - `capacity_per_s`: frames per second; more are lost.
    - `jitter`: standard deviation of the capacity between trials, as a share of it.
    - `bursts_per_s`: probability that a second has a burst of loss, from 0 to 1.
    - `burst_loss`: least and greatest share of the frames of that second that a burst loses.
    - `sender_per_s`: frames per second that the tester can send; None: any number.
    - `overhead_s`: time that a trial takes in addition to its duration, in seconds.
    """

    def __init__(
        self,
        seed: int,
        *,
        capacity_per_s: float = 800_000.0,
        jitter: float = 0.004,
        bursts_per_s: float = 0.1,
        burst_loss: tuple[float, float] = (0.0005, 0.01),
        sender_per_s: float | None = None,
        overhead_s: float = 0.5,
    ) -> None:
        self._random = Random(seed)
        self._capacity_per_s = capacity_per_s
        self._jitter = jitter
        self._bursts_per_s = bursts_per_s
        self._burst_loss = burst_loss
        self._sender_per_s = math.inf if sender_per_s is None else sender_per_s
        self._overhead_s = overhead_s

    def measure(self, trial: Trial) -> TrialResult:
        """Return the result of one trial."""
        rate = min(trial.load, self._sender_per_s)
        offered = round(rate * trial.duration_s)
        capacity = self._capacity_per_s * (1.0 + self._random.gauss(0.0, self._jitter))
        lost = max(0.0, offered - capacity * trial.duration_s)
        for second in range(math.ceil(trial.duration_s)):
            length_s = min(1.0, trial.duration_s - second)
            if self._random.random() < self._bursts_per_s * length_s:
                lost += rate * length_s * self._random.uniform(*self._burst_loss)
        return TrialResult(
            trial,
            offered=offered,
            lost=min(offered, round(lost)),
            intended=round(trial.load * trial.duration_s),
            effective_s=trial.duration_s + self._overhead_s,
        )


class SimulatedServer:
    """A server with one queue (M/M/1) that several VMs load; requests over a limit count as lost.

    - `capacity_per_s`: requests per second that it completes when busy.
    - `requests_per_vm`: requests per second of one VM; 1 if the load is a rate.
    - `limit_ms`: response time in milliseconds from which on a request is too late.

    With utilisation below 1, the share of requests that take longer than t is
    exp(-(capacity - load) t), in requests per second and seconds. Response times of one trial are
    drawn independently of each other.
    """

    def __init__(self, seed: int, *, capacity_per_s: float, requests_per_vm: float, limit_ms: float) -> None:
        self._random = Random(seed)
        self._capacity_per_s = capacity_per_s
        self._requests_per_vm = requests_per_vm
        self._limit_ms = limit_ms

    def late_ratio(self, load: float) -> float:
        """Return the expected share of requests over the limit, from 0 to 1."""
        spare_per_s = self._capacity_per_s - load * self._requests_per_vm
        return math.exp(-spare_per_s * self._limit_ms / 1000.0) if spare_per_s > 0 else 1.0

    def max_load(self, late_ratio: float) -> float:
        """Return the load that makes this share of requests late (above 0, at most 1)."""
        spare_per_s = -math.log(late_ratio) * 1000.0 / self._limit_ms
        return (self._capacity_per_s - spare_per_s) / self._requests_per_vm

    def measure(self, trial: Trial) -> TrialResult:
        """Return the result of one trial.

        The number of requests over the limit is drawn from the normal distribution with the mean
        and variance of the binomial one.
        """
        offered = max(1, round(trial.load * self._requests_per_vm * trial.duration_s))
        ratio = self.late_ratio(trial.load)
        late = self._random.gauss(offered * ratio, math.sqrt(offered * ratio * (1.0 - ratio)))
        return TrialResult(trial, offered=offered, lost=min(offered, max(0, round(late))))
