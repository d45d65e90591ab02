"""Settings of all tests, and a fixture with a run of invented numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fixtures.make_run import make_run

# The time of an example depends on the machine.
settings.register_profile("hakaru", deadline=None)
# `make test-long` runs 50 times as many examples, different ones every time.
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("long" if "HAKARU_LONG" in os.environ else "hakaru")


@pytest.fixture(scope="session")
def invented_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a finished run of the quick form of vm-sweep with numbers from a queueing model.

    All tests share its files: do not change them.
    """
    return make_run(tmp_path_factory.mktemp("runs"))
