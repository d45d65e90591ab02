"""Of several caveats of one name, the worst is kept: by its deciding value, and for each place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import sentences, summarise
from hakaru.caveats import CAVEATS, Caveat, worst_of_each
from hakaru.report import render
from hakaru.report.points_table import print_summary

from tests.analysis.small_run import Pt, Rep, write_run


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [
        (
            "never_steady",
            {"seconds": 300.0, "range_percent": 21.0, "drift_percent": 5.0},
            {"seconds": 300.0, "range_percent": 80.0, "drift_percent": 40.0},
        ),
        (
            "littles_law",
            {"percent": 6.0, "outstanding": 900.0, "product": 846.0},
            {"percent": 40.0, "outstanding": 10.0, "product": 6.0},
        ),
        (
            "bytes_not_conserved",
            {"kind": "read", "initiator": 9e9, "array": 9e9 + 1},
            {"kind": "write", "initiator": 1e6, "array": 2e6},
        ),
        ("fabric_lost", {"lost": 1, "dropped": 90_000}, {"lost": 50, "dropped": 60_000}),
        ("wire_bytes", {"wire_mb_per_s": 105, "payload_mb_per_s": 100}, {"wire_mb_per_s": 30, "payload_mb_per_s": 60}),
        ("total_not_sum", {"total": 9e6, "sum": 9e6 - 1}, {"total": 100.0, "sum": 50.0}),
        ("window_not_covered", {"percent": 89.0}, {"percent": 20.0}),
        ("too_short_to_judge", {"samples": 4}, {"samples": 1}),
        ("warmup_short", {"warmup_ms": 90.0, "latency_ms": 100.0}, {"warmup_ms": 0.0, "latency_ms": 95.0}),
        ("losses_unlocated", {"frames": 10, "lost": 9000}, {"frames": -20, "lost": 100}),
        ("tcp_series_incomplete", {"records": 5, "events": 3}, {"records": 5, "events": 9}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_deciding_value_chooses_the_worst(name: str, better: dict[str, Any], worse: dict[str, Any]) -> None:
    both = [Caveat(name, better), Caveat(name, worse)]
    assert worst_of_each(both) == worst_of_each(both[::-1]) == [both[1]]


def test_values_that_an_older_run_lacks_do_not_matter() -> None:
    assert worst_of_each([Caveat("noisy"), Caveat("noisy", {"percent": 7.0})]) == [Caveat("noisy", {"percent": 7.0})]
    assert worst_of_each([Caveat("clock_stepped")] * 2) == [Caveat("clock_stepped")]


def test_every_place_is_kept_with_its_worst_caveat() -> None:
    def off(link: str, percent: float) -> Caveat:
        return Caveat("link_off_rate", {"link": link, "measured": "9 Mbit/s", "asked": "10 Mbit/s", "percent": percent})

    assert worst_of_each([off("a", 3.0), off("b", 2.0), off("a", 4.0), off("b", 1.0)]) == [off("a", 4.0), off("b", 2.0)]


def test_every_caveat_with_numbers_of_its_own_has_a_size() -> None:
    """A caveat without a size keeps the first of several, so its values may not be numbers that
    differ between repetitions.
    """
    unsized = {name for name, kind in CAVEATS.items() if kind.size({}) == ()}
    assert unsized == {
        *("link_unchecked", "not_expendable", "clock_stepped", "no_data", "published_differs"),  # no values
        *("cpu_emulated", "guest_failed", "load_unanswered", "device_failed", "event_missed"),  # words only
        *("cpu_shared", "warm_up_idle", "warm_up_unjudged"),  # the same in all repetitions, and words
        *("goal_not_monotone", "goal_unfinished", "goal_tester_limit", "precision_unknown"),  # once per run or point
    }


def test_error_in_a_caveat_is_translated_for_japanese_reports() -> None:
    """Runs keep errors in English."""
    emulated = Caveat("cpu_emulated", {"reason": "this machine has no /dev/kvm"})
    assert "because this machine has no /dev/kvm." in sentences.caveat("en", emulated)
    assert "このマシンに /dev/kvm がない" in sentences.caveat("ja", emulated)
    unknown = Caveat("device_failed", {"error": "an error of the kernel"})
    assert "an error of the kernel" in sentences.caveat("ja", unknown)


@pytest.fixture
def run_of_two_links(tmp_path: Path) -> Path:
    """Return a run of one point, two of whose links are not as asked."""
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 3)])
    for file in (run / "repetitions").iterdir():
        off = [
            Caveat("link_off_rate", {"link": link, "measured": rate, "asked": "1 Gbit/s", "percent": percent}).to_json()
            for link, rate, percent in (("east", "970.0 Mbit/s", 3.0), ("west", "950.0 Mbit/s", 5.0))
        ]
        file.write_text(json.dumps(json.loads(file.read_text()) | {"caveats": off}))
    return run


def test_report_and_terminal_name_every_link_that_is_not_as_asked(
    run_of_two_links: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = summarise(run_of_two_links)
    texts = [c["text"] for c in summary["points"][0]["caveats"]]
    assert len(texts) == 2 and "Link east" in texts[0] and "Link west" in texts[1]
    print_summary(summary, [])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"1 link_off_rate: {text}" in shown for text in texts)
    render(run_of_two_links, ["html"], ["en"], tmp_path / "report")
    (page,) = (tmp_path / "report").glob("*.html")
    html = page.read_text()
    assert "Link east was set to" in html and "Link west was set to" in html
    assert html.count('id="caveat-a"') == 1
