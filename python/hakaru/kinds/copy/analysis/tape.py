"""Copies to tape drives: the motions of the drives, compared with the closed form of their times
(docs/reference/array.md, crates/tape/src/timing).

Between two synchronisations, n stored bytes arrive at w bytes/s at a drive whose buffer of B bytes
is empty and whose tape stands. The tape starts when the buffer is full. At w below its lowest rate
it empties the buffer, stops, and begins again; otherwise it streams until the last byte has
arrived. The synchronisation writes the rest at the native rate and stops the tape. If the buffer is
full before the tape can start again, the initiator waits, which lowers the rate that it measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.copy.analysis.setup import Setup, TapeSetup
from hakaru.kinds.copy.names import TAPE_UNITS

NAN = float("nan")
MB = 1e6


@dataclass(frozen=True)
class Drive:
    """The parameters of a drive, as its array reports them; rates in stored bytes."""

    low: float
    """Lowest rate at which the tape streams, bytes/s."""
    high: float
    """Native rate, bytes/s."""
    buffer: float
    """Buffer, bytes."""
    backhitch: float = 0.0
    """Time after a stop in which the tape cannot start, s."""


@dataclass(frozen=True)
class Motion:
    """Stops and streaming time of a tape while data is written."""

    stops: float
    streaming_s: float

    def plus(self, other: Motion, times: int = 1) -> Motion:
        """The sum with another one, `times` times."""
        return Motion(self.stops + times * other.stops, self.streaming_s + times * other.streaming_s)


NO_MOTION = Motion(0.0, 0.0)


def of_stretch(drive: Drive, stored: float, rate: float, *, stopped: bool = False) -> Motion:
    """The motion of the tape for `stored` bytes that arrive at `rate` bytes/s before a
    synchronisation. `stopped`: the tape has stopped just before, so the rate contains the time in
    which a full buffer waited for its start.
    """
    if stored <= 0 or rate <= 0:
        return NO_MOTION
    if stopped and stored > drive.buffer and rate * drive.backhitch > drive.buffer:
        # The rest arrived after the start: this is the rate without the wait.
        rate = (stored - drive.buffer) / (stored / rate - drive.backhitch)
    if rate >= drive.high:
        return Motion(1.0, stored / drive.high)
    cycles, rest = 0, stored
    cycle_s = 0.0
    if rate < drive.low:
        cycle_s = drive.buffer / (drive.low - rate)
        per_cycle = drive.low * cycle_s
        cycles = int(stored // per_cycle)
        rest = stored - cycles * per_cycle
    if rest <= drive.buffer:
        return Motion(cycles + (rest > 0), cycles * cycle_s + rest / drive.high)
    # The tape has started, and data still arrives.
    arriving_s = (rest - drive.buffer) / rate
    left = drive.buffer - max(0.0, max(drive.low, rate) - rate) * arriving_s
    if rate >= drive.low:
        # Above nine tenths of the buffer, the tape streams at its native rate.
        left = max(0.9 * drive.buffer, drive.buffer - (drive.high - rate) * arriving_s)
    return Motion(cycles + 1, cycles * cycle_s + arriving_s + left / drive.high)


def of_image(drive: Drive, tape: TapeSetup, block: int, octets: float, rate: float) -> Motion:
    """The motion of the tape for an image of `octets` bytes, which arrive at `rate` bytes/s."""
    stored, stored_rate = octets / tape.compression, rate / tape.compression
    if tape.synchronises_every is None:
        return of_stretch(drive, stored, stored_rate)
    # A filemark follows the block that reaches the distance.
    stretch = -(-tape.synchronises_every // block) * block
    whole = int(octets // stretch)
    motion = NO_MOTION.plus(of_stretch(drive, stretch / tape.compression, stored_rate, stopped=True), whole)
    rest = (octets - whole * stretch) / tape.compression
    return motion.plus(of_stretch(drive, rest, stored_rate, stopped=whole > 0))


def drives_of(repetition: Repetition, setup: Setup) -> list[Drive]:
    """The parameters of each drive; empty if the array did not report them."""
    for engine in repetition.engines:
        drives = (engine.get("found") or {}).get("tape_drives") or []
        if engine.get("node") == setup.destination and drives:
            return [
                Drive(
                    float(each["rate_min_bytes_per_s"]),
                    float(each["rate_max_bytes_per_s"]),
                    float(each["buffer_bytes"]),
                    float(each["backhitch_s"]),
                )
                for each in drives
            ]
    return []


def of_repetition(repetition: Repetition, setup: Setup) -> dict[str, float]:
    """Metric → value; NaN if the repetition has none. Nothing without a tape."""
    tape = setup.tape
    if tape is None:
        return {}
    values = dict.fromkeys(TAPE_UNITS, NAN)
    seconds = (repetition.window[1] - repetition.window[0]) / 1e9
    streaming, stops, stored = (
        _sum(repetition, setup, name) for name in ("streaming_ns", "backhitches", "stored_bytes")
    )
    found = drives_of(repetition, setup)
    written = [*_written(repetition, found)] if found else []
    marks = [
        s.grown(*repetition.window)
        for _, s in repetition.counters.select(engine="backup", entity="backups", name="synchronisations")
    ]
    if seconds <= 0 or not written or streaming is None or stops is None or stored is None:
        return values
    drives = min(setup.jobs, tape.drives)
    active_s = sum(active for _, _, active in written)
    arrival = sum(octets for _, octets, _ in written) / active_s
    native_s = sum(octets / tape.compression / drive.high for drive, octets, _ in written)
    predicted = NO_MOTION
    for drive, octets, active in written:
        predicted = predicted.plus(of_image(drive, tape, setup.block_bytes, octets, octets / active))
    values |= {
        "tape_arrival_mb_per_s": arrival / MB,
        "tape_native_percent": 100 * native_s / active_s,
        "tape_streaming_percent": 100 * streaming / 1e9 / seconds / drives,
        "tape_stops_per_min": 60 * stops / seconds / drives,
        "tape_synchronisations_per_min": 60 * sum(marks) / seconds / drives,
    }
    if not setup.warmup_s:
        values |= {
            "tape_streaming_percent_predicted": 100 * predicted.streaming_s / seconds / drives,
            "tape_stops_per_min_predicted": 60 * predicted.stops / seconds / drives,
            "tape_stops_to_predicted": stops / predicted.stops if predicted.stops else NAN,
            "tape_streaming_to_predicted": streaming / 1e9 / predicted.streaming_s if predicted.streaming_s else NAN,
        }
    return values


def _sum(repetition: Repetition, setup: Setup, name: str) -> float | None:
    """Growth of a counter of the drives, all together; None if there are none."""
    selected = repetition.counters.select(engine="array", node=setup.destination, entity="tape/", name=name)
    grown = [series.grown(*repetition.window) for _, series in selected]
    return sum(grown) if grown else None


def _written(repetition: Repetition, drives: Sequence[Drive]) -> Iterator[tuple[Drive, float, float]]:
    """The drive of each job, the bytes that the job wrote after the warm-up, and the time in which
    it wrote them, without the time of filemarks: to within an interval between samples. A job that
    wrote nothing is left out.
    """
    jobs = repetition.counters.select(engine="backup", entity="backup/", name="written_bytes")
    # Names of jobs sort by their numbers, and job i uses drive i mod drives.
    for i, (key, series) in enumerate(sorted(jobs, key=lambda job: job[0].entity)):
        # The warm-up does not count, as it does not for the drives.
        start = max(_last_at(series, 0.0), repetition.window[0])
        end = _first_at(series, float(series.value[-1]))
        octets = float(series.value[-1]) - series.at(start)
        if octets <= 0:
            continue
        marks = repetition.counters.get(key.node, key.engine, key.entity, "filemark_latency_ns_sum")
        waited_ns = 0.0 if marks is None else marks.at(end) - marks.at(start)
        active = (end - start - waited_ns) / 1e9
        if active > 0:
            yield drives[i % len(drives)], octets, active


def _last_at(series: Series, value: float) -> int:
    """The last instant at which a series that grows has at most a value."""
    return max(
        (int(at) for at, v in zip(series.at_ns, series.value, strict=True) if v <= value), default=int(series.at_ns[0])
    )


def _first_at(series: Series, value: float) -> int:
    """The first instant at which it has at least a value."""
    return min(
        (int(at) for at, v in zip(series.at_ns, series.value, strict=True) if v >= value), default=int(series.at_ns[-1])
    )


def facts_of(drive: Drive, tape: TapeSetup) -> dict[str, Any]:
    """Rates of a drive for sentences, in MB/s of the initiator."""
    return {"low": drive.low * tape.compression / MB, "high": drive.high * tape.compression / MB}
