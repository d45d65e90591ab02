"""The table of `make calibrate`: judgements at the limits of the goals, and parsing of the tests in
virtual time.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    """Import bench/calibration.py, which is a script's module and not part of a package."""
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module("calibration")
    finally:
        sys.path.remove(str(BENCH))


def cell(p50_us: float, p99_us: float, **more: Any) -> dict[str, Any]:
    """Return the result of a cell in which the observer saw 100 µs and 1000 µs."""
    return {
        "array": "memory",
        "op": "read",
        "bytes": 4096,
        "depth": 1,
        "initiator": {"n": 1000, "p50_us": p50_us, "p99_us": p99_us, "served_us": 1000.0},
        "observer": {"n": 1000, "p50_us": 100.0, "p99_us": 1000.0, "served_us": 1000.0},
        "dropped": 0.0,
        "errors": 0.0,
    } | more


@pytest.mark.parametrize(
    ("p50_us", "p99_us", "within"),
    [
        (100.0, 1000.0, [True, True]),
        (102.9, 1049.0, [True, True]),
        (103.1, 1051.0, [False, False]),
        (97.1, 951.0, [True, True]),
        (96.9, 949.0, [False, False]),
    ],
)
def test_error_is_judged_by_both_parts_of_the_goal(
    calibration: ModuleType, p50_us: float, p99_us: float, within: list[bool]
) -> None:
    assert [row.within for row in calibration.latency_rows(cell(p50_us, p99_us))] == [*within, True]


@pytest.mark.parametrize("fault", [{"dropped": 1.0}, {"errors": 1.0}, {"observer": {"n": 999}}])
def test_incomplete_comparison_is_outside_the_goal(calibration: ModuleType, fault: dict[str, Any]) -> None:
    whole = cell(100.0, 1000.0)
    if "observer" in fault:
        fault = {"observer": whole["observer"] | fault["observer"]}
    assert not any(row.within for row in calibration.latency_rows(whole | fault))


def test_row_of_a_test_is_the_comparison_closest_to_its_tolerance(calibration: ModuleType) -> None:
    output = (
        "running 3 tests\n"
        "test a_rate_is_exact ... calibration: 100 100 1\ncalibration: 51 50 2\nok\n"
        "test nothing_is_compared ... ok\n"
        "test a_delay_is_exact ... calibration: 7 7 0\nok\n"
    )
    rate, delay = calibration.rows_of_tests("fabric", output)
    assert (rate.case, rate.n, rate.measured, rate.error, rate.within) == ("a rate is exact", 2, "51", "2 %", True)
    assert (delay.case, delay.goal, delay.within) == ("a delay is exact", "0 %", True)


def test_table_marks_and_counts_rows_outside_their_goals(calibration: ModuleType) -> None:
    rows = calibration.latency_rows(cell(100.0, 2000.0))
    lines = calibration.table(rows).splitlines()
    assert lines[2].endswith("| yes |") and lines[3].endswith("| **no** |")
    assert "| latency p99, reads | 0 | 1 |" in calibration.summary(rows)


def test_programs_of_the_models_exist(calibration: ModuleType) -> None:
    """Cargo refuses the name of a program that does not exist, so the table would lack its rows."""
    crates = BENCH.parent / "crates"
    for crate, (program, _) in calibration.MODELS.items():
        tests = crates / crate / "tests"
        assert (tests / f"{program}.rs").is_file() or (tests / program / "main.rs").is_file(), crate
