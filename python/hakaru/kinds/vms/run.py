"""Repetitions of a load by VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms import kernel, stream
from hakaru.kinds.vms.configure import Unit, Units, initiator_configs, lab_arrays, lab_units, ports
from hakaru.kinds.vms.events import timed
from hakaru.kinds.vms.iscsi import GATHERED_MAX_PERCENT, InitiatorEnd, TargetEnd
from hakaru.kinds.vms.load import VmsLoad, load_at
from hakaru.lab.plan import LabPlan
from hakaru.run import site as sites
from hakaru.run.configure import is_loopback, port_of, reaches
from hakaru.run.events import TimedEvent
from hakaru.run.kind import Cost, Engines, Finished, KernelLoad, RunKind, times_in_words
from hakaru.run.meter import Meter, Rates
from hakaru.run.plan import LOOPBACK_BYTES_PER_S
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.study.expand import shown
from hakaru.units import format_duration


class VmsRun(RunKind):
    """The part of the kind `vms` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The array on the lab's portals, or the receiver of plain streams."""
        if _sends_streams(expanded.at(turn.point)):
            return stream.servers(expanded, turn, lab)
        return lab_arrays(expanded, turn, lab)

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The VMs, or their plain streams, distributed over the lab's hosts."""
        if _sends_streams(expanded.at(turn.point)):
            return stream.senders(expanded, turn, lab, reaches(lab))
        units = lab_units(expanded.at(turn.point), lab.portals())
        return initiator_configs(expanded, turn, lab.host_names, units, reaches=reaches(lab))

    def kernel_load(self, study: Study, load: contract.EngineConfig) -> KernelLoad | None:
        """The VMs of one host on its disks, if the guests' kernels are the initiators."""
        if load_at(study).initiator == "hakaru":
            return None
        return kernel.VmsOnDisks(load_at(study), cast(contract.InitiatorConfig, load))

    def events(self, study: Study, lab: LabPlan) -> Sequence[TimedEvent]:
        """The events of the paths."""
        return timed(load_at(study).events, lab.array_name)

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Whether writes are allowed: every LU of the site must be expendable. Raises UsageError if
        the study writes nevertheless, or changes settings of the arrays.
        """
        return _check_site(expanded, site)

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """All VMs, distributed over the hosts of the site."""
        columns = [[Unit((lu.portal,), lu.target_name, lu.lun, None)] for lu in site.lus]
        chap = site.chap.config() if site.chap else None
        hosts, apart = site.host_names, not any(is_loopback(lu.portal) for lu in site.lus)
        units: Units = lambda member: columns  # noqa: E731
        return initiator_configs(expanded, turn, hosts, units, allow_writes=allow_writes, apart=apart, chap=chap)

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """Ports that the VMs or streams connect to."""
        if isinstance(load, contract.ProbeStream):
            return {port_of(load.connect)}
        return ports(cast(contract.InitiatorConfig, load))

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Warm-up and measuring time, written bytes, VMs and their sessions."""
        measure = expanded.measure
        seconds = (measure.warmup_least_ns + measure.time_ns) / 1e9
        most = (measure.warmup_most_ns + measure.time_ns) / 1e9
        load = load_at(expanded.at(point))
        hosts, portals = (len(lab.host_names), lab.portals()) if lab else (1, ("",))
        sockets = load.sessions(hosts, len(load.used_portals(portals)))
        return Cost(seconds, most, _held_bytes(load, most, lab), load.count, sockets)

    def each(self, expanded: Expanded) -> str:
        """Warm-up and measuring time in words."""
        return times_in_words(expanded.measure)

    def baseline(self, lab: LabPlan) -> bool:
        """True for a lab described link by link, whose bounds are compared with plain TCP."""
        return not lab.is_star

    def work(self, sample: contract.Sample) -> float | None:
        """Requests completed; None for a plain stream."""
        vms = sample.counters.get("vms", {})
        return vms["reads"] + vms["writes"] if "reads" in vms else None

    def caveats(self, study: Study, results: Sequence[Mapping[str, float]]) -> list[Caveat]:
        """Caveat on latencies that waiting for more responses may have increased."""
        return list(answers_gathered(load_at(study).iscsi.initiator, results))

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Live rate and latency of all VMs, or the live rate of the streams."""
        # `hakaru plan` needs no meters, and their modules take long to import.
        from hakaru.kinds.vms.meter import VmsMeter
        from hakaru.kinds.vms.stream_meter import StreamMeter

        return StreamMeter(hosts) if _sends_streams(expanded.at(turn.point)) else VmsMeter(hosts)

    def result(self, study: Study, finished: Finished) -> Rates:
        """Rate and latency over the measuring phase."""
        from hakaru.kinds.vms import meter, stream_meter
        from hakaru.kinds.vms.analysis.setup import exchange_of

        if _sends_streams(study):
            return stream_meter.result_of(finished.window, finished.samples)
        has_closed_form = exchange_of(load_at(study)) is not None
        return meter.result_of(finished.window, finished.samples, finished.histograms, has_closed_form=has_closed_form)


def _sends_streams(study: Study) -> bool:
    return load_at(study).transport == "stream"


def _check_site(expanded: Expanded, site: Site) -> bool:
    for point in expanded.points:
        if _sends_streams(expanded.at(point)):
            raise UsageError(
                f"the point {shown(point)} sends plain streams, and an array of a site does not receive them",
                "choose other points with --only",
            )
        if load_at(expanded.at(point)).iscsi.target != TargetEnd():
            raise UsageError(
                f"nothing was written: the point {shown(point)} sets `load.iscsi.target`, "
                "and hakaru cannot configure the arrays of a site",
                "configure it on the array and remove it here, or choose other points with --only",
            )
        if load_at(expanded.at(point)).initiator == "kernel":
            raise UsageError(
                f"nothing was written: at the point {shown(point)}, the initiator is the kernel of a guest, and only "
                "labs have guests",
                "choose other points with --only",
            )
        if load_at(expanded.at(point)).groups:
            raise UsageError(
                f"nothing was written: the point {shown(point)} has groups of VMs, and only labs have LUs for each",
                "use `pattern` and `vms` instead, or choose other points with --only",
            )
        if (load_at(expanded.at(point)).paths or 1) > 1:
            raise UsageError(
                f"nothing was written: the point {shown(point)} uses several paths, "
                "and each LU of a site has one portal",
                "choose points with one path, for instance with --only paths=1",
            )
        if load_at(expanded.at(point)).paths_per_vm is not None:
            raise UsageError(
                f"nothing was written: the point {shown(point)} sets `paths_per_vm`, "
                "and each LU of a site has one portal",
                "leave it out, or choose points without it",
            )
    protected = [lu for lu in site.lus if not lu.expendable]
    if not protected:
        return True
    loads = [load_at(expanded.at(point)) for point in expanded.points]
    used = [(name, pattern) for load in loads for name, pattern in load.used_patterns.items()]
    writing = sorted({name for name, pattern in used if pattern.read_percent < 100})
    if writing:
        raise sites.refusal(
            site,
            protected[0],
            f"pattern {writing[0]} writes",
            "else choose patterns that only read (`read_percent: 100`), for instance with --only pattern=NAME",
        )
    return False


def _held_bytes(load: VmsLoad, seconds: float, lab: LabPlan | None) -> int:
    """Maximum number of bytes that the VMs write."""
    if load.transport == "stream":
        return 0
    read = min(pattern.read_percent for pattern in load.used_patterns.values()) / 100
    write = 1 - read
    used = {portal.rpartition(":")[0] for portal in load.used_portals(lab.portals())} if lab else set()
    rates = [link.rate_bits_per_s for link in lab.links if link.address in used] if lab else []
    path = sum(r / 8 for r in rates if r) if rates and all(rates) else LOOPBACK_BYTES_PER_S
    # Reads and writes use opposite directions, so the larger part limits the rate of the mix.
    rate = path * write / max(read, write)
    return int(min(rate * seconds, sum(member.region_bytes for member in load.members())))


def answers_gathered(end: InitiatorEnd, loads: Sequence[Mapping[str, float]]) -> Iterator[Caveat]:
    """Caveat if waiting for more responses may have increased reported latencies by more than 6.25
    %.
    """
    percent = 0.0
    for values in loads:
        kinds = [(values.get(f"{kind}_latency_ns_sum", 0), values.get(f"{kind}s", 0)) for kind in ("read", "write")]
        # The faster of reads and writes bounds the length of the waits.
        if quicker := min((time / count for time, count in kinds if time and count), default=None):
            percent = max(percent, end.gathered_percent(quicker))
    if percent > GATHERED_MAX_PERCENT:
        yield Caveat("answers_gathered", {"longest": format_duration(end.coalesce), "percent": percent})


RUN = VmsRun()
