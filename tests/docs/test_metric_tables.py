"""The page about reports as JSON lists the metrics of loads on files and of searches of packets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hakaru.study import kind

from tests.study.shipped import shipped

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "report-json.md"
STUDIES = ("file-server", "file-server-disks", "file-server-segments", "forwarding")


def listed() -> list[re.Pattern[str]]:
    """Names in the first columns of the tables, in which words in capitals stand for others."""
    first = [line.split(" | ")[0] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    names = [name for cell in first for name in re.findall("`([^`]+)`", cell)]
    return [re.compile(re.sub("[A-Z]+", "[a-z0-9_.-]+", re.escape(name))) for name in names]


@pytest.mark.parametrize("name", STUDIES)
def test_every_metric_is_listed(name: str) -> None:
    study, patterns = shipped(name).study, listed()
    metrics = kind.of(study).metrics(study)
    assert metrics
    assert [metric for metric in metrics if not any(pattern.fullmatch(metric) for pattern in patterns)] == []
