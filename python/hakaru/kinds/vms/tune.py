"""Tuning of a load by VMs: one VM with one LU and one pattern, and the login keys of both ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from hakaru.analysis.latency import Latencies
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.caveats import Caveat
from hakaru.kinds.vms.analysis import metrics, points
from hakaru.kinds.vms.analysis.setup import setup_at
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.load import load_at
from hakaru.study import Study
from hakaru.tune.closed_form import depth_of
from hakaru.tune.kind import TuneKind
from hakaru.tune.knobs import AUTO, COMMAND_MAX_BYTES, Defaults, Settings, Value, defaults_of
from hakaru.tune.setup import Setup
from hakaru.units import format_size

COMMANDS_MAX = 128
"""Used if the study sets no limit: the number of commands that hakaru's target accepts at once."""


class VmsTune(TuneKind):
    """The part of the kind `vms` that tuning uses."""

    def load(self, setup: Setup, region: str) -> dict[str, Any]:
        """One VM with one pattern."""
        c = setup.conditions
        pattern = {
            "sizes": [{"size": format_size(c.block_bytes)}],
            "read_percent": 0 if c.op == "write" else 100,
            "random_percent": 0,
            "load": {"kind": "closed", "queue_depth": depth_of(c, defaults_of(setup.space))},
        }
        ends = {end: part for end, part in _iscsi(setup.defaults).items() if setup.lab or end == "initiator"}
        return {"kind": "vms", "columns": [[0]], "image": region, "patterns": {c.op: pattern}, "iscsi": ends}

    def factors(self, setup: Setup, settings: Settings) -> dict[str, Any]:
        """Pattern, one VM, queue depth."""
        return {"pattern": setup.conditions.op, "vms": 1, "queue_depth": depth_of(setup.conditions, settings)}

    def rate(
        self, run: RunData, repetition: Repetition, factors: Mapping[str, Any]
    ) -> tuple[float | None, list[Caveat]]:
        """The rate derived from latency (`metrics.by_latency`). Requests are few and long, so a
        rate from their count would be too coarse.
        """
        latencies = Latencies.of_table(repetition.histograms, repetition.window, TOTAL)
        changed = run.study_at(repetition.point, factors)
        setup = setup_at(run.study, changed, site=run.is_site)
        values, _, caveats = points.measured(repetition, setup, latencies, run.nics_at(changed), spins=False)
        if setup.exchange is None:
            values = values | metrics.by_latency(values, repetition.window)
        rate = values["mb_per_s"]
        return (rate if math.isfinite(rate) else None), caveats

    def points(self, run: RunData, described: Iterable[Mapping[str, Any]]) -> list[Point]:
        """Analyse the points as in any run of VMs."""
        return [points.analyse(run, point) for point in described]

    def defaults(self, study: Study) -> Defaults:
        """Defaults that follow from the login keys of both ends: the smaller number, the OR of
        InitialR2T, the AND of ImmediateData.
        """
        iscsi, tcp = load_at(study).iscsi, study.lab.tcp
        initiator, target = iscsi.initiator, iscsi.target
        return Defaults(
            initial_r2t=initiator.initial_r2t or target.initial_r2t,
            immediate_data=initiator.immediate_data and target.immediate_data,
            first_burst_length=min(initiator.first_burst_length, target.first_burst_length),
            max_burst_length=min(initiator.max_burst_length, target.max_burst_length),
            max_outstanding_r2t=min(initiator.max_outstanding_r2t, target.max_outstanding_r2t),
            max_recv_initiator=initiator.max_recv_data_segment_length,
            max_recv_target=target.max_recv_data_segment_length,
            command_max=initiator.command_max or COMMAND_MAX_BYTES,
            commands=initiator.commands or COMMANDS_MAX,
            send_initiator=_buffer(initiator.socket.send_buffer),
            receive_initiator=_buffer(initiator.socket.receive_buffer),
            send_target=_buffer(target.socket.send_buffer),
            receive_target=_buffer(target.socket.receive_buffer),
            congestion_control=initiator.socket.congestion_control or tcp.congestion_control or "cubic",
            slow_start_after_idle=tcp.slow_start_after_idle is not False,
            tcp_stack=tcp.stack,
            buffer_max=tcp.buffer_max,
        )


def _buffer(size: int | None) -> Value:
    return AUTO if size is None else size


def _iscsi(d: Defaults) -> dict[str, Any]:
    keys = {
        "initial_r2t": d.initial_r2t,
        "immediate_data": d.immediate_data,
        "first_burst_length": format_size(d.first_burst_length),
        "max_burst_length": format_size(d.max_burst_length),
        "max_outstanding_r2t": d.max_outstanding_r2t,
    }
    return {
        "initiator": {
            **keys,
            "max_recv_data_segment_length": format_size(d.max_recv_initiator),
            "command_max": format_size(d.command_max),
            "commands": d.commands,
            # A long timeout, so that a setting that is slow under loss gives a slow trial instead
            # of a failed one.
            "command_timeout": "5 min",
            "socket": _socket(d.send_initiator, d.receive_initiator),
        },
        "target": {
            **keys,
            "max_recv_data_segment_length": format_size(d.max_recv_target),
            "socket": _socket(d.send_target, d.receive_target),
        },
    }


def _socket(send: Value, receive: Value) -> dict[str, str]:
    buffers = {"send_buffer": send, "receive_buffer": receive}
    return {name: format_size(int(value)) for name, value in buffers.items() if value != AUTO}


TUNE = VmsTune()
