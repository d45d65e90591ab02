"""The finding `tape`: whether the tape drives streamed, how often they stopped, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.kinds.copy.analysis.neighbours import differing
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.kinds.copy.analysis.ratio import ratio_words
from hakaru.kinds.copy.analysis.setup import TapeSetup
from hakaru.kinds.copy.analysis.tape import Drive, facts_of
from hakaru.kinds.copy.names import TAPE_UNITS
from hakaru.units import format_size
from hakaru.wording import LANGUAGES, say, tenths

DESTINATION = ("arrays.", "load.to")
"""Places that may differ between a copy to tape and the same one to disks."""
FOLLOWS_PERCENT = 97.0
"""Arrival in percent of the native rate from which the drive is the limit."""


def of_points(points: Sequence[CopyPoint], plain: Sequence[CopyPoint]) -> list[Finding]:
    """The findings of the plain points, and of those whose copy went to disks at another point."""
    pairs = [(point, _on_disks(point, points)) for point in points]
    chosen = [(point, disks) for point, disks in pairs if disks is not None or point in plain]
    found = [_of_point(point, disks, len(plain) > 1 or point not in plain) for point, disks in chosen]
    return [finding for finding in found if finding is not None]


def _on_disks(point: CopyPoint, points: Sequence[CopyPoint]) -> CopyPoint | None:
    """The point that differs only in what the copy is written to."""
    if point.setup.tape is None:
        return None
    for other in points:
        if other.setup.tape is not None or other.mean("mib_per_s") is None or not other.valid:
            continue
        if all(place.startswith(DESTINATION) for place in differing(point, other)):
            return other
    return None


def _of_point(point: CopyPoint, disks: CopyPoint | None, several: bool) -> Finding | None:
    """The finding of a point; None without a tape or a result."""
    tape, drive = point.setup.tape, point.drive
    if tape is None or drive is None or point.mean("tape_stops_per_min") is None:
        return None
    cause, levels = _cause(point, tape, drive), dict(point.factors) if several else {}
    evidence: dict[str, Any] = {name: point.mean(name) for name in TAPE_UNITS}
    evidence |= {"cause": cause, "generation": tape.generation, **facts_of(drive, tape)}
    ratio = None
    if disks is not None:
        ratio = point.ratio_to(disks, "mib_per_s")
        evidence |= {"disks": disks.id, "disks_mib_per_s": disks.mean("mib_per_s"), "ratio": ratio.to_json()}

    def write(language: str) -> str:
        text = _text(language, point, tape, drive, cause)
        if disks is not None and ratio is not None:
            text = sentences.sentences(language, text, _compared(language, point, disks, ratio))
        return sentences.in_series(language, levels, text, bool(levels))

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


def _compared(language: str, point: CopyPoint, disks: CopyPoint, ratio: Estimate) -> str:
    rates = {"disks": disks.mean("mib_per_s"), "tape": point.mean("mib_per_s"), "depth": disks.setup.depth}
    return say(language, "tape.disks", rates | ratio_words(language, ratio))


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
