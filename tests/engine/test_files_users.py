"""Users of the files engine on a directory and on a real SMB server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine import files_engine
from tests.engine.files_engine import Ended, build, load, remove, trees, verify
from tests.engine.smb_server import need_server, smb_server
from tests.peers.array import Engine

WEIGHTS = {"list": 3, "stat": 2, "open": 1, "read": 2, "write": 1, "create": 2, "rename": 1, "delete": 1}
OPERATIONS = [{"operation": name, "weight": weight} for name, weight in WEIGHTS.items()]


def mix(**times: Any) -> dict[str, Any]:
    return {"profile": "mix", "mix": {"operations": OPERATIONS, **times}, "measure_s": 1.0}


def check(values: dict[str, float]) -> None:
    """All operations were performed, none failed, and created files are gone."""
    assert values["errors"] == values["mismatches"] == 0
    for name in ("lists", "stats", "files_read", "files_written", "renames", "entries_listed"):
        assert values[name] > 0, name
    assert values["creates"] == values["deletes"] > 0


@pytest.fixture
def built(tmp_path: Path) -> Path:
    directory = tmp_path / "trees"
    assert Ended(build(directory)).code == 0
    return directory


def test_users_of_a_directory_leave_the_trees_as_described(built: Path, tmp_path: Path) -> None:
    ended = Ended(load(built, verify=True, **mix()))
    assert ended.code == 0, ended.events
    check(ended.values)
    assert Ended(verify(built)).code == 0
    assert Ended(remove(built)).code == 0
    assert list(tmp_path.iterdir()) == []


def test_users_begin_at_the_requested_rate(built: Path) -> None:
    # 40 operations in 2 s, which any machine can do.
    ended = Ended(load(built, **mix(rate_per_s=20.0) | {"measure_s": 2.0}))
    assert ended.code == 0, ended.events
    assert 36 <= ended.values["begins"] <= 42


def test_what_users_of_a_killed_load_left_is_gone_in_the_next_one(built: Path) -> None:
    creating = {
        "profile": "mix",
        "mix": {"operations": [{"operation": "create", "weight": 3}, {"operation": "rename", "weight": 1}]},
    }
    engine = Engine(load(built, **creating, measure_s=3600.0))
    try:
        engine.send({"type": "start", "at_ns": 0})
        while engine.wait_for("sample")["counters"]["files"]["creates"] < 50:
            pass
        engine.process.kill()
        engine.process.wait(60)
    finally:
        engine.close()
    left = sorted(built.glob("t0*/**/n*"))
    assert left and all(file.stat().st_size == 0 for file in left)
    # Files of somebody else stay, also under a name that a load would use.
    left[0].write_text("not empty")
    assert Ended(build(built)).code == 0
    assert list(built.glob("t0*/**/n*")) == left[:1]
    left[0].write_text("")
    foreign = next(built.glob("t0*")) / "of somebody else"
    foreign.touch()
    ended = Ended(load(built, build=True, **mix()))
    assert ended.code == 0, ended.events
    check(ended.values)
    assert list(built.glob("t0*/**/n*")) == []
    assert foreign.exists()


def test_users_continue_when_half_of_the_files_cannot_be_opened(built: Path) -> None:
    """Operations that only open prepare nothing else, and each success ends the succession."""
    for file in sorted(built.glob("t0*/**/f*"))[::2]:
        file.unlink()
    opens = {"profile": "mix", "mix": {"operations": [{"operation": "open", "weight": 1}]}}
    ended = Ended(load(built, **opens, measure_s=3.0))
    assert ended.code == 0, ended.events
    # More than two tools may have in succession.
    assert ended.values["files_failed"] > 200
    assert ended.values["steps"] > 200


def test_users_that_think_are_stopped_at_once(built: Path) -> None:
    engine = Engine(load(built, **mix(think_ms=3_600_000.0) | {"measure_s": 3600.0}))
    try:
        engine.send({"type": "start", "at_ns": 0})
        while engine.wait_for("phase")["phase"] != "measure":
            pass
        begun = time.monotonic()
        engine.send({"type": "stop"})
        assert engine.wait_for("result")["values"]["errors"] == 0
        # Far below the 20 s that threads have to end.
        assert time.monotonic() - begun < 10
        assert engine.process.wait(60) == 0
    finally:
        engine.close()


@pytest.mark.parametrize("compound", ["none", "operation", "file"])
def test_users_of_a_share_leave_the_trees_as_described(tmp_path: Path, compound: str) -> None:
    need_server()
    folder = tmp_path / "share"
    folder.mkdir()
    with smb_server(folder) as server:
        destination = server.destination() | {"compound": compound}
        built = build(Path("/")) | {"destination": destination}
        assert Ended(built, server.inside).code == 0
        # As a load that was killed leaves it.
        left = [file.with_name("n" + file.name.removeprefix("f")) for file in (folder / "trees").glob("t0*/**/f*")]
        for file in left[::7]:
            file.touch()
        config = load(Path("/"), verify=True, build=True, **mix()) | {"destination": destination}
        ended = Ended(config, server.inside)
        assert ended.code == 0, ended.events
        check(ended.values)
        assert not any(file.exists() for file in left)
        assert Ended(files_engine.verify(folder / "trees")).code == 0
        # Every folder of these trees is listed to its end.
        assert trees()["folders"] > 1
