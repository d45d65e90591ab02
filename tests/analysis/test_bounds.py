"""Closed forms against hand arithmetic and against an independent simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hakaru.analysis import bounds
from hakaru.analysis.bounds import Exchange, Path

from tests.analysis.small_distance import KIB, MIB, RATE_BYTES_PER_S, LoadSpec, simulate

RTT_S = 0.02
PATH = Path(1e9, 1500, RTT_S)
DEFAULTS_2009 = Exchange(
    op="write",
    request_bytes=4 * MIB,
    queue_depth=1,
    segment_bytes=8 * KIB,
    burst_bytes=256 * KIB,
    first_burst_bytes=64 * KIB,
    initial_r2t=True,
    immediate_data=False,
    command_bytes=512 * KIB,
    commands=1,
)
OPEN = replace(
    DEFAULTS_2009,
    segment_bytes=256 * KIB,
    burst_bytes=16 * MIB,
    first_burst_bytes=16 * MIB,
    initial_r2t=False,
    immediate_data=True,
)


def lowest(path: Path, exchange: Exchange, window: float | None = None) -> float:
    return bounds.bounds(path, exchange, window)[0].bytes_per_s / 1e6


def test_link_bound_subtracts_headers_of_ethernet_ip_tcp_and_iscsi() -> None:
    bound = bounds.link(PATH, replace(DEFAULTS_2009, command_bytes=None, request_bytes=8 * KIB, initial_r2t=True))
    assert bound is not None
    # A command of 8 KiB: a header of 48 bytes, then one PDU of 8 KiB with a header of 48 bytes.
    assert bound.bytes_per_s == pytest.approx(1e9 / 8 * 1448 / 1538 * 8192 / (8192 + 96))


def test_digests_count_as_headers() -> None:
    plain, digested = (
        bounds.link(PATH, e) for e in (DEFAULTS_2009, replace(DEFAULTS_2009, header_digest=True, data_digest=True))
    )
    assert plain is not None and digested is not None
    assert digested.bytes_per_s / plain.bytes_per_s == pytest.approx((524288 + 65 * 48) / (524288 + 65 * 56))


def test_default_write_of_2009_takes_three_round_trips_per_command() -> None:
    turn = bounds.command(PATH, DEFAULTS_2009, 512 * KIB)
    # Command to R2T, the first burst to the second R2T, the second burst to the response.
    assert turn.turns == 3
    assert turn.transfer_s == pytest.approx((524288 + 65 * 48) / RATE_BYTES_PER_S)
    assert turn.seconds == pytest.approx(3 * RTT_S + turn.transfer_s)
    assert lowest(PATH, DEFAULTS_2009) == pytest.approx(0.524288 / turn.seconds)


def test_unsolicited_write_takes_one_round_trip() -> None:
    assert bounds.command(PATH, OPEN, 512 * KIB).turns == 1
    assert lowest(PATH, OPEN) / lowest(PATH, DEFAULTS_2009) == pytest.approx(64.48 / 24.46, rel=1e-3)


def test_immediate_data_shortens_a_burst_but_saves_no_round_trip() -> None:
    exchange = replace(DEFAULTS_2009, immediate_data=True)
    assert exchange.unsolicited(512 * KIB) == 8 * KIB
    assert exchange.bursts(512 * KIB) == [256 * KIB, 248 * KIB]
    assert bounds.command(PATH, exchange, 512 * KIB).turns == 3


@pytest.mark.parametrize(("r2ts", "turns"), [(1, 9), (2, 5), (4, 3), (8, 2)])
def test_outstanding_r2ts_share_a_round_trip(r2ts: int, turns: int) -> None:
    """Eight bursts, `r2ts` of them per round trip, and one round trip for the response."""
    turn = bounds.command(PATH, replace(DEFAULTS_2009, outstanding_r2ts=r2ts), 2 * MIB)
    burst_s = 262144 / RATE_BYTES_PER_S
    assert turn.turns * RTT_S == pytest.approx(turns * RTT_S, abs=8 * burst_s)
    simulated = simulate(LoadSpec(RTT_S, request=2 * MIB, command=2 * MIB, r2ts=r2ts))
    assert 2 * MIB / 1e6 / turn.seconds == pytest.approx(simulated.mb_per_s, rel=2e-3)


def test_reads_take_one_round_trip_and_their_transfer() -> None:
    exchange = replace(DEFAULTS_2009, op="read", segment_bytes=128 * KIB)
    turn = bounds.command(PATH, exchange, 512 * KIB)
    assert turn.seconds == pytest.approx(RTT_S + (524288 + 4 * 48) / RATE_BYTES_PER_S)


def test_window_bound_is_window_over_round_trip_time() -> None:
    assert lowest(PATH, replace(OPEN, commands=32, queue_depth=8), 1e6) == pytest.approx(50)
    assert bounds.window(replace(PATH, rtt_s=0.0), 1e6) is None


def test_path_without_a_rate_has_no_link_bound() -> None:
    path = Path(None, 1500, RTT_S)
    assert [b.name for b in bounds.bounds(path, DEFAULTS_2009)] == ["turns"]
    assert lowest(path, DEFAULTS_2009) == pytest.approx(0.524288 / 0.06)


def test_path_without_delay_is_bounded_by_its_link() -> None:
    assert bounds.bounds(Path(1e9, 1500, 0.0), OPEN)[0].name == "link"


CASES: list[dict[str, Any]] = [
    {"command": 512 * KIB, "lanes": 1},
    {"command": 512 * KIB, "lanes": 8},
    {"command": 512 * KIB, "lanes": 3},
    {"command": 4 * MIB, "lanes": 1},
    {"command": 1280 * KIB, "lanes": 32},
    {"command": 512 * KIB, "lanes": 1, "unsolicited": 16 * MIB},
    {"command": 512 * KIB, "lanes": 8, "unsolicited": 16 * MIB},
    {"command": 512 * KIB, "lanes": 1, "unsolicited": 64 * KIB},
    {"command": 512 * KIB, "lanes": 1, "r2ts": 2},
    {"command": 512 * KIB, "lanes": 32, "depth": 4, "unsolicited": 16 * MIB},
    {"command": 512 * KIB, "lanes": 4, "depth": 4},
    {"command": 512 * KIB, "lanes": 1, "op": "read"},
    {"command": 512 * KIB, "lanes": 8, "op": "read"},
]


@pytest.mark.parametrize("rtt_ms", [1, 5, 20, 80])
@pytest.mark.parametrize("case", CASES, ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()))
def test_no_simulated_load_beats_its_bound(case: dict[str, Any], rtt_ms: int) -> None:
    spec = LoadSpec(rtt_ms / 1e3, **case)
    exchange = Exchange(
        op=spec.op,
        request_bytes=spec.request,
        queue_depth=spec.depth,
        segment_bytes=spec.segment,
        burst_bytes=spec.burst,
        first_burst_bytes=spec.unsolicited or 64 * KIB,
        initial_r2t=not spec.unsolicited,
        immediate_data=False,
        outstanding_r2ts=spec.r2ts,
        command_bytes=spec.command,
        commands=spec.lanes,
    )
    simulated, bound = simulate(spec, 40 * spec.depth**2).mb_per_s, lowest(Path(1e9, 1500, spec.rtt_s), exchange)
    assert simulated <= bound * 1.001
    # The bound is exact for commands in sequence, but not for commands that share the link.
    if spec.lanes == 1 and spec.depth == 1:
        assert simulated >= bound * 0.999
    elif spec.unsolicited or spec.op == "read":
        assert simulated >= bound * 0.95


def test_each_command_waits_for_the_devices_as_well() -> None:
    """Eight commands, two at a time: four in a row, each with 3 ms in the devices."""
    two = replace(DEFAULTS_2009, commands=2)
    idle, busy = bounds.turns(PATH, two), bounds.turns(PATH, two, device_s=0.003)
    assert idle is not None and busy is not None
    assert busy.numbers["seconds"] - idle.numbers["seconds"] == pytest.approx(4 * 0.003)
    deep = bounds.turns(PATH, replace(two, queue_depth=4), device_s=0.003)
    assert deep is not None
    assert deep.bytes_per_s == pytest.approx(
        2 * 512 * KIB / (deep.numbers["turns"] * RTT_S + deep.numbers["transfer_s"] + 0.003)
    )
