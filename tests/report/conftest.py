"""The reports of the invented run, rendered once for all worker processes of the tests."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hakaru.report import render
from hakaru.report.charts import render as drawing
from hakaru.wording import LANGUAGES


@dataclass(frozen=True)
class Reports:
    """Files of a run's report."""

    paths: dict[str, Path]
    """File name → path of every format and language."""
    complaints: list[str]
    """Warnings about its pages on paper."""


@pytest.fixture(scope="session", autouse=True)
def charts_drawn_once() -> Iterator[None]:
    """Let the renderer draw each chart once in a process, because drawing takes most of the time of
    a report, and many reports are those of equal runs.
    """
    renderer, drawn = drawing.vl_convert, dict[str, str]()
    draw = renderer.vegalite_to_svg

    def remembered(spec: dict[str, Any]) -> str:
        key = json.dumps(spec)
        if key not in drawn:
            drawn[key] = draw(spec)
        return drawn[key]

    with patch.object(renderer, "vegalite_to_svg", remembered):
        yield


class Listener(logging.Handler):
    """Keeps the messages that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage()[:200])


@pytest.fixture(scope="session")
def invented_reports(invented_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Render the reports of the invented run. The first process that needs them does; the others
    wait.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    out, complaints = shared / "invented-report", shared / "invented-report.json"
    with (shared / "invented-report.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complaints.exists():
            logger, listener = logging.getLogger("weasyprint"), Listener()
            logger.addHandler(listener)
            try:
                render(invented_run, ["html", "pdf", "json"], LANGUAGES, out)
            finally:
                logger.removeHandler(listener)
            complaints.write_text(json.dumps(listener.messages))
    return Reports({path.name: path for path in out.iterdir()}, json.loads(complaints.read_text()))
