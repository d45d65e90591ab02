"""Engines of plain TCP streams in place of the VMs' iSCSI sessions. `stream_meter` has their rates.

The streams use the path, the port and the socket options of the sessions. TCP and the path are
therefore the same, and the difference of the rates is the cost of iSCSI and storage.
"""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.kinds.vms.configure_iscsi import socket_options
from hakaru.kinds.vms.load import load_at
from hakaru.lab.plan import LabPlan
from hakaru.run.configure import MS, Reaches, port_of
from hakaru.study import Expanded, Repetition


def servers(expanded: Expanded, turn: Repetition, lab: LabPlan) -> dict[str, contract.ProbeServer]:
    """The array's node → the receiver of the streams, on the port of the array's portals."""
    target = load_at(expanded.at(turn.point)).iscsi.target
    listen = f"0.0.0.0:{port_of(lab.portals()[0])}"
    return {lab.array_name: contract.ProbeServer(listen=listen, socket=socket_options(target.socket))}


def senders(expanded: Expanded, turn: Repetition, lab: LabPlan, reaches: Reaches) -> dict[str, contract.ProbeStream]:
    """Host → the sender of one stream per session of its VMs, without hosts that have no VM."""
    measure, load = expanded.measure, load_at(expanded.at(turn.point))
    end, hosts = load.iscsi.initiator, lab.host_names
    configs = {}
    for i, host in enumerate(hosts[: load.count]):
        vms = len(range(i, load.count, len(hosts)))
        portal = next(portal for portal in lab.portals() if reaches(host, portal))
        configs[host] = contract.ProbeStream(
            connect=portal,
            streams=vms * end.sessions,
            socket=socket_options(end.socket),
            warmup_s=measure.warmup_ns / 1e9,
            measure_s=measure.time_ns / 1e9,
            sample_interval_ms=measure.intervals.hosts // MS,
        )
    return configs
