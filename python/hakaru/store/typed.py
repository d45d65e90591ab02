"""Commands that follow from the one that started a run, with the study, the folder of runs and the
site as they were typed there. `run` is the content of run.json.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

Run = Mapping[str, Any]
VALUED = frozenset(("--seed", "--repetitions", "--only", "--out", "--resume", "--site", "--note", "--report"))
"""Options of `hakaru run` that have a value."""
OUT, SITE = "--out", "--site"


def study(run: Run) -> str:
    """The study: its ID, its folder or its file, as typed if `hakaru run` started the run."""
    words = _words(run)
    if words[1:2] == ["run"]:
        typed = [word for option, word in _parts(words[2:]) if not option]
        if typed:
            return typed[0]
    return str(run.get("study") or "STUDY")


def options(run: Run, *names: str) -> list[str]:
    """Those of the options `names` that were typed, with their values, as words of a command."""
    typed = dict(_parts(_words(run)[2:]))
    return [word for name in names if name in typed for word in (name, typed[name])]


def again(run: Run) -> str:
    """The command that started the run, or one that runs its study if neither `hakaru run` nor
    `hakaru tune` started it.
    """
    words = _words(run)
    if words[1:2] in (["run"], ["tune"]):
        return shlex.join(["hakaru", *words[1:]])
    return shlex.join(["hakaru", "run", study(run)])


def resume(run: Run, name: str) -> str:
    """The command that continues the run called `name`."""
    if _words(run)[1:2] == ["tune"]:  # a tuning takes its site from its record
        return shlex.join(["hakaru", "tune", "--resume", name, *options(run, OUT)])
    return shlex.join(["hakaru", "run", study(run), "--resume", name, *options(run, OUT, SITE)])


def _words(run: Run) -> list[str]:
    command = run.get("command")
    return [str(word) for word in command] if isinstance(command, list) else []


def _parts(words: list[str]) -> Iterator[tuple[str, str]]:
    """Options with their values; arguments have the empty name. Flags are left out."""
    left = iter(words)
    for word in left:
        name, is_joined, value = word.partition("=")
        if not word.startswith("-"):
            yield "", word
        elif is_joined:
            yield name, value
        elif name in VALUED:
            yield name, next(left, "")
