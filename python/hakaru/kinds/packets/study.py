"""The model of a study of packet forwarding."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hakaru.kinds.packets.load import FRAME_HEADER_BYTES, PacketsLoad, load_at
from hakaru.kinds.packets.names import metrics_of
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study
from hakaru.study.variables import Problem
from hakaru.units import format_duration

MS_NS = 1_000_000
SAMPLES_PER_TRIAL = 5
"""Least number of sample intervals in a trial, so that enough samples fall into it."""


class PacketsStudy(StudyKind):
    """The part of the kind `packets` that studies use."""

    load = PacketsLoad

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return metrics_of(load_at(study)).keys()

    def problems(self, study: Study) -> Iterator[Problem]:
        """Device, frame size, goals, and measuring times, which a search does not have."""
        load = load_at(study)
        if study.lab.device is None:
            yield ("lab",), "a study of packets needs a device", "add `device: {forwards: bridge}`"
        for field in ("warmup", "time"):
            if getattr(study.measure, field) is not None:
                yield ("measure", field), "a search chooses its trials", "leave it out; `load.search` has the times"
        shortest = min(goal.trial for goal in load.search.goals)
        intervals = study.measure.intervals
        if intervals.hosts * SAMPLES_PER_TRIAL > shortest:
            interval = format_duration(intervals.hosts)
            most = shortest // SAMPLES_PER_TRIAL // MS_NS * MS_NS
            message = f"{interval} is too long for the CPU use of trials of {format_duration(shortest)}"
            yield ("measure", "sample_interval"), message, f"use {format_duration(most)} or less, or longer trials"
        if study.lab.device is not None and study.lab.device.forwards == "switch" and intervals.switches > load.settle:
            message = "a sample must fall into the pause after each trial, because the switch reports its losses there"
            yield ("measure", "sample_interval"), message, f"use {format_duration(load.settle)} or less"
        largest = max(size for size, _ in load.sizes)
        if largest > study.lab.mtu + FRAME_HEADER_BYTES:
            message = f"frames of {largest} bytes do not fit the MTU of {study.lab.mtu}"
            yield ("load", "frame"), message, f"set `lab.mtu` to {largest - FRAME_HEADER_BYTES} or more"
        if load.search.procedure != "mlr" and len(load.search.goals) > 1:
            message = f"the procedure {load.search.procedure!r} has one goal"
            yield ("load", "search", "goals"), message, "keep the first goal, or use `procedure: mlr`"
        if len({goal.goal() for goal in load.search.goals}) < len(load.search.goals):
            yield ("load", "search", "goals"), "two goals are equal", "give each goal limits of its own"
        if load.search.highest is not None and load.search.highest <= load.search.lowest:
            yield ("load", "search", "highest"), "not above `lowest`", f"use more than {load.search.lowest:g}"
        if load.latency is not None and not all(0 < percent <= 100 for percent in load.latency.percent):
            yield ("load", "latency", "percent"), "shares are above 0 and at most 100", "use for example [10, 50, 90]"


STUDY = PacketsStudy()
