"""Where a tuning starts: the defaults of open-iscsi and LIO, or what a study says at one of its points.

Those defaults stand in one place, as a setting of the study `long-distance`; its README has the source of each.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from hakaru.errors import UsageError
from hakaru.study import Study, load
from hakaru.study.part import level_text
from hakaru.study.variables import near
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import (
    AUTO,
    COMMAND_MAX_BYTES,
    Defaults,
    Machine,
    Space,
    Value,
    defaults_of,
    settle,
    space_of,
)

COMMANDS_MAX = 128
"""Stands for no limit: the commands that a target of ours takes at once."""
TODAY = "long-distance:settings=default-today"


@functools.cache
def today() -> Defaults:
    """The defaults of open-iscsi 2.1 and LIO, on the kernel that is here."""
    return _of(TODAY)


def defaults_from(start: str) -> Defaults:
    """`defaults`, or `STUDY[:FACTOR=LEVEL,…]`. Raises UsageError for a study or level that is not there."""
    return today() if start == "defaults" else _of(start, "--from")


def peer_from(text: str, conditions: Conditions, space: Space, machine: Machine, *, lab: bool) -> dict[str, Value]:
    """The knobs as a study has them, to be measured beside the best. Raises UsageError as `defaults_from` does.

    A buffer that the study lets the kernel size up to a limit of its own is asked for at that limit: the limit of the
    lab is not turned. The requests outstanding, where they are a knob, are not the peer's but follow the best.
    """
    found = _of(text, "--against")
    if found.buffer_max is not None:
        size = found.buffer_max // 2  # the kernel doubles what it is asked for
        grown = {n: size for n in BUFFERS if getattr(found, n) == AUTO}
        found = replace(found, **grown)  # type: ignore[arg-type]
    theirs = defaults_of(space_of(conditions, found, machine, lab=lab))
    return settle(space, {knob.name: theirs[knob.name] for knob in space})


BUFFERS = ("send_initiator", "receive_initiator", "send_target", "receive_target")


def _of(text: str, option: str = "--from") -> Defaults:
    name, _, levels = text.partition(":")
    study = load(name).study
    chosen: dict[str, str] = {}
    for part in filter(None, levels.split(",")):
        factor, separator, level = part.partition("=")
        if not separator or factor not in study.variables:
            hint = near(factor, study.variables) if study.variables else "it has no variables"
            raise UsageError(f"{option} {text}: {factor!r} is no variable of {name}", hint)
        chosen[factor] = level
    return of_study(_at(study, chosen, f"{option} {text}"))


def _at(study: Study, chosen: dict[str, str], start: str) -> Study:
    written = {}
    for block in study.factors:
        for factor, levels in block.levels().items():
            written.update({(factor, level_text(level)): level for level in levels})
    factors = {factor: written.get((factor, level), level) for factor, level in chosen.items()}
    try:
        return study.at(factors)
    except (KeyError, ValueError) as e:
        raise UsageError(f"{start}: {e}", "name levels as the study has them") from e


def of_study(study: Study) -> Defaults:
    """What both ends of a study come to together: of numbers the smaller, OR of InitialR2T, AND of ImmediateData."""
    ours, theirs, tcp = study.iscsi.initiator, study.iscsi.target, study.lab.tcp
    return Defaults(
        initial_r2t=ours.initial_r2t or theirs.initial_r2t,
        immediate_data=ours.immediate_data and theirs.immediate_data,
        first_burst_length=min(ours.first_burst_length, theirs.first_burst_length),
        max_burst_length=min(ours.max_burst_length, theirs.max_burst_length),
        max_outstanding_r2t=min(ours.max_outstanding_r2t, theirs.max_outstanding_r2t),
        max_recv_initiator=ours.max_recv_data_segment_length,
        max_recv_target=theirs.max_recv_data_segment_length,
        command_max=ours.command_max or COMMAND_MAX_BYTES,
        commands=ours.commands or COMMANDS_MAX,
        send_initiator=_buffer(ours.socket.send_buffer),
        receive_initiator=_buffer(ours.socket.receive_buffer),
        send_target=_buffer(theirs.socket.send_buffer),
        receive_target=_buffer(theirs.socket.receive_buffer),
        congestion_control=ours.socket.congestion_control or tcp.congestion_control or "cubic",
        slow_start_after_idle=tcp.slow_start_after_idle is not False,
        tcp_stack=tcp.stack,
        buffer_max=tcp.buffer_max,
    )


def _buffer(size: int | None) -> Value:
    return AUTO if size is None else size
