"""The setting of one point of a backup study: the copy, the network between source and destination,
and the parameters of both ends.

Made from the study alone, never from counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.analysis.network import Hop, hops_between, settings_of
from hakaru.kinds.copy.load import load_at
from hakaru.lab.plan import plan_lab
from hakaru.study import Study


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
        """Bytes that all jobs together may have outstanding, reading or writing."""
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


def setup_at(study: Study, changed: Study) -> Setup:
    """The setup of a point; `changed` is the study with the levels of the point."""
    load, plan = load_at(changed), plan_lab(changed.lab)
    source, destination, hosts = load.source.array, load.destination.array, plan.host_names
    read, write = (next(iter(hops_between(plan, *ends)), ()) for ends in ((source, hosts[0]), (hosts[0], destination)))
    return Setup(
        hosts=hosts,
        source=source,
        destination=destination,
        jobs=load.jobs,
        streams=load.streams,
        depth=load.depth,
        block_bytes=load.block,
        rate_limit_bytes_per_s=load.rate_limit / 8 if load.rate_limit else None,
        read=read,
        write=write,
        settings=settings_of(study, changed),
    )
