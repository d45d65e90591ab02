"""Rates of a load, live and of a complete repetition, and the meters that derive them from samples.

Every kind of study has a meter of its own. Live rates are only shown, not stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.engine import contract


@dataclass(frozen=True)
class Rates:
    """Rates as text for people (`3,280 IOPS, 107 MB/s, p99 120 ms`) and as values for programs."""

    text: str
    values: Mapping[str, Any]


class Meter(ABC):
    """Turns the samples of all hosts into live rates, about once a second."""

    @abstractmethod
    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """Add a sample. Returns the rates of the last interval once every host has sent its sample,
        else None.
        """


def growth(last: contract.Sample, sample: contract.Sample, entity: str, *names: str) -> float:
    """Return the growth of an entity's counters between two samples, summed up."""
    before, after = last.counters.get(entity, {}), sample.counters.get(entity, {})
    return sum(after.get(name, 0.0) - before.get(name, 0.0) for name in names)
