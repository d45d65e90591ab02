"""Conversion of a link's line and queue from the study's types to those of the contract."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.lab.model.link import DisciplineSpec, JitterSpec, LinkSpec, LossSpec
from hakaru.lab.plan.parts import NO_JITTER, NO_LOSS, TAIL_DROP, Discipline, Jitter, Line, Loss


def plan_line(spec: LinkSpec) -> Line:
    return Line(
        delay_us=spec.delay / 1e3,
        jitter=_jitter(spec.jitter),
        loss=_loss(spec.loss),
        duplicate_percent=spec.duplicate_percent,
        corrupt_percent=spec.corrupt_percent,
        reorder_percent=spec.reorder.percent if spec.reorder else 0.0,
        reorder_us=spec.reorder.by / 1e3 if spec.reorder else 0.0,
    )


def _jitter(spec: JitterSpec | None) -> Jitter:
    if spec is None:
        return NO_JITTER
    if spec.uniform is not None:
        return contract.UniformJitter(max_us=spec.uniform / 1e3)
    if spec.exponential is not None:
        return contract.ExponentialJitter(mean_us=spec.exponential / 1e3)
    assert spec.normal is not None, "the study's model guarantees that one is given"
    return contract.NormalJitter(mean_us=spec.normal.mean / 1e3, deviation_us=spec.normal.deviation / 1e3)


def _loss(spec: LossSpec | None) -> Loss:
    if spec is None or spec.percent == 0:
        return NO_LOSS
    if spec.burst_frames is None:
        return contract.RandomLoss(percent=spec.percent)
    return contract.BurstLoss(percent=spec.percent, burst_frames=spec.burst_frames, bad_percent=spec.bad_percent)


def plan_discipline(spec: str | DisciplineSpec) -> Discipline:
    if not isinstance(spec, DisciplineSpec):
        return TAIL_DROP
    if spec.mark is not None:
        return contract.Mark(above_bytes=spec.mark)
    red = spec.red
    assert red is not None, "the study's model guarantees that one is given"
    return contract.Red(min_bytes=red.min, max_bytes=red.max, percent=red.percent, weight=red.weight, ecn=red.ecn)
