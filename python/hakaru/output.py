"""The two streams of every command: data on stdout, errors and hints on stderr. Data for programs
is in English, text for people in the language of the locale.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON document on stdout. Raises ValueError for NaN and infinities."""
    print(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def print_text(text: str, *, to_stderr: bool = False) -> None:
    """Print a text of hakaru on stdout, in the language of the locale."""
    from hakaru.translation import shown

    print(shown(text), file=sys.stderr if to_stderr else sys.stdout)


def print_error(message: str, hint: str) -> None:
    """Print `error: …`, then `hint: …` unless the hint is empty, on stderr, in the language of the
    locale.
    """
    from hakaru.translation import label, shown

    print(f"{label('error')}{shown(message)}", file=sys.stderr)
    if hint:
        print(f"{label('hint')}{shown(hint)}", file=sys.stderr)
