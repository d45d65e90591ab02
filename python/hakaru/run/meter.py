"""Rates of a load, live and of a complete repetition, and the meters that derive them from samples.

Every kind of study has a meter of its own. Live rates are only shown, not stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.engine import contract


@dataclass(frozen=True)
class Rates:
    """Rates as text for people (`3,280 IOPS, 107 MB/s, p99 120 ms`) and as values for programs."""

    text: str
    values: Mapping[str, Any]


class Meter(ABC):
    """Turns the samples of all hosts into live rates, once per sample interval of hosts."""

    @abstractmethod
    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """Add a sample. Returns the rates of the last interval once every host has sent its sample,
        else None.
        """


class HostRates:
    """Growth of an entity's counters per second, of all hosts together.

    `groups`: counters that are added up to one rate each.
    """

    def __init__(self, hosts: int, entity: str, *groups: Sequence[str]) -> None:
        self._hosts = hosts
        self._entity = entity
        self._groups = groups
        self._fresh: dict[str, list[float]] = {}
        self.last: dict[str, contract.Sample] = {}
        """Host → its last sample."""

    def add(self, node: str, sample: contract.Sample) -> list[float] | None:
        """Add a sample. Returns the rate of each group over the last interval once every host has
        sent its sample, else None.
        """
        last = self.last.get(node)
        self.last[node] = sample
        if last is not None and sample.at_ns > last.at_ns:
            seconds = (sample.at_ns - last.at_ns) / 1e9
            self._fresh[node] = [self._growth(last, sample, names) / seconds for names in self._groups]
        if len(self._fresh) < self._hosts:
            return None
        rates = [sum(of_host) for of_host in zip(*self._fresh.values(), strict=True)]
        self._fresh.clear()
        return rates

    def _growth(self, last: contract.Sample, sample: contract.Sample, names: Sequence[str]) -> float:
        before, after = last.counters.get(self._entity, {}), sample.counters.get(self._entity, {})
        return sum(after.get(name, 0.0) - before.get(name, 0.0) for name in names)
