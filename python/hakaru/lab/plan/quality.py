"""A link's line and queue of the study as types of the contract."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.lab.model.link import DisciplineSpec, JitterSpec, LinkSpec, LossSpec
from hakaru.lab.plan.parts import NO_JITTER, NO_LOSS, TAIL_DROP, Discipline, Jitter, Line, Loss


def plan_line(asked: LinkSpec) -> Line:
    return Line(
        delay_us=asked.delay / 1e3,
        jitter=_jitter(asked.jitter),
        loss=_loss(asked.loss),
        duplicate_percent=asked.duplicate_percent,
        corrupt_percent=asked.corrupt_percent,
        reorder_percent=asked.reorder.percent if asked.reorder else 0.0,
        reorder_us=asked.reorder.by / 1e3 if asked.reorder else 0.0,
    )


def _jitter(asked: JitterSpec | None) -> Jitter:
    if asked is None:
        return NO_JITTER
    if asked.uniform is not None:
        return contract.UniformJitter(max_us=asked.uniform / 1e3)
    if asked.exponential is not None:
        return contract.ExponentialJitter(mean_us=asked.exponential / 1e3)
    assert asked.normal is not None, "the model holds that one is given"
    return contract.NormalJitter(mean_us=asked.normal.mean / 1e3, deviation_us=asked.normal.deviation / 1e3)


def _loss(asked: LossSpec | None) -> Loss:
    if asked is None or asked.percent == 0:
        return NO_LOSS
    if asked.burst_frames is None:
        return contract.RandomLoss(percent=asked.percent)
    return contract.BurstLoss(percent=asked.percent, burst_frames=asked.burst_frames, bad_percent=asked.bad_percent)


def plan_discipline(asked: str | DisciplineSpec) -> Discipline:
    if not isinstance(asked, DisciplineSpec):
        return TAIL_DROP
    if asked.mark is not None:
        return contract.Mark(above_bytes=asked.mark)
    red = asked.red
    assert red is not None, "the model holds that one is given"
    return contract.Red(min_bytes=red.min, max_bytes=red.max, percent=red.percent, weight=red.weight, ecn=red.ecn)
