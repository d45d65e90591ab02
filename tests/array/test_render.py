"""Output for people: sizes and durations, complaints about a pool, and no control characters."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.array.render import cache_summary, complaints, printable, rounded, serving, span

POOL: dict[str, Any] = {
    "name": "main",
    "read_only": False,
    "free_bytes": 60,
    "used_bytes": 40,
    "threshold_bytes": 70,
    "metadata_is_low": False,
    "lost_bytes": 0,
}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (12 << 30, "12 GiB"),
        (3 << 39, "1.50 TiB"),
        (1 << 50, "1,024 TiB"),
    ],
)
def test_sizes_have_three_digits(size: int, shown: str) -> None:
    assert rounded(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (7264, "2 h 1 min"), (86_400 * 3 + 7200, "3 d 2 h")],
)
def test_times_have_two_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"used_bytes": 70, "free_bytes": 30}, "past its threshold"),
        ({"used_bytes": 100, "free_bytes": 0}, "is full: grow it"),
        ({"read_only": True}, "is read-only"),
        ({"metadata_is_low": True}, "little room for metadata"),
        ({"lost_bytes": 10}, "could not reclaim"),
    ],
)
def test_pool_that_needs_attention_has_a_complaint(change: dict[str, Any], expected: str) -> None:
    lines = complaints(POOL | change)
    assert len(lines) == bool(expected)
    assert all(expected in line and line.startswith("pool main ") for line in lines)


def test_cache_line_shows_hits_and_pending_writes() -> None:
    rates = {"read_hits_per_s": 90.0, "read_misses_per_s": 10.0, "stalls_per_s": 0.0}
    counters = {"write_pending_bytes_now": 25.0, "write_pending_limit_bytes_now": 100.0}
    assert cache_summary(rates, counters) == "cache: 90% of reads hit, 25% write-pending, 0 stalls/s"
    idle = {"read_hits_per_s": 0.0, "read_misses_per_s": 0.0, "stalls_per_s": 0.0}
    through = {"write_pending_bytes_now": 0.0, "write_pending_limit_bytes_now": 0.0}
    assert cache_summary(idle, through) == "cache: no reads, write-through, 0 stalls/s"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\r\nc\u202e") == r"a\x1b[31mb\r\nc\u202e"
    about = {
        "target_name": "iqn.x\x1b]0;y\x07",
        "portals": ["127.0.0.1:3260"],
        "pid": 1,
        "lus": [],
        "state": "/tmp/\x1b[2J",
        "metrics": None,
    }
    assert "\x1b" not in "".join(serving(about))
