"""Entries of the findings: one per point, or one per bottleneck in a run with many points."""

from __future__ import annotations

from typing import Any

from hakaru.report.findings import EACH_MAX, rows
from hakaru.report.point_names import names

LEVELS = [f"{ms} ms" for ms in range(EACH_MAX + 1)]


def finding(limiter: str, kind: str = "limiter", **where: Any) -> dict[str, Any]:
    text = f"{where}: {limiter}"
    return {"kind": kind, "where": where, "limiter": limiter, "text": text, "text_ja": text, "evidence": {}}


def shown(findings: list[dict[str, Any]], resources: dict[str, str] | None = None) -> list[dict[str, Any]]:
    points = [{"factors": f["where"], "resource": (resources or {}).get(f["where"].get("rtt"))} for f in findings]
    return rows({"findings": findings, "points": points}, "en")


def test_few_bottlenecks_have_an_entry_each() -> None:
    entries = shown([finding("link", rtt=level) for level in LEVELS[:-1]])
    assert len(entries) == EACH_MAX
    assert not any(entry["places"] for entry in entries)


def test_points_with_the_same_bottleneck_share_an_entry() -> None:
    (only,) = shown([finding("link", settings="a", rtt=level) for level in LEVELS])
    assert only["text"] == "{'settings': 'a', 'rtt': '0 ms'}: link"
    assert only["places"] == [f"a: {', '.join(LEVELS[1:])}"]


def test_numbers_of_a_shared_entry_stand_for_no_other_point() -> None:
    links, depths = ([finding(limiter, settings=limiter, rtt=level) for level in LEVELS] for limiter in ("a", "b"))
    for entry in (links[0], depths[0]):
        entry["text"] += ". The measured rate is 118 MB/s."
    first, second = shown(links + depths)
    assert first["text"].endswith(": a. The measured rate is 118 MB/s.")
    assert second["text"].endswith(": b. The measured rate is 118 MB/s.")


def test_bottlenecks_at_different_resources_have_an_entry_each() -> None:
    findings = [finding(("link", "depth")[i % 2], rtt=level) for i, level in enumerate(LEVELS)]
    assert [entry["text"].split(": ")[-1] for entry in shown(findings)] == ["link", "depth"]
    links = [finding("link", rtt=level) for level in LEVELS]
    resources = dict.fromkeys(LEVELS, "link/in") | {"2 ms": "link/out"}
    assert [entry["text"] for entry in shown(links, resources)] == [f["text"] for f in (links[0], links[2])]


def test_other_findings_stay_as_they_are() -> None:
    gains = [finding("", "gain", rtt=level) for level in LEVELS]
    entries = shown(gains + [finding("link", rtt=level) for level in LEVELS])
    assert [entry["text"] for entry in entries[: len(gains)]] == [g["text"] for g in gains]


def test_names_of_points_that_differ_in_one_factor_are_joined() -> None:
    points = [
        {"settings": "a", "rtt": "1 ms"},
        {"settings": "a", "rtt": "5 ms"},
        {"settings": "b", "rtt": "5 ms"},
        {"settings": "c"},
        {"settings": "c", "rtt": "5 ms"},
    ]
    assert names(points, "en") == ["a: 1 ms, 5 ms", "b, 5 ms", "c", "c, 5 ms"]
    assert names(points[:2], "ja") == ["a：1 ms、5 ms"]
