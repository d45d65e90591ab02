"""What holds at one point of a backup study: the copy, the network between source and destination,
the settings.

Made from `study.json` alone (the study as expanded, with its `variables` applied), never from
counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.network import Hop, at, hops_between, plan_of, rate_of, size_of, study_at, touched


@dataclass(frozen=True)
class Setup:
    """The copy and its way: `read` leads from the source's array to the host, `write` on to the
    destination's array.
    """

    hosts: tuple[str, ...]
    source: str
    destination: str
    jobs: int
    streams: int
    depth: int
    block_bytes: int
    rate_limit_bytes_per_s: float | None
    """Of each job."""
    read: tuple[Hop, ...]
    write: tuple[Hop, ...]
    settings: dict[str, Any]
    """Place in the study → value there, of what the study's variables touch anywhere."""

    @property
    def outstanding_bytes(self) -> int:
        """What all jobs together may have under way, reading or writing."""
        return self.jobs * self.streams * self.depth * self.block_bytes

    @property
    def legs(self) -> tuple[tuple[str, tuple[Hop, ...]], ...]:
        """Both legs of the data's way, by name."""
        return ("read", self.read), ("write", self.write)

    @property
    def narrowest(self) -> Hop | None:
        """The slowest hop to the destination, of equals the first behind a buffer: it sets the
        path's rate.
        """
        rated = [h for h in self.write if h.rate_bits_per_s is not None]
        return min(rated, key=lambda h: (h.rate_bits_per_s or 0.0, h.queue_bytes is None), default=None)

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload that the path to the destination carries."""
        return self.narrowest.payload_bytes_per_s if self.narrowest else None

    @property
    def fastest_before(self) -> float | None:
        """Rate of the fastest hop before the narrowest one: that of the bursts which reach it."""
        if self.narrowest is None:
            return None
        before = self.write[: self.write.index(self.narrowest)]
        rates = [h.rate_bits_per_s for h in before if h.rate_bits_per_s is not None]
        held = before[0].held_bits_per_s if before else None
        return min(max(rates), held) if rates and held else max(rates, default=None)


def setup_at(study: Mapping[str, Any], factors: Mapping[str, Any]) -> Setup:
    """What holds at a point."""
    changed = study_at(study, factors)
    lab, load = changed.get("lab") or {}, changed.get("load") or {}
    plan = plan_of(lab)
    source = str((load.get("from") or {}).get("array") or plan.array_names[0])
    destination = str((load.get("to") or {}).get("array") or plan.array_names[-1])
    hosts = plan.host_names
    read, write = (next(iter(hops_between(plan, *ends)), ()) for ends in ((source, hosts[0]), (hosts[0], destination)))
    limit = rate_of(load.get("rate_limit"))
    return Setup(
        hosts=hosts,
        source=source,
        destination=destination,
        jobs=int(load.get("jobs") or 1),
        streams=int(load.get("streams") or 1),
        depth=int(load.get("depth") or 1),
        block_bytes=size_of(load.get("block")) or 0,
        rate_limit_bytes_per_s=limit / 8 if limit else None,
        read=read,
        write=write,
        settings={place: at(changed, place) for place in touched(study)},
    )
