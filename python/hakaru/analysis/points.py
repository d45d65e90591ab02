"""One point: estimates over its repetitions, utilisation, caveats, and the series for figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hakaru.analysis.estimate import Estimate, SampleMean, finite, ratio
from hakaru.analysis.rule_book.judge import Judgement
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import UNDETERMINED, Verdict
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use, busy_series
from hakaru.caveats import Caveat


@dataclass
class Point:
    """Results of one combination of factor levels."""

    id: str
    factors: dict[str, Any]
    origin: str
    metrics: dict[str, Estimate]
    utilisation: dict[str, Estimate]
    members: dict[str, str]
    """Resource → its busiest member, the most frequent one over repetitions."""
    per_repetition: dict[str, list[float]]
    caveats: list[Caveat]
    service_ms: float | None
    """Mean time that a drive takes for one command."""
    distribution: dict[str, list[list[float]]]
    over_time: dict[str, list[float | None]]
    rule_book: list[Judgement] = field(default_factory=list, kw_only=True)
    """Rules of thumb applied to its devices, in the order of the book."""
    evidence: Evidence = field(default_factory=lambda: Evidence(None, {}), kw_only=True)
    """The evidence for its bottleneck."""
    verdict: Verdict = field(default_factory=lambda: Verdict(UNDETERMINED, values={"reason": "no_value"}), kw_only=True)
    """The bottleneck of this point by itself."""
    chief: str = field(default="iops", kw_only=True)
    """The metric by which repetitions are compared."""
    first_stage: int | None = field(default=None, kw_only=True)
    """Number of its first repetitions, if their spread chose how many it has (`precision`)."""
    accelerators: tuple[str, ...] = field(default=(), kw_only=True)
    """How the processors of its guests ran: `kvm`, or `tcg` if QEMU emulated them; empty without
    guests.
    """

    def mean(self, metric: str) -> float | None:
        """Mean of a metric; None if it has no value."""
        estimate = self.metrics.get(metric)
        return estimate.mean if estimate else None

    def ratio_to(self, other: Point, metric: str) -> Estimate:
        """Ratio of a metric to that of another point; without mean if one has no positive value."""
        return ratio(self.sample_mean(metric), other.sample_mean(metric))

    def sample_mean(self, metric: str) -> SampleMean | None:
        """The mean of a metric with its variance; None if no repetition has a value."""
        return SampleMean.over(self.per_repetition.get(metric, ()), self.first_stage)

    def percent(self, resource: str) -> float | None:
        """Mean utilisation of a resource in percent; None if it was not measured."""
        estimate = self.utilisation.get(resource)
        return estimate.mean if estimate else None

    @property
    def valid(self) -> bool:
        """Whether its numbers may be used."""
        return all(c.severity != "invalid" for c in self.caveats)

    @property
    def is_of_test_setup(self) -> bool:
        """Whether its values are those of the test setup, which was the bottleneck."""
        return self.verdict.test_setup_limited

    @property
    def open_reason(self) -> str:
        """Why its values decide nothing if it `is_of_test_setup`: `setup`, or a reason of its
        kind.
        """
        return "setup"

    @property
    def is_emulated(self) -> bool:
        """Whether the processors of a guest were emulated, without KVM."""
        return any(c.name == "cpu_emulated" for c in self.caveats)

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        used = {}
        for resource, estimate in self.utilisation.items():
            used[resource] = estimate.to_json() | (
                {"member": self.members[resource]} if resource in self.members else {}
            )
        return {
            "point": self.id,
            "factors": self.factors,
            "origin": self.origin,
            "valid": self.valid,
            "metrics": {name: e.to_json() for name, e in self.metrics.items()},
            "utilisation": used,
            "caveats": [c.to_json() for c in self.caveats],
            "repetitions": {name: [finite(v) for v in values] for name, values in self.per_repetition.items()},
            "first_stage": self.first_stage,
            "accelerators": list(self.accelerators),
            "limiter": self.verdict.limiter,
            "resource": self.verdict.resource,
            "drive_service_ms": finite(self.service_ms),
            "distribution": self.distribution,
            "over_time": self.over_time,
            "rule_book": [judgement.to_json() for judgement in self.rule_book],
        }


def estimates(uses: list[dict[str, Use]]) -> dict[str, Estimate]:
    """Utilisation of each resource over repetitions."""
    resources = dict.fromkeys(r for use in uses for r in use)
    return {r: Estimate.over([u[r].percent for u in uses if r in u], "percent") for r in resources}


def members(uses: list[dict[str, Use]]) -> dict[str, str]:
    """Return the member of each resource that was the busiest in most repetitions."""
    members_by_resource: dict[str, list[str]] = {}
    for use in uses:
        for resource, utilisation in use.items():
            if utilisation.member is not None:
                members_by_resource.setdefault(resource, []).append(utilisation.member)
    return {r: max(sorted(set(m)), key=m.count) for r, m in members_by_resource.items()}


def service_ms(repetition: Repetition) -> list[float]:
    """Mean service time of all drives (busy time of the busiest part over commands completed), in
    ms; empty without commands.
    """
    counters, window = repetition.counters, repetition.window
    drives = busy_series(counters, "drive/").values()
    busy = sum(max(part.rate(*window) for part in parts) for parts in drives)
    ops = counters.total_rate(window, engine="array", entity="drive/", name="ops")
    return [busy / ops / 1e6] if np.isfinite(busy) and ops > 0 else []
