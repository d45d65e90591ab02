"""How repetitions of copies are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.lab.plan import LabPlan
from hakaru.run import site as sites
from hakaru.run.configure import ONLY, array_config, iscsi_ports
from hakaru.run.configure_backup import ENDS, Target, backup_configs, lab_targets, the_backup
from hakaru.run.kind import Cost, Engines, Phases, RunKind
from hakaru.run.meter import Meter
from hakaru.run.place import reaches
from hakaru.run.plan import LOOPBACK_BYTES_PER_S
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point, Repetition
from hakaru.study.model import Study
from hakaru.units import format_duration, format_size

VERIFY_BYTES_PER_S = 5_000_000
"""A copy that is read back at less is stuck."""


class CopyRun(RunKind):
    """The part of the kind `copy` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The study's arrays on the lab's portals."""
        several = bool(expanded.at(turn.point).arrays)
        return {
            name: array_config(expanded, turn, lab.portals(name), name if several else ONLY) for name in lab.array_names
        }

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The jobs, dealt to the lab's hosts."""
        targets = lab_targets(expanded.at(turn.point), {name: lab.portals(name) for name in lab.array_names})
        return backup_configs(expanded, turn, lab.host_names, targets, reaches=reaches(lab))

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """A copy needs sources and expendable destinations."""
        sites.check_copy(site, expanded)
        return True

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """Every job on this host."""
        targets = {role: [Target((lu.portal,), lu.target_name, lu.lun) for lu in site.of_role(role)] for role in ENDS}
        chap = site.chap.config() if site.chap else None
        return backup_configs(expanded, turn, (sites.HOST,), targets, chap=chap)

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """Ports of the portals at both ends."""
        return iscsi_ports(cast(contract.BackupConfig, load))

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Expected: twice what the path alone would take."""
        study = expanded.at(point)
        backup = the_backup(study)
        copied = backup.jobs * backup.image
        limit = backup.time_limit / 1e9
        seconds_max = limit + (copied / VERIFY_BYTES_PER_S if backup.verify else 0.0)
        ideal = copied / _path_bytes_per_s(study, lab)
        seconds = min(limit, (3 if backup.verify else 2) * ideal)
        return Cost(seconds, seconds_max, 2 * copied, backup.jobs, 2 * backup.jobs * backup.streams)

    def each(self, expanded: Expanded) -> str:
        """Images and time limit."""
        backup = the_backup(expanded.study)
        images = f"{backup.jobs} images of {format_size(backup.image)}"
        return f"{images}, at most {format_duration(backup.time_limit)} each"

    def baseline(self, lab: LabPlan) -> bool:
        """The path's payload is held against plain TCP."""
        return True

    def window(self, expanded: Expanded, turn: Repetition, phases: Phases) -> tuple[int, int]:
        """Hosts that have copied all they have are done; the copy goes on until the last one is."""
        start = max(phases.measure_ns, default=phases.start_ns + expanded.measure.warmup_ns)
        return start, max(phases.drain_ns, default=start)

    def caveats(self, study: Study, results: Sequence[Mapping[str, float]]) -> list[Caveat]:
        """Jobs that the time limit ended."""
        backup = the_backup(study)
        left = backup.jobs - int(sum(values.get("jobs_done", 0) for values in results))
        limit = format_duration(backup.time_limit)
        return [Caveat("not_finished", {"jobs": left, "total": backup.jobs, "limit": limit})] if left > 0 else []

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Rate, and how far each job is."""
        return Meter(hosts, the_backup(expanded.at(turn.point)).image)


def _path_bytes_per_s(study: Study, lab: LabPlan | None) -> float:
    """The slowest of the lab's links and the jobs' own limits."""
    backup = the_backup(study)
    rates = [backup.rate_limit * backup.jobs] if backup.rate_limit else []
    if lab:
        every = [link.rate_bits_per_s for link in lab.links] + [trunk.rate_bits_per_s for trunk in lab.trunks]
        rates += [rate for rate in every if rate is not None]
        rates += [rate for link in lab.links if (rate := link.sends_bits_per_s) is not None]
    return min(rates) / 8 if rates else LOOPBACK_BYTES_PER_S


RUN = CopyRun()
