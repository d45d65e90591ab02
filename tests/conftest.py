"""What tests of several parts share: one run of invented numbers, made once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fixtures.make_run import make_run

# How long an example takes says something about the machine, nothing about hakaru.
settings.register_profile("hakaru", deadline=None)
# `make test-long`: fifty times the examples, other ones every time.
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("long" if "HAKARU_LONG" in os.environ else "hakaru")


@pytest.fixture(scope="session")
def invented_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the quick form of vm-sweep, with numbers from a queueing model. Do not
    change its files.
    """
    return make_run(tmp_path_factory.mktemp("runs"))
