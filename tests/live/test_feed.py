"""Runs that can be watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.errors import UsageError
from hakaru.live.feed import LiveRun, find_live


def test_run_of_another_user_is_told_from_an_ended_one(invented_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is not in progress: done"):
        find_live(invented_run.name, invented_run.parent)

    def refuse(_: LiveRun) -> None:
        raise PermissionError

    monkeypatch.setattr(LiveRun, "connect", refuse)
    with pytest.raises(UsageError, match=f"no permission to watch {invented_run.name}"):
        find_live(invented_run.name, invented_run.parent)
