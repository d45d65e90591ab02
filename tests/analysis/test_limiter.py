"""Limiter of a sweep: the resource that reached its limit first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise

from tests.analysis.small_run import Pt, Rep, write_run

GBIT = 125e6


def run(folder: Path, *points: tuple[int, Rep]) -> dict[str, Any]:
    """Summary of a sweep over `vms`. Each repetition has one VM, so `reads` is the total."""
    return summarise(write_run(folder, [Pt({"vms": n}, [rep] * 3) for n, rep in points]))


def rep(total: int, **more: Any) -> Rep:
    return Rep(reads=(total,) * 8, writes=(0,) * 8, vms=1, **more)


def limiter(summary: dict[str, Any]) -> dict[str, Any]:
    return next(f for f in summary["findings"] if f["kind"] == "limiter")


def test_limiter_names_full_drives_and_the_level_at_which_they_filled(tmp_path: Path) -> None:
    finding = limiter(
        run(
            tmp_path,
            (1, rep(1000, busy={"drive/0.0": 0.8, "drive/0.1": 0.7})),
            (4, rep(2000, busy={"drive/0.0": 0.985, "drive/0.1": 0.9})),
            (8, rep(2100, busy={"drive/0.0": 0.99, "drive/0.1": 0.99})),
        )
    )
    assert finding["limiter"] == "drives"
    assert finding["evidence"]["reached_at"] == 4
    assert finding["evidence"]["member"] == "drive/0.0"
    assert "99.0" in finding["text"] or "99" in finding["text"]


def test_limiter_is_the_resource_that_filled_first(tmp_path: Path) -> None:
    summary = run(
        tmp_path,
        (1, rep(1000, busy={"drive/0.0": 0.9, "controller": 0.96})),
        (4, rep(1010, busy={"drive/0.0": 0.999, "controller": 0.97})),
    )
    assert limiter(summary)["limiter"] == "controller"


BUSY = ("port/0.0", "port/0.1", "drive/0.0")


@pytest.mark.parametrize(
    ("busy", "found"),
    [
        # One port is full with one VM only, another beyond the peak, after the drives.
        (((0.99, 0.40, 0.60), (0.60, 0.85, 0.985), (0.50, 0.99, 0.99)), ("drives", 4)),
        # Both ports fill together, and now this, now that is the fullest.
        (((0.972, 0.970, 0.60), (0.970, 0.972, 0.985), (0.980, 0.990, 0.999)), ("port", 1)),
    ],
)
def test_each_port_is_a_bottleneck_of_its_own(
    tmp_path: Path, busy: tuple[tuple[float, ...], ...], found: tuple[str, int]
) -> None:
    totals = zip((1, 4, 8), (1000, 2500, 2550), busy, strict=True)
    points = [(vms, rep(total, busy=dict(zip(BUSY, each, strict=True)))) for vms, total, each in totals]
    finding = limiter(run(tmp_path, *points))
    assert (finding["limiter"], finding["evidence"]["reached_at"]) == found


def test_finding_without_a_full_resource_names_the_busiest_once(tmp_path: Path) -> None:
    finding = limiter(run(tmp_path, (1, rep(1000, busy={"drive/0.0": 0.3})), (4, rep(1010, busy={"drive/0.0": 0.31}))))
    assert finding["evidence"]["resource"] is None
    assert finding["text"].count("31") == 1 and "next" not in finding["text"], finding["text"]


def test_full_link_is_the_limiter(tmp_path: Path) -> None:
    wire = {"tx": GBIT * 0.98 * 1514 / 1538, "rx": 1e5}
    summary = run(tmp_path, (1, rep(1000, nic={"tx": GBIT / 2, "rx": 1e5})), (4, rep(2000, nic=wire)))
    assert limiter(summary)["limiter"] == "link"
    assert limiter(summary)["evidence"]["resource"] == "link/array.0/out"


def test_full_device_takes_precedence_over_the_load_generators_processor(tmp_path: Path) -> None:
    summary = run(tmp_path, (1, rep(1000, busy={"drive/0.0": 0.99}, initiator_cpu=0.97)))
    assert limiter(summary)["limiter"] == "drives"


def test_saturated_load_generator_marks_its_points_as_test_setup_limited(tmp_path: Path) -> None:
    summary = run(
        tmp_path,
        (1, rep(1000, busy={"drive/0.0": 0.2}, initiator_cpu=0.5)),
        (4, rep(2000, busy={"drive/0.0": 0.4}, initiator_cpu=0.97)),
    )
    assert limiter(summary)["limiter"] == "generator_cpu"
    assert [p["valid"] for p in summary["points"]] == [True, False]


def test_limiter_without_a_full_resource_is_undetermined_and_names_the_busiest(tmp_path: Path) -> None:
    finding = limiter(run(tmp_path, (1, rep(1000, busy={"drive/0.0": 0.2, "controller": 0.6}))))
    assert finding["limiter"] == "undetermined"
    assert finding["evidence"]["busiest"] == "controller"
    assert "undetermined" in finding["text"]


def test_limiter_without_measured_utilisation_is_undetermined(tmp_path: Path) -> None:
    finding = limiter(run(tmp_path, (1, rep(1000))))
    assert finding["limiter"] == "undetermined"
    assert finding["evidence"]["reason"] == "not_watched"


def test_device_that_is_full_only_below_the_peak_is_not_the_limiter(tmp_path: Path) -> None:
    # The controller stands for the link of the one VM: with more VMs, others carry the data, too.
    finding = limiter(
        run(
            tmp_path,
            (1, rep(1000, busy={"controller": 0.99, "drive/0.0": 0.6})),
            (4, rep(2000, busy={"controller": 0.87, "drive/0.0": 0.985})),
            (8, rep(1500, busy={"controller": 0.80, "drive/0.0": 0.99})),
        )
    )
    assert finding["limiter"] == "drives"
    assert finding["evidence"]["reached_at"] == 4
    other = tmp_path / "other"
    rises = (1, rep(1000, busy={"controller": 0.99})), (4, rep(2000, busy={"controller": 0.9}))
    assert limiter(run(other, *rises))["limiter"] == "undetermined"


def test_device_is_at_its_limit_from_where_it_stays_there(tmp_path: Path) -> None:
    busy = ((1, 1000, 0.99, 0.60), (2, 1500, 0.80, 0.985), (4, 2000, 0.97, 0.985), (8, 2010, 0.98, 0.97))
    points = [(n, rep(total, busy={"controller": c, "drive/0.0": d})) for n, total, c, d in busy]
    # The controller was full with one VM, and then not until the drives were.
    finding = limiter(run(tmp_path, *points))
    assert (finding["limiter"], finding["evidence"]["reached_at"]) == ("drives", 2)
    alone = [(n, rep(total, busy={"controller": c})) for n, total, c, _ in busy]
    finding = limiter(run(tmp_path / "alone", *alone))
    assert (finding["limiter"], finding["evidence"]["reached_at"]) == ("controller", 4)
    assert "from 4 VMs upwards" in finding["text"]


def test_invalid_peak_and_last_level_are_named_as_such(tmp_path: Path) -> None:
    rates = ((1, 1000), (2, 1960), (3, 2000), (4, 1910), (5, 1500))

    def found(folder: Path, *invalid: int) -> dict[str, str]:
        points = [(n, rep(rate, array_bytes_more=10**9 * (n in invalid))) for n, rate in rates]
        return {f["kind"]: f["text"] for f in run(folder, *points)["findings"]}

    valid = found(tmp_path / "valid")
    assert "scalability" in valid and not any("invalid" in text for text in valid.values())
    marked = found(tmp_path / "marked", 3, 5)
    assert "invalid, so the real peak may be at another level" in marked["peak"]
    assert "invalid" in marked["decline"]
    # Three valid levels are too few for a fit.
    assert "scalability" not in marked


def test_device_that_fills_beyond_the_peak_is_the_limiter(tmp_path: Path) -> None:
    finding = limiter(
        run(
            tmp_path,
            (1, rep(1000, busy={"drive/0.0": 0.5})),
            (4, rep(2000, busy={"drive/0.0": 0.96})),
            (8, rep(1500, busy={"drive/0.0": 0.995})),
        )
    )
    assert finding["limiter"] == "drives"
    assert finding["evidence"]["reached_at"] == 8
    assert "limit at 8 VMs" in finding["text"]


def test_peak_names_the_range_within_five_percent(tmp_path: Path) -> None:
    summary = run(tmp_path, (1, rep(1000)), (2, rep(1960)), (4, rep(2000)), (6, rep(1910)), (8, rep(1500)))
    peak = next(f for f in summary["findings"] if f["kind"] == "peak")
    assert peak["evidence"]["level"] == 4
    assert peak["evidence"]["near_peak"] == [2, 4, 6]
    decline = next(f for f in summary["findings"] if f["kind"] == "decline")
    assert abs(decline["evidence"]["percent"] - 25) < 1e-6


def test_only_a_growing_load_declines_and_has_a_fit(tmp_path: Path) -> None:
    """The same rates over the number of requests, and over the size of the frames."""
    rates = ((1, 1000), (2, 1960), (3, 2000), (4, 1910), (5, 1500))
    kinds = {}
    for factor, unit in (("queue_depth", 1), ("mtu", 1500)):
        folder = tmp_path / factor
        folder.mkdir()
        summary = summarise(write_run(folder, [Pt({factor: unit * n}, [rep(rate)] * 3) for n, rate in rates]))
        assert [sweep["over"] for sweep in summary["sweeps"]] == [factor]
        kinds[factor] = [finding["kind"] for finding in summary["findings"]]
    assert kinds == {"queue_depth": ["peak", "limiter", "decline", "scalability"], "mtu": ["peak", "limiter"]}


def test_peak_at_the_end_of_a_sweep_is_reported_as_such(tmp_path: Path) -> None:
    summary = run(tmp_path, (1, rep(1000)), (2, rep(2000)))
    peak = next(f for f in summary["findings"] if f["kind"] == "peak")
    assert peak["evidence"]["at_end_of_sweep"] is True
    assert "may lie beyond" in peak["text"]
    assert not any(f["kind"] == "decline" for f in summary["findings"])


def test_saturated_machine_is_reported_in_addition_to_the_limiter(tmp_path: Path) -> None:
    finding = limiter(run(tmp_path, (1, rep(1000, busy={"drive/0.0": 0.99}, machine_cpu=0.99))))
    assert finding["limiter"] == "drives"
    assert "The CPU of this machine was also 99" in finding["text"]
