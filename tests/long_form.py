"""Long forms of tests, which `make test-long` runs. It sets HAKARU_LONG."""

from __future__ import annotations

import os
from typing import Any

import pytest

IS_LONG = "HAKARU_LONG" in os.environ
only_long = pytest.mark.skipif(not IS_LONG, reason="long form (HAKARU_LONG)")
"""Mark of a test that the gate leaves out."""


def long_case(*values: Any) -> Any:
    """Return a set of parameters that the gate leaves out."""
    return pytest.param(*values, marks=only_long)
