"""Tests marked `alone` are repeated if they fail while the host of the machine takes time away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = """
import itertools
from tests import disturbed
from tests.disturbed import pytest_runtest_protocol
ticks = itertools.count(step={step})
disturbed.stolen_ticks = lambda: next(ticks)
"""
FAILING = """
import itertools
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def measured():
    with Path("measured").open("a") as file:
        file.write("x")
    return len(Path("measured").read_text())

@pytest.mark.alone
def test_rate(measured):
    assert measured >= {passing}

def test_other():
    pass
"""


@pytest.mark.parametrize(
    ("stolen_ticks", "passing", "attempts", "outcome"),
    [(10, 2, 2, "2 passed"), (10, 9, 3, "1 failed, 1 passed"), (9, 2, 1, "1 failed, 1 passed"), (10, 1, 1, "2 passed")],
    ids=["repeated", "failed three times", "not disturbed", "passed"],
)
def test_failed_test_is_repeated_only_if_it_was_disturbed(
    tmp_path: Path, stolen_ticks: int, passing: int, attempts: int, outcome: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(step=stolen_ticks))
    (tmp_path / "test_it.py").write_text(FAILING.format(passing=passing))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "measured").read_text() == "x" * attempts
    assert done.stdout.count("is repeated: the host took 0.10 s meanwhile") == attempts - 1
