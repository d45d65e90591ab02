"""Repetitions of copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.copy import kernel
from hakaru.kinds.copy.configure import ENDS, Target, copy_configs, lab_targets, library_of, ports
from hakaru.kinds.copy.load import CopyLoad, load_at
from hakaru.lab.plan import LabPlan
from hakaru.run import site as sites
from hakaru.run.configure import array_configs, reaches
from hakaru.run.kind import Cost, Engines, Finished, KernelLoad, Phases, RunKind
from hakaru.run.meter import Meter, Rates
from hakaru.run.plan import LOOPBACK_BYTES_PER_S
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.study.expand import shown
from hakaru.study.storage import Lu
from hakaru.units import format_duration, format_size

VERIFY_BYTES_PER_S = 5_000_000
"""Lowest rate at which verification can be expected to read a copy back; a slower one counts as
stuck.
"""

EXCHANGE_S = 160.0
"""Longest time in which a cartridge is rewound, unloaded, exchanged and loaded."""


class CopyRun(RunKind):
    """The part of the kind `copy` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The study's arrays, on the portals of the lab."""
        return array_configs(expanded, turn, lab)

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The jobs, distributed over the lab's hosts."""
        targets = lab_targets(expanded.at(turn.point), {name: lab.portals(name) for name in lab.array_names})
        return copy_configs(expanded, turn, lab.loading_names, targets, reaches=reaches(lab))

    def kernel_load(self, study: Study, load: contract.EngineConfig) -> KernelLoad | None:
        """The jobs of one host on its disks, if the guests' kernels are the initiators."""
        if load_at(study).initiator == "hakaru":
            return None
        return kernel.CopyOnDisks(load_at(study), cast(contract.BackupConfig, load))

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Check that the site has sources and expendable destinations. Writes are always allowed
        then.
        """
        _check_site(expanded, site)
        return True

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """All jobs, distributed over the hosts of the site."""
        targets = {role: [Target((lu.portal,), lu.target_name, lu.lun) for lu in site.of_role(role)] for role in ENDS}
        chap = site.chap.config() if site.chap else None
        return copy_configs(expanded, turn, site.host_names, targets, chap=chap)

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """Ports of the portals at both ends."""
        return ports(cast(contract.BackupConfig, load))

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Expected time: twice that of the path at its full rate, or three times with verification,
        up to the time limit.
        """
        load = load_at(expanded.at(point))
        copied = load.copied_bytes
        limit = load.time_limit / 1e9
        seconds_max = limit + (copied / VERIFY_BYTES_PER_S if load.verify else 0.0)
        if (library := library_of(expanded.at(point))) is not None:
            # One exchange may be under way at the limit; verification exchanges one for each job.
            exchanges = 1 + (-(-load.jobs // library.drive_count) if load.verify else 0)
            seconds_max += EXCHANGE_S * exchanges
        ideal = copied / _path_bytes_per_s(load, lab, _tapes_at_once(expanded.at(point)))
        seconds = min(limit, (3 if load.verify else 2) * ideal)
        return Cost(seconds, seconds_max, _held_bytes(expanded.at(point)), load.jobs, 2 * load.jobs * load.streams)

    def each(self, expanded: Expanded) -> str:
        """Number and size of the images, the time limit, and whether they wait for tape drives, in
        words.
        """
        load, library = load_at(expanded.study), library_of(expanded.study)
        images = f"{load.jobs} images of {format_size(load.image)}"
        drives = load.jobs if library is None else library.drive_count
        if load.jobs > drives:
            images = f"{load.jobs} images of {format_size(load.image)} one after another on {drives} tape drives"
        longest = max((load_at(expanded.at(point)).time_limit for point in expanded.points), default=load.time_limit)
        return f"{images}, at most {format_duration(longest)} each"

    def baseline(self, lab: LabPlan) -> bool:
        """Always True: the payload rate of the path is compared with plain TCP."""
        return True

    def window(self, expanded: Expanded, turn: Repetition, phases: Phases) -> tuple[int, int]:
        """From the end of the warm-up to the end of the last host. The copy begins with the first
        read of the host that starts last, and its warm-up takes at most half of the time until a
        host is done. A host that has copied all its images is done, but the copy continues until
        the last host is.
        """
        start = max(phases.measure_ns, default=phases.start_ns)
        half = (min(phases.drain_ns, default=start) - start) // 2
        start += max(0, min(load_at(expanded.at(turn.point)).warmup, half))
        return start, max(phases.drain_ns, default=start)

    def caveats(self, study: Study, results: Sequence[Mapping[str, float]]) -> list[Caveat]:
        """Caveat on jobs that the time limit stopped."""
        load = load_at(study)
        unfinished = load.jobs - int(sum(values.get("jobs_done", 0) for values in results))
        limit = format_duration(load.time_limit)
        return (
            [Caveat("not_finished", {"jobs": unfinished, "total": load.jobs, "limit": limit})] if unfinished > 0 else []
        )

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Live rate, and the progress of each job."""
        # `hakaru plan` needs no meters, and their module takes long to import.
        from hakaru.kinds.copy.meter import CopyMeter

        return CopyMeter(hosts, load_at(expanded.at(turn.point)).image)

    def result(self, study: Study, finished: Finished) -> Rates:
        """Rate until the last job ended."""
        from hakaru.kinds.copy.meter import result_of

        done = int(sum(values.get("jobs_done", 0) for values in finished.results))
        return result_of(finished.window, finished.samples, done, load_at(study).jobs)


def _check_site(expanded: Expanded, site: Site) -> None:
    """Check that the site has sources and expendable destinations, and that points change only the
    load. Raises UsageError otherwise.
    """
    for point in expanded.points:
        if load_at(expanded.at(point)).initiator == "kernel":
            raise UsageError(
                f"nothing was written: at the point {shown(point)}, the initiator is the kernel of a guest, and only "
                "labs have guests",
                "choose other points with --only",
            )
        if load_at(expanded.at(point)).destination.tape is not None:
            raise UsageError(
                f"nothing was written: the point {shown(point)} copies images to a tape library, which a site cannot "
                "name",
                "choose other points with --only, or run the study in its lab, without --site",
            )
    for role in ("source", "destination"):
        if not site.of_role(role):
            raise UsageError(
                f"nothing was written: the study copies images, and site {site.name!r} names no {role}",
                f"add `role: {role}` to an LU of the site",
            )
    protected = [lu for lu in site.of_role("destination") if not lu.expendable]
    if protected:
        raise sites.refusal(site, protected[0], "the study copies images to it", "")
    for point in expanded.points:
        if expanded.at(point).lab != expanded.study.lab:
            raise UsageError(
                f"nothing was written: the point {shown(point)} changes the lab, which a site does not have",
                "choose points that change the load alone, with --only",
            )


def _tapes_at_once(study: Study) -> int:
    """Number of jobs that run at the same time: with a tape library, at most one on each drive."""
    load, library = load_at(study), library_of(study)
    return load.jobs if library is None else min(load.jobs, library.drive_count)


def _held_bytes(study: Study) -> int:
    """Return the memory for the images, at most. A source without contents reads as zeros, which
    need memory only in a pool or in an LU with contents. A source with contents keeps them from the
    first read on. A compressed copy is at most as large as its image.
    """
    load = load_at(study)
    filled = _luns(study, load.source.array, lambda lu: lu.fill is not None)
    keeping = _luns(study, load.destination.array, lambda lu: lu.fill is not None or lu.pool is not None)
    library = library_of(study)
    images = 0
    for job in range(load.jobs):
        with_contents = load.source.place(job)[0] in filled
        kept = load.destination.place(job)[0] in keeping if library is None else library.pool is not None
        images += with_contents + (with_contents or kept or load.compression != "none")
    return load.image * images


def _luns(study: Study, array: str, wanted: Callable[[Lu], bool]) -> set[int]:
    """Return the LUNs of an array of the study whose LUs are wanted."""
    part = study.arrays.get(array)
    return {lu.lun for lu in part.lus if wanted(lu)} if part else set()


def _path_bytes_per_s(load: CopyLoad, lab: LabPlan | None, jobs_at_once: int) -> float:
    """The lowest rate among the lab's links and the rate limits of the jobs, in bytes per
    second.
    """
    rates = [load.rate_limit * jobs_at_once] if load.rate_limit else []
    if lab:
        line_rates = [link.rate_bits_per_s for link in lab.links] + [trunk.rate_bits_per_s for trunk in lab.trunks]
        rates += [rate for rate in line_rates if rate is not None]
        rates += [rate for link in lab.links if (rate := link.sends_bits_per_s) is not None]
    return min(rates) / 8 if rates else LOOPBACK_BYTES_PER_S


RUN = CopyRun()
