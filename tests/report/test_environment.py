"""The environment section has phrases with units in both languages, and no Python values."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.report.environment import rows
from hakaru.run.machine import describe_machine
from hakaru.wording import LANGUAGES, has

RUN: dict[str, Any] = {
    "run": "r-1",
    "started": "2026-11-23T10:00:00.123456+00:00",
    "ended": None,
    "versions": {"hakaru": "0.1.0", "hakaru_engine": "0.1.0"},
}
MACHINE: dict[str, Any] = {
    "cpus": 2,
    "cpu_governor": None,
    "virtual": True,
    "memory_bytes": 25276067840,
    "overcommit_memory": "0",
    "load_average": 1.48974609375,
}


def test_facts_are_phrases_with_units() -> None:
    assert rows(RUN, MACHINE, "en") == [
        ("Run", "r-1"),
        ("Started", "2026-11-23 10:00:00 UTC"),
        ("Ended", "–"),
        ("hakaru", "0.1.0"),
        ("hakaru engine", "0.1.0"),
        ("CPUs available to hakaru", "2"),
        ("CPU frequency governor", "not reported by this machine"),
        ("Virtual machine", "yes"),
        ("Memory", "23.5 GiB"),
        ("Memory overcommit", "0 (heuristic)"),
        ("Load average (1 min) at the start", "1.49"),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_fact_about_a_machine_has_a_name(language: str) -> None:
    facts = describe_machine()
    assert [name for name in facts if not has(f"environment.{name}")] == []
    shown = rows(RUN, facts, language)
    assert len(shown) == 5 + len(facts)
    assert not any(value in ("None", "True", "False") for _, value in shown)
