"""The configuration of one point of a study of copies: the jobs, the network between source and
destination, and the settings.

Computed from the study alone, never from counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.analysis.network import Hop, hops_between, settings_of
from hakaru.kinds.copy.configure import library_of
from hakaru.kinds.copy.load import load_at
from hakaru.lab.plan import plan_lab
from hakaru.study import Study


@dataclass(frozen=True)
class TapeSetup:
    """The tape library that the images are written to."""

    drives: int
    generations: tuple[str, ...]
    """Generation of each drive."""
    compression: float
    """Bytes of the initiator for each byte on the tape."""
    filemark_every: int | None
    """Bytes between two filemarks within an image; None if there is none."""
    immediate: bool
    """Whether these filemarks do not wait for the tape."""

    @property
    def generation(self) -> str:
        """The generations of the drives, each named once: `lto5`, `lto5, lto6`."""
        return ", ".join(dict.fromkeys(self.generations))

    @property
    def synchronises_every(self) -> int | None:
        """Bytes between two filemarks that wait for the tape; None without those within an
        image.
        """
        return None if self.immediate else self.filemark_every


@dataclass(frozen=True)
class Setup:
    """The copy and its path: `read` are the hops from the source array to the host, `write` those
    from the host to the destination array.
    """

    hosts: tuple[str, ...]
    """Nodes that the jobs run on: guests, or hosts in a lab without guests."""
    source: str
    destination: str
    jobs: int
    streams: int
    depth: int
    block_bytes: int
    image_bytes: int
    warmup_s: float
    """Start of the copy that does not count, seconds. 0: all of it counts."""
    rate_limit_bytes_per_s: float | None
    """Rate limit of each job."""
    read: tuple[Hop, ...]
    write: tuple[Hop, ...]
    tape: TapeSetup | None
    """The tape library of the destination; None if the copies are on disks."""
    settings: dict[str, Any]
    """Place in the study → value at this point, for all places that the study's variables change.
    """

    @property
    def jobs_at_once(self) -> int:
        """Jobs that run at the same time: at most one on each tape drive."""
        return self.jobs if self.tape is None else min(self.jobs, self.tape.drives)

    @property
    def takes_turns(self) -> bool:
        """Whether some jobs wait until others are done."""
        return self.jobs_at_once < self.jobs

    @property
    def outstanding_bytes(self) -> int:
        """Bytes that all jobs together may have outstanding, reading or writing."""
        return self.jobs_at_once * self.streams * self.depth * self.block_bytes

    @property
    def legs(self) -> tuple[tuple[str, tuple[Hop, ...]], ...]:
        """Both legs of the data path, with their names."""
        return ("read", self.read), ("write", self.write)

    @property
    def narrowest(self) -> Hop | None:
        """The slowest hop to the destination, which determines the rate of the path. Of equal hops,
        the first with a queue. None if no hop has a rate.
        """
        rated = [h for h in self.write if h.rate_bits_per_s is not None]
        return min(
            rated, key=lambda h: ((h.rate_bits_per_s or 0.0) * self._senders(h), h.queue_bytes is None), default=None
        )

    def _senders(self, hop: Hop) -> int:
        """Number of such hops in parallel: each node that jobs run on has its own first hop."""
        return min(self.jobs_at_once, len(self.hosts)) if hop is self.write[0] else 1

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload rate of all paths to the destination; None if they have no rate."""
        narrowest = self.narrowest
        payload = narrowest.payload_bytes_per_s if narrowest else None
        return payload * self._senders(narrowest) if narrowest and payload else None

    @property
    def fastest_before(self) -> float | None:
        """Rate of the fastest hop before the narrowest one, at which bursts arrive, in bits per
        second; None if there is none.
        """
        if self.narrowest is None:
            return None
        before = self.write[: self.write.index(self.narrowest)]
        rates = [h.rate_bits_per_s for h in before if h.rate_bits_per_s is not None]
        sender_rate = (before[0].held_bits_per_s or before[0].rate_bits_per_s) if before else None
        sender_limit = sender_rate * self._senders(before[0]) if sender_rate else None
        return min(max(rates), sender_limit) if rates and sender_limit else max(rates, default=None)


def setup_at(study: Study, changed: Study, *, site: bool = False) -> Setup:
    """The setup of a point; `changed` is the study with the levels of the point.

    `site`: the run used existing equipment, so the lab of the study does not apply.
    """
    load, plan = load_at(changed), None if site else plan_lab(changed.lab)
    source, destination = load.source.array, load.destination.array
    hosts: tuple[str, ...] = ()
    read: tuple[Hop, ...] = ()
    write: tuple[Hop, ...] = ()
    if plan is not None:
        hosts = plan.loading_names
        read = next(iter(hops_between(plan, source, hosts[0])), ())
        write = next(iter(hops_between(plan, hosts[0], destination)), ())
    return Setup(
        hosts=hosts,
        source=source,
        destination=destination,
        jobs=load.jobs,
        streams=load.streams,
        depth=load.depth,
        block_bytes=load.block,
        image_bytes=load.image,
        warmup_s=load.warmup / 1e9,
        rate_limit_bytes_per_s=load.rate_limit / 8 if load.rate_limit else None,
        read=read,
        write=write,
        tape=_tape(changed),
        settings=settings_of(study, changed),
    )


def _tape(study: Study) -> TapeSetup | None:
    writing, library = load_at(study).destination.tape, library_of(study)
    if writing is None or library is None:
        return None
    return TapeSetup(
        drives=library.drive_count,
        generations=tuple(library.generations),
        compression=library.compression,
        filemark_every=writing.filemark_every,
        immediate=writing.immediate_filemarks,
    )
