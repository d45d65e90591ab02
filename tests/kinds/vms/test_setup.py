"""Setup of a point from study.json: round trip, negotiated keys, buffers."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.kinds.vms.analysis import setup
from hakaru.kinds.vms.analysis.setup import Setup, of_negotiated
from hakaru.study import of_described

from tests.analysis.run_files import complete
from tests.analysis.small_distance import ERA, KIB, LAB, MIB, OPEN, PATTERN, VARIABLES, factors
from tests.study.shipped import shipped

STUDY: dict[str, Any] = {
    "id": "far",
    "lab": LAB,
    "load": {
        "kind": "vms",
        "iscsi": ERA,
        "columns": [[0]],
        "patterns": {
            "write-4m": PATTERN,
            "read-4m": PATTERN | {"read_percent": 100},
            "mixed": PATTERN | {"read_percent": 50},
        },
    },
    "variables": VARIABLES,
}


def setup_at(study: dict[str, Any], factors: dict[str, Any], *, site: bool = False) -> Setup:
    described = of_described(complete(study))
    return setup.setup_at(described, described.at(factors), site=site)


def at(**more: Any) -> Setup:
    return setup_at(STUDY, factors(**more))


def test_round_trip_is_twice_the_delays_of_the_path() -> None:
    assert at(rtt_ms=20).rtt_s == pytest.approx(0.02)
    both = {k: v | {"delay": "3 ms"} for k, v in LAB["links"].items()}
    assert setup_at(STUDY | {"lab": LAB | {"links": both}}, {}).rtt_s == pytest.approx(0.012)


def test_login_negotiates_the_smaller_length_and_the_stricter_rule() -> None:
    exchange = at().exchange
    assert exchange is not None
    assert (exchange.burst_bytes, exchange.first_burst_bytes) == (256 * KIB, 64 * KIB)
    assert (exchange.initial_r2t, exchange.immediate_data) == (True, False)
    assert (exchange.segment_bytes, exchange.command_bytes, exchange.commands) == (8 * KIB, 512 * KIB, 1)
    assert exchange.unsolicited(512 * KIB) == 0
    opened = at(settings="parameters").exchange
    assert opened is not None
    assert opened.unsolicited(512 * KIB) == 512 * KIB
    assert OPEN["load.iscsi.target.initial_r2t"] is False


def test_reads_use_the_reverse_path_and_the_initiators_segments() -> None:
    point_setup = setup_at(STUDY, factors() | {"pattern": "read-4m"})
    assert point_setup.exchange is not None
    assert (point_setup.exchange.op, point_setup.exchange.segment_bytes) == ("read", 128 * KIB)
    assert [(h.source, h.target) for h in point_setup.hops("read")] == [("array", "wan"), ("wan", "host")]


def test_negotiated_values_replace_the_configured_ones() -> None:
    agreed = {
        "max_burst_length": 65536,
        "initial_r2t": False,
        "peer_max_recv_data_segment_length": 4096,
        "immediate_data": None,
    }
    agreed_setup = of_negotiated(at(), agreed)
    assert agreed_setup.exchange is not None
    assert (
        agreed_setup.exchange.burst_bytes,
        agreed_setup.exchange.initial_r2t,
        agreed_setup.exchange.segment_bytes,
    ) == (
        65536,
        False,
        4096,
    )
    assert agreed_setup.exchange.immediate_data is False
    reads = of_negotiated(setup_at(STUDY, factors() | {"pattern": "read-4m"}), agreed)
    assert reads.exchange is not None
    assert reads.exchange.segment_bytes == 128 * KIB


def test_window_is_twice_the_receiver_s_buffer_or_its_automatic_limit() -> None:
    assert at().window_bytes("write") == 4 * MIB
    assert at(settings="optimised").window_bytes("write") == 16 * MIB
    study = STUDY | {"load": STUDY["load"] | {"iscsi": ERA | {"target": {"socket": {"receive_buffer": "64 KiB"}}}}}
    assert setup_at(study, factors()).window_bytes("write") == 128 * KIB
    today = STUDY | {"lab": LAB | {"tcp": {"stack": "today"}}}
    assert setup_at(today, factors()).window_bytes("write") is None


def test_mixed_loads_have_no_closed_form() -> None:
    assert at(pattern="mixed").exchange is None
    assert at(pattern="mixed").bounds() == []


def test_bounds_of_turns_and_windows_scale_with_vms() -> None:
    one_vm, four_vms = at(), at(vms=4)
    alone = {b.name: b.bytes_per_s for b in one_vm.bounds()}
    together = {b.name: b.bytes_per_s for b in four_vms.bounds()}
    assert together["turns"] == pytest.approx(4 * alone["turns"])
    assert together["window"] == pytest.approx(4 * alone["window"])
    assert together["link"] == pytest.approx(alone["link"])


def test_ways_of_different_lengths_have_no_closed_form_with_a_round_trip() -> None:
    """Of a near and a far host, the far one's round trip does not bound the near one's rate."""
    near, far = LAB["links"]["host"], LAB["links"]["host"] | {"between": ["far", "wan"], "delay": "20 ms"}
    links = LAB["links"] | {"host": near, "far": far}
    study = STUDY | {"lab": LAB | {"hosts": ["host", "far"], "links": links}, "variables": {}}
    point_setup = setup_at(study, factors(vms=2))
    assert point_setup.path is not None and point_setup.path.ways_differ
    assert (point_setup.rtt_s, point_setup.common_rtt_s) == (pytest.approx(0.04), 0.0)
    assert [bound.name for bound in point_setup.bounds()] == ["link"]
    assert point_setup.turns(0.001) is None
    alike = setup_at(study | {"lab": study["lab"] | {"links": links | {"host": near | {"delay": "20 ms"}}}}, factors())
    assert alike.path is not None and not alike.path.ways_differ
    assert {bound.name for bound in alike.bounds()} == {"link", "turns", "window"}


def test_star_has_a_path_and_closed_forms() -> None:
    lab = {"hosts": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "100 Mbit/s"}}
    point_setup = setup_at(STUDY | {"lab": lab, "variables": {}}, factors(vms=2))
    assert point_setup.hosts == ("host-1", "host-2")
    assert point_setup.path is not None and point_setup.path.rate_bits_per_s == 100e6
    assert [(h.source, h.target) for h in point_setup.hops("read")][:2] == [("array", "switch"), ("switch", "host-1")]


def test_site_has_no_path() -> None:
    point_setup = setup_at(STUDY, factors(), site=True)
    assert (point_setup.path, point_setup.hops("read"), point_setup.bounds()) == (None, (), [])


def test_shipped_study_has_the_closed_forms_of_its_readme() -> None:
    loaded = shipped("long-distance")
    lowest_bounds = {}
    for factor, level, depth in (
        ("settings", "default-2009", 1),
        ("settings", "parameters", 1),
        ("settings", "socket-buffer", 1),
        ("settings", "socket-buffer", 8),
        ("initiator", "open-iscsi-2009", 1),
        ("initiator", "linux-iscsi", 1),
        ("initiator", "open-iscsi-today", 1),
    ):
        at_point = {"pattern": "write-4m", "vms": 1, factor: level, "rtt": "20 ms", "queue_depth": depth}
        lowest = setup.setup_at(loaded.study, loaded.study.at(at_point)).bounds()[0]
        lowest_bounds[level, depth] = (lowest.name, round(lowest.bytes_per_s / 1e6, 1))
    assert lowest_bounds == {
        ("default-2009", 1): ("turns", 16.3),
        ("parameters", 1): ("turns", 42.9),
        ("socket-buffer", 1): ("turns", 75.4),
        ("socket-buffer", 8): ("link", 117.7),
        ("open-iscsi-2009", 1): ("turns", 65.0),
        ("linux-iscsi", 1): ("turns", 65.0),
        ("open-iscsi-today", 1): ("turns", 11.2),
    }
