"""The finding `tape`: whether the tape drives streamed, how often they stopped, and why."""

from __future__ import annotations

import math
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.kinds.copy.analysis.setup import TapeSetup
from hakaru.kinds.copy.analysis.tape import UNITS, Drive, facts_of
from hakaru.units import format_size
from hakaru.wording import LANGUAGES, say, tenths

FOLLOWS_PERCENT = 97.0
"""Arrival in percent of the native rate from which the drive is the limit."""


def of_point(point: CopyPoint, several: bool) -> Finding | None:
    """The finding of a point; None without a tape or a result."""
    tape, drive = point.setup.tape, point.drive
    if tape is None or drive is None or point.mean("tape_stops_per_min") is None:
        return None
    cause, levels = _cause(point, tape, drive), dict(point.factors) if several else {}

    def write(language: str) -> str:
        return sentences.in_series(language, levels, _text(language, point, tape, drive, cause), bool(levels))

    evidence: dict[str, Any] = {name: point.mean(name) for name in UNITS}
    evidence |= {"cause": cause, "generation": tape.generation, **facts_of(drive, tape)}
    return Finding("tape", levels, {language: write(language) for language in LANGUAGES}, None, evidence)


def _cause(point: CopyPoint, tape: TapeSetup, drive: Drive) -> str:
    """The reason why the tapes stop or stream: `slow`, `marks`, `native`, `streams`."""
    native = point.mean("tape_native_percent") or 0.0
    every, arrival = tape.synchronises_every, native / 100 * drive.high
    if every is not None and every < point.setup.image_bytes:
        # Bytes at the head between two stops that the arrival alone would cause.
        cycle = drive.low * drive.buffer / (drive.low - arrival) if arrival < drive.low else math.inf
        if every / tape.compression <= cycle:
            return "marks"
    if native >= FOLLOWS_PERCENT:
        return "native"
    return "slow" if native < 100 * drive.low / drive.high else "streams"


def _text(language: str, point: CopyPoint, tape: TapeSetup, drive: Drive, cause: str) -> str:
    values = {
        "arrival": point.mean("tape_arrival_mb_per_s"),
        "stops": tenths(point.mean("tape_stops_per_min"), language),
        "streaming": tenths(point.mean("tape_streaming_percent"), language),
        "every": format_size(tape.synchronises_every) if tape.synchronises_every else "",
        **facts_of(drive, tape),
    }
    parts = [say(language, "tape.drives", values), say(language, f"tape.cause.{cause}", values)]
    predicted = point.mean("tape_stops_per_min_predicted")
    if predicted is not None:
        shares = {
            "stops": tenths(predicted, language),
            "streaming": tenths(point.mean("tape_streaming_percent_predicted"), language),
        }
        parts.append(say(language, "tape.predicted", shares))
    return sentences.sentences(language, *parts)
