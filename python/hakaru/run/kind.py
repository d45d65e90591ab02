"""The part of a kind that runs use: the engines of a repetition, its duration, and its live rates.

Implemented in `hakaru.kinds` and by other packages; `of` returns it. Everything here is pure: the
runner builds the lab, starts the engines and reads their messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from hakaru import kind
from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.fileserver.samba_settings import FileServer
from hakaru.guest.login import KernelDisk
from hakaru.lab.plan import LabPlan
from hakaru.run.dialogue import Dialogue
from hakaru.run.events import TimedEvent
from hakaru.run.meter import Meter, Rates
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.study.model import Measure
from hakaru.units import format_duration

if TYPE_CHECKING:
    # Imported, this package would import pyarrow, which `hakaru plan` does not need.
    from hakaru.store import Histograms, Samples

Engines = Mapping[str, contract.EngineConfig]
"""Node → the engine that runs there."""


@dataclass(frozen=True)
class Cost:
    """Time, disk and memory that one repetition of a point needs."""

    seconds: float
    """Expected time of the load."""
    seconds_max: float
    """Time after which the load has ended, apart from its drain."""
    held_bytes: int
    """Largest memory besides that of the engines: data in memory LUs, rings of testers, guests."""
    actors: int
    """Number of VMs, jobs or other entities with counters of their own."""
    sockets: int
    """Largest number of sockets in one process."""
    guests: int | None = None
    """Guests of a point in a lab with guests; None: one for each actor, at most one per host."""
    files_bytes: int = 0
    """Approximate size of the files that the load builds in `RunKind.files_folder`."""


@dataclass(frozen=True)
class Phases:
    """Instants of one repetition, ns of CLOCK_MONOTONIC: the common start, and the beginnings of
    phases that loads announced.
    """

    start_ns: int
    measure_ns: Sequence[int]
    drain_ns: Sequence[int]


@dataclass(frozen=True)
class Finished:
    """Result of a repetition."""

    window: tuple[int, int]
    """Measuring phase, ns of CLOCK_MONOTONIC."""
    samples: Samples
    histograms: Histograms
    results: Sequence[Mapping[str, float]]
    """Final values of each load."""
    trials: Mapping[str, Any] | None = None
    """Description of the dialogue with the loads at its end; None without one."""


class KernelLoad(Protocol):
    """A load on disks that the kernel of its guest provides by logins of its own."""

    @property
    def disks(self) -> Sequence[KernelDisk]:
        """The disks, each once; at least one."""
        ...

    def on(self, paths: Mapping[KernelDisk, str]) -> contract.EngineConfig:
        """The load on the disks that the kernel found, by their paths in the guest."""
        ...


class RunKind(ABC):
    """The part of a kind that runs its repetitions."""

    notes_shared_cpus = True
    """Whether a run in which engines share processors gets the caveat `cpu_shared`. False if the
    kind measures what its generator takes from the system under test.
    """

    @abstractmethod
    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """Engines that serve, mostly arrays. They start before the loads and stop after them."""

    def file_servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Mapping[str, FileServer]:
        """Node → the file server that runs there during the repetition. Default: none."""
        return {}

    @abstractmethod
    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """Engines that generate load, by host. The repetition ends when all of them have ended.
        Hosts without load are left out.
        """

    @abstractmethod
    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Time, disk and memory that a repetition of the point needs. `lab` is the point's lab,
        None for a site.
        """

    def files_folder(self) -> Path | None:
        """The folder of this machine in which loads build files; None if loads build none."""
        return None

    @abstractmethod
    def each(self, expanded: Expanded) -> str:
        """Steps of one repetition, for `hakaru plan`: `10 s warm-up + 180 s measured each`."""

    site_part: Literal["lus", "ports", "share"] = "lus"
    """Part of a site file that loads of this kind use."""

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Whether loads may write to the site's LUs. Raises UsageError if a point cannot run on the
        site.

        Default: a study of this kind runs only in labs.
        """
        raise UsageError(f"studies of kind {expanded.study.kind!r} run in a lab", "leave out --site")

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """Engines that load a site's equipment, by host of the site. Default: none."""
        return {}

    def site_dialogue(self, expanded: Expanded, turn: Repetition, site: Site) -> Dialogue | None:
        """The controller of the loads on a site. Default: None, loads end by themselves."""
        return None

    def dialogue(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Dialogue | None:
        """The controller of the loads while they run. Default: None, loads end by themselves."""
        return None

    def events(self, study: Study, lab: LabPlan) -> Sequence[TimedEvent]:
        """Changes of the lab and its arrays in the measuring phase of a point. Default: none."""
        return ()

    def kernel_load(self, study: Study, load: contract.EngineConfig) -> KernelLoad | None:
        """The load of one point on disks of its guest. Default: None, the engine logs in itself."""
        return None

    def chains(self, study: Study, lab: LabPlan) -> Sequence[ChainPlan]:
        """The chains of file servers that are built in guests before the loads of a point start, on
        LUs of arrays. Default: none.
        """
        return ()

    def empties_caches(self, study: Study) -> bool:
        """Whether the caches of file servers and guests are emptied before the second start of the
        loads of a point. Default: no.
        """
        return False

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """TCP ports that a load connects to, for watch engines. Default: none."""
        return set()

    def baseline(self, lab: LabPlan) -> bool:
        """Whether plain TCP is measured between hosts and arrays before the first repetition.
        Default: no.
        """
        return False

    def window(self, expanded: Expanded, turn: Repetition, phases: Phases) -> tuple[int, int]:
        """Start and end of the measuring phase, ns of CLOCK_MONOTONIC.

        Default: from the instant at which the last load begins to measure until the first one
        drains.
        """
        start = max(phases.measure_ns, default=phases.start_ns + expanded.measure.warmup_ns)
        return start, min(phases.drain_ns, default=start + expanded.measure.time_ns)

    def work(self, sample: contract.Sample) -> float | None:
        """Work that a load has done since its start, in any unit. A warm-up lasts until its rate is
        steady, if the study requests that. Default: None, such a load's warm-up cannot be extended.
        """
        return None

    def caveats(self, study: Study, results: Sequence[Mapping[str, float]]) -> list[Caveat]:
        """Reasons why a repetition is invalid, from each load's final values. Default: none."""
        return []

    @abstractmethod
    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Live rates of a repetition with loads on `hosts` hosts."""

    @abstractmethod
    def result(self, study: Study, finished: Finished) -> Rates:
        """The rates of a finished repetition, as in the report."""


def times_in_words(measure: Measure) -> str:
    """Warm-up and measuring time of a repetition, for `RunKind.each`."""
    time = format_duration(measure.time_ns)
    if measure.steady is not None:
        least, most = format_duration(measure.warmup_least_ns), format_duration(measure.warmup_most_ns)
        return f"{least} to {most}, until steady, warm-up + {time} measured each"
    if not measure.warmup_ns:
        return f"{time} measured each"
    return f"{format_duration(measure.warmup_ns)} warm-up + {time} measured each"


def of(study: kind.HasKind) -> RunKind:
    """Return this part of the study's kind."""
    return cast(RunKind, kind.of(study).run)
