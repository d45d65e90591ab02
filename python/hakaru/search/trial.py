"""One trial and its result.

The quantity that is judged is a ratio, "lost of offered". It can be the loss of frames, or the
share of requests that failed or took longer than a limit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """A trial that a search asks for."""

    load: float
    """Load to offer, in the unit of the grid: a rate per second, or a number of VMs."""
    duration_s: float
    """Time for which the load is offered, in seconds."""


@dataclass(frozen=True)
class TrialResult:
    """Counts of one trial. Raises ValueError if they contradict each other."""

    trial: Trial
    offered: int
    """Pieces of work that were really offered: frames sent, requests issued."""
    lost: int
    """Pieces of the offered work that were lost, failed or too late; from 0 to `offered`.
    Duplicates must not be counted as negative losses."""
    intended: int | None = None
    """Pieces of work that the load and the duration demand; None: as many as were offered."""
    effective_s: float | None = None
    """Time that the trial took with its overhead, in seconds; None: its duration."""
    tester_ratio: float = 1.0
    """Share of the offered work that the tester itself could account for, from 0 to 1. Below 1,
    losses may be the tester's, so the trial says nothing about the device."""

    def __post_init__(self) -> None:
        if not 0 <= self.lost <= self.offered:
            raise ValueError(f"lost must be from 0 to offered: {self.lost} of {self.offered}")
        if self.intended is not None and self.intended < 0:
            raise ValueError(f"intended must not be negative: {self.intended}")
        if not 0 <= self.tester_ratio <= 1:
            raise ValueError(f"the tester's share must be from 0 to 1: {self.tester_ratio}")
        if self.cost_s <= 0:
            raise ValueError(f"a trial takes time: {self.cost_s} s")

    @property
    def loss_ratio(self) -> float:
        """Share of the offered work that was lost, from 0 to 1; 0 if nothing was offered."""
        return self.lost / self.offered if self.offered else 0.0

    @property
    def forwarding_rate(self) -> float:
        """Part of the load that was carried, in the unit of the load."""
        return self.trial.load * (1.0 - self.loss_ratio)

    @property
    def cost_s(self) -> float:
        """Time that counts in sums of durations, in seconds."""
        return self.trial.duration_s if self.effective_s is None else self.effective_s

    @property
    def sent_ratio(self) -> float:
        """Share of the intended work that the tester offered, from 0 to 1; 0 if it sent nothing."""
        intended = self.offered if self.intended is None else self.intended
        return min(1.0, self.offered / intended) if intended and self.offered else 0.0
