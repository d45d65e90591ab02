"""What tests of several parts share: one run of invented numbers, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.fixtures.make_run import make_run

# How long an example takes says something about the machine, nothing about hakaru.
settings.register_profile("hakaru", deadline=None)
settings.load_profile("hakaru")


@pytest.fixture(scope="session")
def invented_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the quick form of vm-sweep, with numbers from a queueing model. Do not
    change its files.
    """
    return make_run(tmp_path_factory.mktemp("runs"))
