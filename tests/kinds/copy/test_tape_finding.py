"""The finding `tape`: the reason why a drive stops or streams, from runs of known rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise

from tests.analysis.run_files import ARRAY
from tests.analysis.small_backup import VARIABLES, Copy, Pt, Tape, write_run

SECONDS = 30
GIB = 1 << 30


def finding(folder: Path, rate: float, tape: Tape, **writing: Any) -> dict[str, Any]:
    """The finding of one copy of 4 GiB that arrives at `rate` MB/s at an LTO-5 drive."""
    library = {"generation": "lto5", "cartridges": 1, "capacity": "16 GiB", "compression": tape.compression}
    target = ARRAY["target_name"]
    run = write_run(
        folder,
        [Pt({"case": "ten-to-ten"}, [Copy(rate=rate, jobs=1, seconds=SECONDS, tape=tape)])],
        arrays={
            "primary": ARRAY | {"lus": [{"lun": 0, "size": "8 GiB"}]},
            "vtl": {"target_name": target, "model": {"kind": "none"}, "tape_library": library},
        },
        load={
            "kind": "copy",
            "jobs": 1,
            "image": "4 GiB",
            "from": {"array": "primary", "lus": [0]},
            "to": {"array": "vtl", "tape": writing},
        },
    )
    (found,) = (f for f in summarise(run)["findings"] if f["kind"] == "tape")
    assert isinstance(found, dict)
    return found


def test_slow_data_empties_the_buffer(tmp_path: Path) -> None:
    found = finding(tmp_path, 21.0, Tape(stops=2, streaming=0.447))
    evidence = found["evidence"]
    assert evidence["cause"] == "slow"
    assert (evidence["tape_arrival_mb_per_s"], evidence["tape_native_percent"]) == (21, pytest.approx(15))
    assert (evidence["tape_stops_per_min"], evidence["tape_streaming_percent"]) == (4, pytest.approx(44.7))
    assert (evidence["low"], evidence["high"]) == (47, 140)
    assert "arrives at 21 MB/s, below the lowest rate of 47 MB/s" in found["text"]


@pytest.mark.parametrize("rate", [46.9, 47.1])
def test_lowest_rate_divides_stops_from_streaming(tmp_path: Path, rate: float) -> None:
    cause = finding(tmp_path, rate, Tape())["evidence"]["cause"]
    assert cause == ("slow" if rate < 47 else "streams")


def test_data_within_the_range_of_the_drive_is_followed(tmp_path: Path) -> None:
    found = finding(tmp_path, 85.0, Tape(stops=1, streaming=0.9))
    assert found["evidence"]["cause"] == "streams"
    assert "follows rates from 47 to 140 MB/s without a stop" in found["text"]


def test_drive_is_the_limit_at_its_native_rate(tmp_path: Path) -> None:
    found = finding(tmp_path, 139.0, Tape(streaming=1.0))
    assert found["evidence"]["cause"] == "native"
    assert "which is the rate of the drive: it writes 140 MB/s at most" in found["text"]


def test_compression_multiplies_the_rates_of_the_drive(tmp_path: Path) -> None:
    found = finding(tmp_path, 85.0, Tape(compression=2.0))
    assert found["evidence"]["cause"] == "slow"
    assert (found["evidence"]["low"], found["evidence"]["high"]) == (94, 280)
    assert finding(tmp_path, 95.0, Tape(compression=2.0))["evidence"]["cause"] == "streams"


@pytest.mark.parametrize(
    ("rate", "every", "immediate", "cause"),
    [
        # Filemarks that wait stop a tape that would stream.
        (85.0, "128 MiB", False, "marks"),
        (139.0, "128 MiB", False, "marks"),
        (85.0, "128 MiB", True, "streams"),
        # A filemark that no image reaches.
        (85.0, "4 GiB", False, "streams"),
        # At 21 MB/s the tape writes 47 · 256 / (47 - 21) = 463 MB between two stops of its own.
        (21.0, "256 MiB", False, "marks"),
        (21.0, "512 MiB", False, "slow"),
    ],
)
def test_filemarks_are_the_reason_if_they_stop_the_tape_first(
    tmp_path: Path, rate: float, every: str, immediate: bool, cause: str
) -> None:
    found = finding(tmp_path, rate, Tape(), filemark_every=every, immediate_filemarks=immediate)
    assert found["evidence"]["cause"] == cause


def test_copy_to_tape_is_compared_with_the_same_copy_to_disks(tmp_path: Path) -> None:
    target = ARRAY["target_name"]
    library = {"generation": "lto5", "drives": 4, "cartridges": 4, "capacity": "16 GiB"}
    tape = {
        "arrays.vtl": {"target_name": target, "model": {"kind": "none"}, "tape_library": library},
        "load.to": {"array": "vtl", "tape": {}},
    }
    disks = [Copy(rate=5.0, seconds=SECONDS), Copy(rate=5.2, seconds=SECONDS)]
    tapes = [Copy(rate=rate, seconds=SECONDS, tape=Tape(stops=2, streaming=0.1)) for rate in (5.0, 5.1)]
    points = [
        Pt({"case": "unthrottled"}, disks),
        Pt({"case": "throttled"}, [Copy(rate=20.0, seconds=SECONDS)]),
        Pt({"tape": "per-vm"}, tapes),
    ]
    run = write_run(tmp_path, points, variables=VARIABLES | {"tape": {"per-vm": tape}})
    (found,) = (f for f in summarise(run)["findings"] if f["kind"] == "tape")
    evidence = found["evidence"]
    assert evidence["cause"] == "slow" and evidence["disks"] == "p01"
    assert evidence["ratio"]["mean"] == pytest.approx(0.99, abs=0.005) and evidence["ratio"]["n"] == 2
    assert "To disks, at depth 8, the same copy has" in found["text"] and "0.990 times as much (95 %" in found["text"]
