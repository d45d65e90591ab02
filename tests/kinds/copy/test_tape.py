"""The closed form of a tape drive, against the formulas of docs/reference/array.md."""

from __future__ import annotations

import pytest
from hakaru.kinds.copy.analysis.setup import TapeSetup
from hakaru.kinds.copy.analysis.tape import Drive, of_image, of_stretch

LTO3 = Drive(low=27e6, high=80e6, buffer=64e6)
LTO5 = Drive(low=47e6, high=140e6, buffer=256e6)
MIB = 1 << 20


def tape(every: int | None, *, immediate: bool = False, compression: float = 1.0) -> TapeSetup:
    return TapeSetup(
        drives=1, generations=("lto5",), compression=compression, filemark_every=every, immediate=immediate
    )


@pytest.mark.parametrize(("drive", "rate"), [(LTO3, 21e6), (LTO5, 21e6), (LTO5, 35e6)])
def test_below_the_lowest_rate_a_long_copy_has_the_period_of_buffer_and_rates(drive: Drive, rate: float) -> None:
    period = drive.buffer / rate + drive.buffer / (drive.low - rate)
    seconds = 3600.0
    motion = of_stretch(drive, rate * seconds, rate)
    assert motion.stops == pytest.approx(seconds / period, abs=1)
    assert motion.streaming_s / seconds == pytest.approx(rate / drive.low, rel=0.01)


def test_within_the_range_the_tape_stops_once_and_streams_from_the_full_buffer() -> None:
    motion = of_stretch(LTO5, 85e6 * 100, 85e6)
    assert motion.stops == 1
    # The buffer fills in 3.01 s; nine tenths of it are left at the end.
    assert motion.streaming_s == pytest.approx(100 - 256 / 85 + 0.9 * 256 / 140)


def test_at_the_native_rate_everything_passes_the_head_at_it() -> None:
    motion = of_stretch(LTO3, 80e6 * 50, 80e6)
    assert (motion.stops, motion.streaming_s) == (1, pytest.approx(50))


def test_a_stretch_within_the_buffer_is_written_at_the_native_rate_at_its_end() -> None:
    motion = of_stretch(LTO5, 128e6, 21e6)
    assert (motion.stops, motion.streaming_s) == (1, pytest.approx(128 / 140))
    assert of_stretch(LTO5, 0, 21e6).stops == of_stretch(LTO5, 1e6, 0).stops == 0


def test_filemarks_that_wait_divide_an_image_after_whole_blocks() -> None:
    image, block = 100 * MIB, MIB
    # 10.5 MiB are reached by the eleventh block: nine stretches of 11 MiB, and 1 MiB.
    motion = of_image(LTO5, tape(21 * MIB // 2), block, image, 85e6)
    assert motion.stops == 10
    assert motion.streaming_s == pytest.approx(image / LTO5.high)
    assert of_image(LTO5, tape(21 * MIB // 2, immediate=True), block, image, 85e6).stops == 1


def test_compression_lowers_the_rate_and_the_bytes_at_the_head() -> None:
    plain = of_image(LTO5, tape(None), MIB, 4e9, 40e6)
    packed = of_image(LTO5, tape(None, compression=2.0), MIB, 8e9, 80e6)
    assert packed == plain


@pytest.mark.parametrize("source", [30e6, 50e6, 75e6, 100e6])
def test_wait_for_the_start_of_a_stopped_tape_does_not_count_as_slow_arrival(source: float) -> None:
    drive = Drive(low=27e6, high=80e6, buffer=64e6, backhitch=3.0)
    stored = 128e6
    # The buffer is full before the tape can start; then the drive takes the rest as it arrives.
    seconds = drive.backhitch + (stored - drive.buffer) / min(source, drive.high)
    measured = of_stretch(drive, stored, stored / seconds, stopped=True)
    free = of_stretch(Drive(low=27e6, high=80e6, buffer=64e6), stored, source)
    assert measured.stops == free.stops == 1
    assert measured.streaming_s == pytest.approx(free.streaming_s)
    # A stretch that fits the buffer needs no start meanwhile.
    assert of_stretch(drive, 32e6, source, stopped=True).streaming_s == pytest.approx(32 / 80)
