"""Plain TCP streams in place of the VMs' iSCSI sessions: engines, and their rates.

The streams use the path, the port and the socket options of the sessions. TCP and the path are
therefore the same, and the difference of the rates is the cost of iSCSI and storage.
"""

from __future__ import annotations

import math

from hakaru.analysis.counters import Counters
from hakaru.engine import contract
from hakaru.kinds.vms.configure_iscsi import socket_options
from hakaru.kinds.vms.entities import STREAM_ENGINE, STREAMS
from hakaru.kinds.vms.load import load_at
from hakaru.lab.plan import LabPlan
from hakaru.run.configure import MS, Reaches, port_of
from hakaru.run.meter import HostRates, Meter, Rates
from hakaru.store import Samples
from hakaru.study import Expanded, Repetition
from hakaru.wording import number

DELIVERED = "acked_bytes"
"""The counter from which rates are computed: data that the receiver's kernel acknowledged."""


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


class StreamMeter(Meter):
    """Bytes delivered per second over all hosts."""

    def __init__(self, hosts: int) -> None:
        self._hosts = HostRates(hosts, STREAMS, [DELIVERED])

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        rates = self._hosts.add(node, sample)
        return _rates(*rates) if rates else None


def result_of(window: tuple[int, int], samples: Samples) -> Rates:
    """The rate of a repetition over its measuring phase, as in the report."""
    rate = delivered_bytes_per_s(Counters.of_table(samples.table()), window)
    return _rates(rate if math.isfinite(rate) else 0.0)


def delivered_bytes_per_s(counters: Counters, window: tuple[int, int]) -> float:
    """Bytes per second that TCP delivered for all streams; NaN if nothing was counted."""
    return counters.total_rate(window, engine=STREAM_ENGINE, entity=STREAMS, name=DELIVERED)


def _rates(bytes_per_s: float) -> Rates:
    mb_per_s = bytes_per_s / 1e6
    return Rates(f"{number(mb_per_s)} MB/s", {"mb_per_s": round(mb_per_s, 3)})
