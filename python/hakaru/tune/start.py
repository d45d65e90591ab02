"""Start of a tuning: the defaults of open-iscsi and LIO, or the settings of a study at one of its
points.

TODAY       open-iscsi 2.1 in front of LIO; the README of the study long-distance has the source of
            each value
"""

from __future__ import annotations

from dataclasses import replace

from hakaru.errors import UsageError
from hakaru.lab.plan.tcp import SWITCHES_2009
from hakaru.study import Study, load
from hakaru.study.part import level_text
from hakaru.suggest import did_you_mean
from hakaru.tune import kind
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import (
    AUTO,
    KIB,
    MIB,
    Defaults,
    Machine,
    Space,
    Value,
    defaults_of,
    settle,
    space_of,
)

TODAY = Defaults(
    initial_r2t=True,
    immediate_data=True,
    first_burst_length=64 * KIB,
    max_burst_length=256 * KIB,
    max_outstanding_r2t=1,
    max_recv_initiator=256 * KIB,
    max_recv_target=8 * KIB,
    # The largest transfer that LIO announces.
    command_max=8 * MIB,
    commands=32,
    # open-iscsi asks for both buffers of its sockets; LIO leaves them to the kernel.
    send_initiator=512 * KIB,
    receive_initiator=512 * KIB,
    send_target=AUTO,
    receive_target=AUTO,
    congestion_control="cubic",
    slow_start_after_idle=True,
    tcp_stack="today",
    buffer_max=None,
)
"""Defaults of open-iscsi 2.1 and LIO, on the kernel of this machine."""


def defaults_from(start: str) -> Defaults:
    """Return the settings that `start` names: `defaults`, or `STUDY[:FACTOR=LEVEL,…]`. Raises
    UsageError for an unknown study or level.
    """
    return TODAY if start == "defaults" else _defaults_of(start, "--from")


def buffer_limit(defaults: Defaults) -> int | None:
    """Return the limit in bytes up to which the kernel sizes socket buffers in a lab with these
    defaults; None: the limits of this machine.
    """
    if defaults.buffer_max is None and defaults.tcp_stack == "2009":
        return max(int(s.value.split()[-1]) for s in SWITCHES_2009 if s.name in ("tcp_rmem", "tcp_wmem"))
    return defaults.buffer_max


def peer_from(text: str, conditions: Conditions, space: Space, machine: Machine, *, lab: bool) -> dict[str, Value]:
    """Return the knobs as a study sets them, to compare with the best. Raises UsageError as
    `defaults_from` does.

    A study may limit the buffers that the kernel sizes. The limit of the lab is no knob, so the
    peer requests buffers of that size instead. The stack is no knob either: a peer is measured on
    that of the tuning. The queue depth, if it is a knob, follows the best (`Tuning.of_peer`).
    """
    defaults = _defaults_of(text, "--against")
    limit = buffer_limit(defaults)
    if limit is not None:
        size = limit // 2  # the kernel doubles the requested size
        grown = {n: size for n in BUFFERS if getattr(defaults, n) == AUTO}
        defaults = replace(defaults, **grown)  # type: ignore[arg-type]
    peer = defaults_of(space_of(conditions, defaults, machine, lab=lab))
    return settle(space, {knob.name: peer[knob.name] for knob in space})


BUFFERS = ("send_initiator", "receive_initiator", "send_target", "receive_target")


def _defaults_of(text: str, option: str) -> Defaults:
    name, _, levels = text.partition(":")
    study = load(name).study
    chosen: dict[str, str] = {}
    for part in filter(None, levels.split(",")):
        factor, separator, level = part.partition("=")
        if not separator or factor not in study.variables:
            hint = did_you_mean(factor, study.variables) if study.variables else f"study {name} has no variables"
            raise UsageError(f"{option} {text}: {factor!r} is not a variable of study {name}", hint)
        chosen[factor] = level
    study = _study_at(study, chosen, f"{option} {text}")
    return kind.of(study).defaults(study)


def _study_at(study: Study, chosen: dict[str, str], start: str) -> Study:
    written = {}
    for block in study.factors:
        for factor, levels in block.levels().items():
            written.update({(factor, level_text(level)): level for level in levels})
    factors = {factor: written.get((factor, level), level) for factor, level in chosen.items()}
    try:
        return study.at(factors)
    except ValueError as e:
        raise UsageError(f"{start}: {e}", "write the levels as the study file does") from e
