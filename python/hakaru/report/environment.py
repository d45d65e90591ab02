"""The machine and the versions of a run, as phrases with units."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

from hakaru.wording import has, number, say, with_note

Json = dict[str, Any]
GIB = 1 << 30


def rows(run: Json, machine: Json, language: str) -> list[tuple[str, str]]:
    """Names and values about the run, its versions and the machine. Unknown facts are marked as
    such.
    """
    times = [(say(language, f"environment.{name}"), _time(run.get(name))) for name in ("started", "ended")]
    return [
        (say(language, "environment.run"), str(run["run"])),
        *times,
        *_versions(run, language),
        *_machine(machine, language),
    ]


def _versions(run: Json, language: str) -> Iterator[tuple[str, str]]:
    for name, value in (run.get("versions") or {}).items():
        title = f"environment.version.{name}"
        yield say(language, title) if has(title) else name, str(value)


def _machine(machine: Json, language: str) -> Iterator[tuple[str, str]]:
    for name, value in machine.items():
        title = f"environment.{name}"
        if not has(title):  # a fact of a later version
            continue
        form = FORMS.get(name, _plain)
        yield say(language, title), say(language, "environment.unknown") if value is None else form(value, language)


def _plain(value: Any, language: str) -> str:
    return number(value, language) if isinstance(value, int) else str(value)


def _memory(value: Any, language: str) -> str:
    return f"{number(round(float(value) / GIB, 1), language)} GiB"


def _yes_or_no(value: Any, language: str) -> str:
    return say(language, "environment.yes" if value else "environment.no")


def _load(value: Any, language: str) -> str:
    return number(round(float(value), 2), language)


def _overcommit(value: Any, language: str) -> str:
    mode = f"environment.overcommit.{value}"
    return with_note(language, str(value), say(language, mode)) if has(mode) else str(value)


FORMS: dict[str, Callable[[Any, str], str]] = {
    "virtual": _yes_or_no,
    "memory_bytes": _memory,
    "memory_available_bytes": _memory,
    "overcommit_memory": _overcommit,
    "load_average": _load,
}


def _time(text: object) -> str:
    """An instant to the second, in UTC; `–` if it is invalid."""
    try:
        instant = dt.datetime.fromisoformat(str(text)).astimezone(dt.UTC)
    except ValueError:
        return "–"
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
