"""How repetitions of a load by VMs are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.lab.plan import LabPlan
from hakaru.run import site as sites
from hakaru.run.configure import ONLY, Unit, array_config, initiator_configs, iscsi_ports, lab_units
from hakaru.run.kind import Cost, Engines, RunKind
from hakaru.run.meter import Meter
from hakaru.run.place import reaches
from hakaru.run.plan import LOOPBACK_BYTES_PER_S
from hakaru.run.repetition import answers_gathered
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point, Repetition
from hakaru.study.model import Study
from hakaru.units import format_duration


class VmsRun(RunKind):
    """The part of the kind `vms` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The array on the lab's portals."""
        return {name: array_config(expanded, turn, lab.portals(name), ONLY) for name in lab.array_names}

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The VMs, dealt to the lab's hosts."""
        units = lab_units(expanded.at(turn.point), lab.portals())
        return initiator_configs(expanded, turn, lab.host_names, units, reaches=reaches(lab))

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Writes need LUs that are expendable; the arrays of a site keep their settings."""
        return sites.check_load(site, expanded)

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """Every VM on this host."""
        columns = [[Unit((lu.portal,), lu.target_name, lu.lun, None)] for lu in site.lus]
        chap = site.chap.config() if site.chap else None
        return initiator_configs(expanded, turn, (sites.HOST,), columns, allow_writes=allow_writes, chap=chap)

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """Ports of the portals that the VMs log in to."""
        return iscsi_ports(cast(contract.InitiatorConfig, load))

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Warm-up and measuring time; a session for each VM."""
        seconds = (expanded.measure.warmup_ns + expanded.measure.time_ns) / 1e9
        vms = int(point.factors["vms"])
        return Cost(seconds, seconds, _held_bytes(expanded.at(point), point.factors, seconds, lab), vms, vms)

    def each(self, expanded: Expanded) -> str:
        """Both times."""
        measure = expanded.measure
        return f"{format_duration(measure.warmup_ns)} warm-up + {format_duration(measure.time_ns)} measured each"

    def baseline(self, lab: LabPlan) -> bool:
        """Bounds of a lab link by link are held against plain TCP."""
        return not lab.is_star

    def caveats(self, study: Study, results: Sequence[Mapping[str, float]]) -> list[Caveat]:
        """Latencies that waiting for more answers made longer."""
        return list(answers_gathered(study.iscsi.initiator, results))

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Rate and latency of all VMs."""
        return Meter(hosts)


def _held_bytes(study: Study, factors: Mapping[str, object], seconds: float, lab: LabPlan | None) -> int:
    """Most bytes that VMs write."""
    pattern = study.patterns[str(factors["pattern"])]
    read, write = pattern.read_percent / 100, 1 - pattern.read_percent / 100
    rates = [link.rate_bits_per_s for link in lab.links if link.node == lab.array_name] if lab else []
    path = sum(r / 8 for r in rates if r) if rates and all(rates) else LOOPBACK_BYTES_PER_S
    # Reads and writes go in opposite directions: the mix is as fast as its larger part allows.
    rate = path * write / max(read, write)
    return int(min(rate * seconds, int(str(factors["vms"])) * study.seats.region_bytes))


RUN = VmsRun()
