"""Rules of thumb for disks."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pytest
from hakaru.analysis.counters import Counters
from hakaru.analysis.rule_book import BOOK, GaugeValues, judge, of_repetition
from hakaru.analysis.rule_book.book import read
from hakaru.wording import LANGUAGES, say

S = 1_000_000_000
WINDOW = (0, 2 * S)

Row = tuple[str, str, str, str, float]


def counters(*rows: Row, drive_interval_ns: int = S, guests: Collection[str] = ()) -> Counters:
    """Counters from rows of node, engine, entity, name and growth over two seconds. A gauge
    (`_now`) has its value all the time.
    """
    table = [
        {"node": n, "engine": e, "entity": t, "name": c, "at_ns": at, "value": v if "_now" in c else v * at / (2 * S)}
        for n, e, t, c, v in rows
        for at in range(0, 2 * S + 1, drive_interval_ns if t.startswith("drive/") else S)
    ]
    return Counters.of_table(pa.Table.from_pylist(table), guests)


def array(node: str, entity: str, **growth: float) -> list[Row]:
    return [(node, "array", entity, name, value) for name, value in growth.items()]


def test_gauges_of_an_array_follow_from_its_counters() -> None:
    # 1000 requests in 2 s that took 20 s together: 20 ms each, 10 present, at four drives.
    rows = array("array", "group/0", ops=1000, queue_ns=20 * S)
    for drive, busy_s in enumerate((0.8, 0.8, 0.9, 0.9)):
        rows += array("array", f"drive/0.{drive}", busy_ns=busy_s * S, queue_ns=(2 + drive) * 2 * S)
    rows += array("array", "controller", busy_ns=1.22 * S)
    rows += array("array", "cache", stalls=5, writes=200)
    rows += array("array", "cache", write_pending_bytes_now=11.0, write_pending_limit_bytes_now=50.0)
    assert of_repetition(counters(*rows), WINDOW) == {
        "response_ms": {"group/0": pytest.approx(20)},
        "queue_per_drive": {"group/0": pytest.approx(2.5)},
        "drive_busy_percent": {"group/0": pytest.approx(42.5)},
        "commands_per_drive": {"group/0": pytest.approx(5)},
        "controller_busy_percent": {"controller": pytest.approx(61)},
        "write_waits_percent": {"cache": pytest.approx(2.5)},
        "write_pending_percent": {"cache": pytest.approx(22)},
    }


def test_drive_with_parts_is_as_busy_as_the_busiest_of_them() -> None:
    rows = array("array", "group/0", ops=1000, queue_ns=20 * S)
    rows += array("array", "drive/0.0", busy_ns=2 * S, controller_busy_ns=0.5 * S, dies_busy_ns=0.8 * S, queue_ns=S)
    assert of_repetition(counters(*rows), WINDOW)["drive_busy_percent"] == {"group/0": pytest.approx(40)}


def test_no_more_writes_wait_than_there_are() -> None:
    rows = array("array", "cache", stalls=203, writes=200)
    assert of_repetition(counters(*rows), WINDOW) == {"write_waits_percent": {"cache": 100.0}}


def test_gauges_do_not_depend_on_the_interval_of_the_drives() -> None:
    rows = array("array", "group/0", ops=1000, queue_ns=20 * S)
    for drive in range(2):
        rows += array("array", f"drive/0.{drive}", busy_ns=(1 + drive) * S / 2, queue_ns=drive * S)
    seldom = of_repetition(counters(*rows), WINDOW)
    assert seldom["drive_busy_percent"] == {"group/0": pytest.approx(37.5)}
    assert of_repetition(counters(*rows, drive_interval_ns=S // 5), WINDOW) == seldom


def test_gauges_of_a_hosts_disk_and_of_two_arrays_have_their_own_names() -> None:
    rows = [*array("primary", "group/0", ops=100, queue_ns=S), *array("vtl", "group/0", ops=100, queue_ns=3 * S)]
    for name, growth in {"reads": 10, "writes": 30, "busy_ns": S, "read_latency_ns_sum": 0.1 * S}.items():
        rows.append(("server", "watch", "disk/sda", name, growth))
    rows.append(("server", "watch", "disk/sda", "write_latency_ns_sum", 0.7 * S))
    gauges = of_repetition(counters(*rows), WINDOW)
    assert gauges["response_ms"] == {
        "group/primary.0": pytest.approx(10),
        "group/vtl.0": pytest.approx(30),
        "disk/sda/server": pytest.approx(20),
    }
    assert gauges["drive_busy_percent"] == {"disk/sda/server": pytest.approx(50)}


def test_disk_of_a_guest_is_judged_by_its_response_time_and_its_queue_against_the_drives() -> None:
    rows = [row for drive in range(4) for row in array("array", f"drive/0.{drive}", busy_ns=S, queue_ns=S)]
    for node in ("server", "array"):
        for name, growth in {"reads": 40, "busy_ns": 2 * S, "read_latency_ns_sum": 4 * S, "queue_ns": 20 * S}.items():
            rows.append((node, "watch", "disk/sda", name, growth))
        for name in ("writes", "write_latency_ns_sum"):
            rows.append((node, "watch", "disk/sda", name, 0.0))
    gauges = of_repetition(counters(*rows, guests=["server"]), WINDOW)
    assert gauges["response_ms"] == {f"disk/sda/{node}": pytest.approx(100) for node in ("server", "array")}
    # 10 requests at four drives. Those behind the disk of this machine are others.
    assert gauges["queue_per_drive"] == {"disk/sda/server": pytest.approx(2.5)}
    # A busy LU does not make its drives busy.
    assert gauges["drive_busy_percent"] == {"disk/sda/array": pytest.approx(100)}
    judged = {each.rule.rule: each for each in judge(BOOK, [gauges])}
    assert (judged["queue_length"].device, judged["queue_length"].outcome) == ("disk/sda/server", "above")
    # It may be on either of two groups.
    rows += array("array", "drive/1.0", busy_ns=S, queue_ns=S)
    assert "queue_per_drive" not in of_repetition(counters(*rows, guests=["server"]), WINDOW)


def outcomes(gauges: GaugeValues) -> dict[str, tuple[str, str | None]]:
    return {judged.rule.rule: (judged.outcome, judged.by) for judged in judge(BOOK, [gauges])}


def test_a_long_queue_is_overridden_by_a_fine_response_time() -> None:
    # The authors saw a queue above its range and a response time that was fine: no bottleneck.
    fine = outcomes({"response_ms": {"group/0": 20}, "queue_per_drive": {"group/0": 2.5}})
    assert fine == {"response_time": ("fine", None), "queue_length": ("overridden", "response_time")}
    slow = outcomes({"response_ms": {"group/0": 51}, "queue_per_drive": {"group/0": 2.5}})
    assert slow == {"response_time": ("above", None), "queue_length": ("above", None)}


def test_only_the_same_device_overrides() -> None:
    other = outcomes({"response_ms": {"group/1": 20}, "queue_per_drive": {"group/0": 2.5}})
    assert other["queue_length"] == ("above", None)
    worst = outcomes({"response_ms": {"group/0": 60, "group/1": 20}, "queue_per_drive": {"group/0": 1, "group/1": 3}})
    assert worst == {"response_time": ("above", None), "queue_length": ("overridden", "response_time")}


def test_a_device_above_its_limit_is_shown_before_an_overridden_one() -> None:
    gauges: GaugeValues = {
        "response_ms": {"group/0": 30, "group/1": 80},
        "queue_per_drive": {"group/0": 5, "group/1": 3},
    }
    judged = {each.rule.rule: each for each in judge(BOOK, [gauges])}
    assert (judged["queue_length"].device, judged["queue_length"].outcome) == ("group/1", "above")


@pytest.mark.parametrize(("queue", "outcome"), [(1.5, "fine"), (1.51, "at_limit"), (2, "at_limit"), (2.01, "above")])
def test_a_limit_is_a_range(queue: float, outcome: str) -> None:
    assert outcomes({"queue_per_drive": {"group/0": queue}}) == {"queue_length": (outcome, None)}


def test_published_values_were_judged_to_be_fine() -> None:
    published: dict[str, float] = {
        "drive_busy_percent": 44,
        "commands_per_drive": 15,
        "write_waits_percent": 0,
        "write_pending_percent": 11,
        "controller_busy_percent": 61,
    }
    gauges = {gauge: {"device": value} for gauge, value in published.items()}
    assert {outcome for outcome, _ in outcomes(gauges).values()} == {"fine", "shown"}  # type: ignore[arg-type]


def test_headroom_is_the_published_range() -> None:
    for busy, expected in ((41, 1.5), (44, 1.8)):
        (judged,) = judge(BOOK, [{"drive_busy_percent": {"group/0": busy}}])
        assert judged.headroom is not None
        assert min(abs(bound - expected) for bound in judged.headroom) < 0.02
    for busy in (0.0, 0.007, 4.9):
        (idle,) = judge(BOOK, [{"drive_busy_percent": {"group/0": busy}}])
        assert idle.headroom is None


def test_values_are_means_over_repetitions_with_an_interval() -> None:
    (judged,) = judge(BOOK, [{"response_ms": {"group/0": ms}} for ms in (40.0, 44.0, 48.0)])
    assert (judged.value.mean, judged.value.n, judged.value.unit) == (44.0, 3, "ms")
    assert judged.value.low is not None and judged.value.low < 40


def test_points_without_such_counters_have_no_judgements() -> None:
    assert judge(BOOK, []) == judge(BOOK, [{}]) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_rule_has_its_texts(language: str) -> None:
    for rule in BOOK:
        assert say(language, f"rule_book.{rule.rule}")
        assert say(language, f"rule_book.source.{rule.source}")


RULE = "{rule: a, gauge: response_ms, source: hitachi-2010"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"[{RULE}, limit: [2, 1]}}]", "the lower bound comes first"),
        (f"[{RULE}, headroom: true}}]", "need a `limit`"),
        (f"[{RULE}}}, {RULE}}}]", "the rule a is there twice"),
        (f"[{RULE}, limit: [1, 2], overridden_by: b}}]", "which does not stand before it"),
        (f"[{RULE}, gauges: x}}]", "Extra inputs are not permitted"),
        ("[{rule: a, gauge: speed, source: hitachi-2010}]", "Input should be 'response_ms'"),
    ],
)
def test_a_wrong_rule_book_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("[", r"\[")):
        read(text)
