"""The two streams of every command: data on stdout, errors and hints on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON document on stdout. Raises ValueError for NaN and infinities."""
    print(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def print_error(message: str, hint: str) -> None:
    """Print `error: …`, then `hint: …` unless the hint is empty, on stderr."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
