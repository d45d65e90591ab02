"""The model of a study of VMs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hakaru.analysis.rules.judge import verdicts_of
from hakaru.kinds.vms import consistency, initiators
from hakaru.kinds.vms.events import RETURNS, TIMED
from hakaru.kinds.vms.load import FACTORS, ROLES, VmsLoad
from hakaru.kinds.vms.rules import STAGES
from hakaru.study.kind import StudyKind, load_of
from hakaru.study.model import Study
from hakaru.study.variables import Problem

LOAD_METRICS = frozenset(
    {"iops", "read_iops", "write_iops", "mb_per_s", "mib_per_s", "read_mb_per_s", "write_mb_per_s", "outstanding_mean"}
    | {"errors_per_s"}
    | {f"{op}latency_ms_{x}" for op in ("", "read_", "write_") for x in ("mean", "p50", "p90", "p99", "p999")}
    | {"array_mb_per_s", "array_mb_per_s_max", "controller_percent", "busiest_drive_percent", "initiator_cpu_percent"}
    | {"packets_per_s", "packets_per_io", "packets", "packet_errors"}
    | {f"{queue}_queue_{x}" for queue in ("guest", "host") for x in ("percent", "ms_mean")}
)
"""Metrics that references and expectations may name. A test checks that analysis computes all of
them.
"""
LINKED_METRICS = frozenset(
    {"payload_percent", "bound_mb_per_s", "bound_share_percent", "r2ts_per_command", "command_ms_mean", "timeouts"}
    | {
        f"{phase}_percent"
        for phase in ("command_wait", "wait_r2t", "r2t_to_data", "write_data_transfer", "write_data_to_response")
    }
    | {f"{phase}_percent" for phase in ("command_to_data", "read_data_transfer", "read_data_to_response")}
    | {f"tcp_{share}_percent" for share in ("idle", "receive_window", "send_buffer", "path")}
    | {"retransmitted_percent", "timeout_wait_s", "dropped_frames", "link_busy_percent"}
)
"""Additional metrics of a lab that is described link by link."""
ROLE_METRICS = frozenset(
    {f"{role}_{x}" for role in ROLES for x in ("iops", "mb_per_s")}
    | {f"{role}_latency_ms_{x}" for role in ROLES for x in ("mean", "p50", "p90", "p99", "p999", "max")}
    | {f"{part}_ms_mean" for part in ("port", "controller", "cache", "drives")}
    | {"cap_iops", "cap_mb_per_s", "cap_delayed_percent", "cap_wait_ms_mean", "pool_mb_per_s"}
)
"""Additional metrics of a load whose VMs have roles."""
PATH_METRICS = frozenset(
    {"path_losses", "path_switches", "commands_repeated", "gap_ms_max"}
    | {"failover_ms_mean", "failover_timers_ms", "failback_ms_mean"}
)
"""Additional metrics of a load whose VMs have several paths each."""
EVENT_METRICS = frozenset(
    {"failover_gap_s"}
    | {f"{failure}_gap_s" for failure in RETURNS}
    | {"link_down_gap_percent"}
    | {f"{failure}_failover_percent" for failure in TIMED}
    | {f"{end}_back_s" for end in RETURNS.values()}
)
"""Additional metrics of a load with events."""


class VmsStudy(StudyKind):
    """The part of the kind `vms` that studies use."""

    load = VmsLoad
    extends_warm_up = True

    @property
    def factors(self) -> Mapping[str, str]:
        """Pattern, number of VMs, queue depth or rate, number of paths."""
        return FACTORS

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        names = LOAD_METRICS | LINKED_METRICS if study.lab.links else LOAD_METRICS
        load = load_of(study, VmsLoad)
        names = names | ROLE_METRICS if load.groups else names
        names = names | EVENT_METRICS if load.events else names
        return names | PATH_METRICS if load.paths_per_vm is not None or _varies_paths(study) else names

    def verdicts(self, study: Study) -> Collection[str]:
        """Names of the bottlenecks that the rules can determine."""
        return verdicts_of(STAGES)

    def problems(self, study: Study) -> Iterator[Problem]:
        """Times, LUs, images, patterns, login keys; initiators that the array names."""
        yield from consistency.problems(study)
        yield from initiators.problems(study)

    def point_problems(self, study: Study) -> Iterator[Problem]:
        """The same, and the pattern and number of VMs of the point."""
        return consistency.point_problems(study)


def _varies_paths(study: Study) -> bool:
    """Whether a block of factors gives VMs several paths."""
    return any("paths_per_vm" in block.levels() for block in study.factors)


STUDY = VmsStudy()
