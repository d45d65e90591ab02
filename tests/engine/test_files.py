"""The files engine on real file systems: builds that are interrupted, damaged trees, refusals, full
disks, loads and their failures.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine
from hakaru.files.tree import PUBLISHED_BYTES, TreeSpec

from tests.engine.files_engine import MARKER, Ended, build, first_file, load, remove, trees, verify
from tests.peers.array import Engine


@pytest.fixture
def built(tmp_path: Path) -> Path:
    directory = tmp_path / "trees"
    ended = Ended(build(directory))
    assert ended.code == 0, ended.events
    return directory


def test_published_trees_have_the_published_totals(tmp_path: Path) -> None:
    config = build(tmp_path / "trees") | {
        "trees": TreeSpec.model_validate({"scale": "1/100000000"}).config().model_dump()
    }
    engine = Engine(config)
    try:
        found = engine.found
        assert (found["trees"], found["folders"], found["files"]) == (128, 6272, 128_000)
        assert found["bytes"] == PUBLISHED_BYTES // 100_000_000
        engine.stop()
    finally:
        engine.close()
    assert TreeSpec().total_bytes == PUBLISHED_BYTES


def test_built_trees_are_verified_and_removed_without_a_trace(built: Path, tmp_path: Path) -> None:
    files = [path for path in built.glob("t0*/**/*") if path.is_file()]
    assert len(files) == 600
    assert sum(path.stat().st_size for path in files) == PUBLISHED_BYTES * 600 // 128_000 // 10_000
    ended = Ended(verify(built))
    assert (ended.code, ended.values["files_done"], ended.values["files_wrong"]) == (0, 600, 0)
    assert Ended(remove(built)).code == 0
    assert list(tmp_path.iterdir()) == []


def test_equal_seeds_give_equal_trees_and_others_do_not(built: Path, tmp_path: Path) -> None:
    assert Ended(build(tmp_path / "equal") | {"workers": 1}).code == 0
    assert Ended(build(tmp_path / "other", seed=2)).code == 0

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("t0*/**/*") if path.is_file()}

    assert contents(built) == contents(tmp_path / "equal")
    other = contents(tmp_path / "other")
    assert len(other) == 600
    assert not set(contents(built).values()) & {content for content in other.values() if len(content) > 20}


def test_killed_build_continues_and_its_trees_are_refused_before(tmp_path: Path) -> None:
    directory = tmp_path / "trees"
    config = build(directory, trees=20, targets=2000) | {"workers": 2, "sample_interval_ms": 100}
    engine = Engine(config)
    try:
        engine.send({"type": "start", "at_ns": 0})
        while engine.wait_for("sample")["counters"]["trees"]["files_done"] < 100:
            pass
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait(10)
    finally:
        engine.close()
    assert json.loads((directory / MARKER).read_text())["state"] == "building"
    refused = Ended(verify(directory))
    assert refused.code == 2
    assert "not complete" in refused.failure
    # A file that was being written is shorter than described.
    cut = first_file(directory, least_bytes=2)
    os.truncate(cut, 1)
    continued = Ended(config)
    assert continued.code == 0, continued.events
    assert 90 <= continued.values["files_kept"] < 40_000
    assert continued.values["files_done"] == 40_000
    assert Ended(verify(directory)).code == 0


def test_a_stop_before_the_instant_of_the_start_is_obeyed(built: Path) -> None:
    for task in ("build", "remove"):
        config = build(built) if task == "build" else remove(built)
        engine = Engine(config)
        try:
            engine.send({"type": "start", "at_ns": time.monotonic_ns() + 3_600_000_000_000})
            engine.send({"type": "stop"})
            assert engine.wait_for("result")["values"]["files_done"] == 0
            assert engine.process.wait(60) == 0
        finally:
            engine.close()
    assert json.loads((built / MARKER).read_text())["state"] == "complete"
    assert Ended(verify(built)).code == 0


def test_damaged_missing_and_replaced_files_are_named(built: Path) -> None:
    wrong, short, missing, link = sorted(p for p in built.glob("t00001/**/f*") if p.stat().st_size > 2)[:4]
    content = wrong.read_bytes()
    wrong.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.truncate(short, 1)
    missing.unlink()
    link.unlink()
    link.symlink_to(wrong)
    ended = Ended(verify(built))
    assert ended.code == 6
    assert "4 files differ" in ended.failure
    named = {
        str(path): message
        for path in (wrong, short, missing, link)
        for message in ended.complaints
        if str(path) in message
    }
    assert len(named) == 4
    assert f"byte {len(content) - 1} is wrong" in named[str(wrong)]
    assert "1 bytes instead of" in named[str(short)]


@pytest.mark.parametrize("replacement", ["nothing", "file", "link"])
def test_missing_folder_without_files_is_a_difference(tmp_path: Path, replacement: str) -> None:
    directory = tmp_path / "trees"
    assert Ended(build(directory, trees=1, targets=5, total="drawn")).code == 0
    empty = next(path for path in sorted(directory.glob("t0*/**/d*")) if path.is_dir() and not list(path.iterdir()))
    empty.rmdir()
    if replacement == "file":
        empty.touch()
    elif replacement == "link":
        empty.symlink_to(tmp_path)
    ended = Ended(verify(directory))
    assert ended.code == 6
    assert f"{empty}: the folder is missing" in ended.complaints


def test_directories_with_other_contents_are_refused_and_unchanged(built: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("precious")
    for config, reason in (
        (build(foreign), "not empty"),
        (build(built, seed=2), "another description"),
        (verify(foreign), "holds no trees"),
        (remove(foreign), "holds no trees"),
        (load(built, trees=trees(seed=2)), "another description"),
        (load(tmp_path / "nowhere"), "cannot open"),
        (build(foreign / "letter.txt"), "letter.txt"),
        (load(built, tools=4), "4 tools for 3 trees"),
        (build(built, trees=3) | {"workers": 0}, "workers"),
    ):
        ended = Ended(config)
        assert ended.code in (2, 3), config
        assert reason in ended.failure
    assert sorted(path.name for path in foreign.iterdir()) == ["letter.txt"]
    assert (foreign / "letter.txt").read_text() == "precious"
    (built / MARKER).write_text("{")
    damaged = Ended(verify(built))
    assert damaged.code == 2
    assert "damaged" in damaged.failure


@pytest.mark.parametrize("name", [".hakaru-files.new", ".hakaru-files.lock", MARKER])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_own_names_that_belong_to_others_are_never_written_to(
    built: Path, tmp_path: Path, name: str, kind: str
) -> None:
    precious = tmp_path / "thesis.doc"
    precious.write_text("precious")
    missing = tmp_path / "missing.doc"

    def occupy(path: Path) -> None:
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(precious if kind == "link" else missing)

    empty = tmp_path / "empty"
    empty.mkdir()
    for directory in (empty, built):
        occupy(directory / name)
        ended = Ended(build(directory))
        # A marker is replaced, so in own trees nothing hinders that.
        assert ended.code in ((0,) if (directory, name) == (built, ".hakaru-files.new") else (2, 3)), ended.events
        assert precious.read_text() == "precious"
        assert not missing.exists()
    assert [path.name for path in empty.iterdir()] == [name]


def test_removal_keeps_the_files_of_others(built: Path) -> None:
    own = built / "t00001" / "mine"
    own.write_text("mine")
    refused = Ended(remove(built))
    assert refused.code == 3
    assert "t00001" in refused.failure
    assert own.read_text() == "mine"
    own.unlink()
    assert Ended(remove(built)).code == 0
    assert not built.exists()


def test_what_a_killed_metadata_load_leaves_is_removed(built: Path) -> None:
    for number, folder in enumerate(sorted({path.parent for path in built.glob("t0*/**/f*")})):
        for file in sorted(folder.glob("f*"))[: number % 3]:
            left = "n" + file.name.removeprefix("f") + "r" * (number % 2)
            (folder / left).touch()
    assert list(built.glob("t0*/**/n??????"))
    assert list(built.glob("t0*/**/n??????r"))
    ended = Ended(remove(built))
    assert ended.code == 0, ended.events
    assert not built.exists()


def test_trees_in_use_are_not_built_again(built: Path) -> None:
    engine = Engine(load(built))
    try:
        refused = Ended(build(built))
        assert refused.code == 3
        assert "in use by another process" in refused.failure
        engine.stop()
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("size=8m,nr_inodes=100", "No space left"),
        # Enough for the sizes, which are below 1 MiB together, and not for the blocks.
        ("size=2m", "bytes free"),
    ],
)
def test_full_disk_ends_the_build_with_the_path(tmp_path: Path, options: str, reason: str) -> None:
    mount = f'mount -t tmpfs -o {options} tmpfs {tmp_path} && exec "$@"'
    inside = ("unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespaces with mounts")
    ended = Ended(build(tmp_path / "trees", scale="1/1000"), inside)
    assert ended.code == 3
    assert reason in ended.failure
    assert str(tmp_path / "trees") in ended.failure


@pytest.mark.parametrize(("order", "files"), [("start", 600), ("stop", 0)])
def test_load_with_a_second_start_builds_and_then_waits_for_it(tmp_path: Path, order: str, files: int) -> None:
    engine = Engine(load(tmp_path / "trees", build=True, remove=True, second_start=True))
    try:
        engine.send({"type": "start", "at_ns": 0})
        assert engine.wait_for("phase")["phase"] == "build"
        assert engine.wait_for("phase")["phase"] == "built"
        assert len(list((tmp_path / "trees").glob("t0*/**/f*"))) == 600
        second_ns = time.monotonic_ns()
        engine.send({"type": order, "at_ns": second_ns} if order == "start" else {"type": order})
        events = list(engine.events())
        values = events[-1]["values"]
        assert values["files_read"] + values["files_written"] == files
        phases = {event["phase"]: event["at_ns"] for event in events if event["type"] == "phase"}
        assert list(phases) == (["measure", "drain"] if files else [])
        assert all(at_ns >= second_ns for at_ns in phases.values())
        assert engine.process.wait(60) == 0
    finally:
        engine.close()
    assert not (tmp_path / "trees").exists()


def test_load_uses_every_target_once_and_reports_each_operation(built: Path) -> None:
    ended = Ended(load(built, verify=True, flush=True, cold=True))
    assert ended.code == 0, ended.events
    values = ended.values
    assert values["files_read"] + values["files_written"] == 600
    assert 440 <= values["files_read"] <= 520
    assert values["flushes"] == values["files_written"]
    assert values["verified_bytes"] == values["read_bytes"] > 0
    assert (values["errors"], values["units_done"]) == (0, 3)
    assert 0 < values["measured_ns"] <= values["load_ns"]
    assert [event["phase"] for event in ended.of("phase")] == ["cold", "measure", "drain"]
    names = {histogram["name"] for histogram in ended.of("result")[0]["histograms"]}
    assert names == {
        f"{name}_latency_ns"
        for name in ("lookup", "open", "read", "write", "flush", "close", "file_read", "file_write")
    }
    assert Ended(verify(built)).code == 0


def test_failed_operations_are_named_and_cost_only_their_files(built: Path) -> None:
    removed = first_file(built)
    removed.unlink()
    ended = Ended(load(built, read_percent=100))
    assert (ended.code, ended.values["errors"], ended.values["files_failed"]) == (0, 1, 1)
    assert ended.values["files_read"] == 599
    (message,) = ended.complaints
    assert message.startswith(f"open of {removed} failed: No such file")


def test_wrong_data_ends_a_load_with_exit_code_6(built: Path) -> None:
    wrong = first_file(built, least_bytes=10)
    content = wrong.read_bytes()
    wrong.write_bytes(content[:5] + b"\0" + content[6:])
    ended = Ended(load(built, read_percent=100, verify=True))
    assert ended.code == 6
    assert f"{wrong}: byte 5 is wrong" in ended.complaints
    assert "1 reads returned wrong data" in ended.failure


def test_load_that_ends_by_time_completes_the_files_that_it_writes(tmp_path: Path) -> None:
    directory = tmp_path / "trees"
    spec = trees(trees=2, targets=100, scale="1/2")
    assert Ended(build(directory) | {"trees": spec}).code == 0
    ended = Ended(load(directory, trees=spec, read_percent=0, block_bytes=512, measure_s=0.15))
    assert ended.code == 0, ended.events
    assert ended.values["files_written"] < 200
    assert ended.values["written_bytes"] > 0
    assert Ended(verify(directory)).code == 0


def test_trees_with_files_that_were_written_in_part_are_not_complete(tmp_path: Path) -> None:
    directory = tmp_path / "trees"
    spec = trees(scale="1/10", targets=20)
    config = build(directory) | {"trees": spec}
    assert Ended(config).code == 0
    # Writes beyond the first kilobytes of a file fail.
    inside = ("sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh")
    ended = Ended(load(directory, trees=spec, read_percent=0, block_bytes=512), inside)
    assert ended.values["files_failed"] > 0
    refused = Ended(verify(directory))
    assert "not complete" in refused.failure
    assert Ended(config).code == 0
    assert Ended(verify(directory)).code == 0


def test_load_that_repeats_its_trees_lasts_until_its_time_is_over(built: Path) -> None:
    settings = {"verify": True, "repeat": True, "warmup_s": 0.1}
    ended = Ended(load(built, measure_s=2.0, **settings))
    assert ended.code == 0, ended.events
    # Three trees have 600 files, which two tools use up in a part of that time.
    assert ended.values["files_read"] + ended.values["files_written"] > 600
    assert ended.values["measured_ns"] >= 2e9
    assert Ended(verify(built)).code == 0
    refused = Ended(load(built, repeat=True))
    assert refused.code == 2 and "never runs out of files" in refused.failure


def test_warm_up_that_uses_every_file_is_refused(built: Path) -> None:
    ended = Ended(load(built, warmup_s=60.0))
    assert ended.code == 2
    assert re.search("the warm-up used every file within [0-9.]+ s", ended.failure)
    assert "shorten the warm-up" in ended.failure
    assert not ended.of("result")


def test_order_to_measure_ends_the_warm_up(tmp_path: Path) -> None:
    # One tool has work for several seconds.
    many = trees(trees=20, targets=2000)
    settings = {"build": True, "remove": True, "profile": "metadata", "trees": many, "tools": 1}
    engine = Engine(load(tmp_path / "trees", warmup_s=60.0, measure_s=0.2, **settings))
    try:
        engine.send({"type": "start", "at_ns": 0})
        while (event := engine.wait_for("sample"))["counters"]["files"]["steps"] == 0:
            pass
        ordered = event["at_ns"] + 200_000_000
        engine.send({"type": "measure", "at_ns": ordered})
        begun = engine.wait_for("phase")
        # The warm-up has ended, so a second order changes nothing.
        engine.send({"type": "measure", "at_ns": ordered})
        ended = engine.wait_for("phase")
        result = engine.wait_for("result")
    finally:
        engine.close()
    assert (begun["phase"], ended["phase"]) == ("measure", "drain")
    assert begun["at_ns"] >= ordered
    assert result["values"]["measured_ns"] >= 200_000_000
    assert result["values"]["load_ns"] < 60e9


def test_load_gives_up_when_every_file_fails(built: Path) -> None:
    for tree in built.glob("t0*"):
        shutil.rmtree(tree)
    ended = Ended(load(built))
    assert ended.code == 3
    assert "100 files in succession failed" in ended.failure
    assert len(ended.complaints) == 20


def test_symbolic_links_are_never_followed(built: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.move(built / "t00000", outside / "t00000")
    (built / "t00000").symlink_to(outside / "t00000")
    loop = built / "t00001" / "d0001"
    shutil.rmtree(loop)
    loop.symlink_to(".")
    ended = Ended(load(built, read_percent=0))
    assert ended.code == 3
    assert all(str(outside) not in message for message in ended.complaints)
    assert Ended(verify(built)).code == 6


def test_stopped_load_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "trees"
    config = load(directory, build=True, remove=True, profile="metadata", trees=trees(trees=20, targets=2000))
    engine = Engine(config)
    try:
        engine.send({"type": "start", "at_ns": 0})
        while engine.wait_for("sample")["counters"]["files"]["steps"] < 10:
            pass
        engine.send({"type": "stop"})
        result = engine.wait_for("result")
        assert engine.process.wait(60) == 0
    finally:
        engine.close()
    assert (result["values"]["errors"], result["values"]["files_failed"]) == (0, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("second", [False, True])
def test_failed_load_removes_its_trees_when_no_thread_writes_any_more(tmp_path: Path, second: bool) -> None:
    directory = tmp_path / "trees"
    spec = trees(trees=8, targets=2000)
    assert Ended(build(directory) | {"trees": spec}).code == 0
    for tree in sorted(directory.glob("t0*"))[1:]:
        shutil.rmtree(tree)
    pipe = first_file(directory)
    pipe.unlink()
    os.mkfifo(pipe)
    if second:
        (directory / "t00000" / "mine").write_text("mine")
    # One builder fails at the pipe while the others write.
    ended = Ended(load(directory, build=True, remove=True, trees=spec))
    assert ended.code == 3
    assert f"{pipe}: it is not a regular file" in ended.failure
    if second:
        assert [complaint for complaint in ended.complaints if "cannot delete" in complaint], ended.events
        assert (directory / "t00000" / "mine").read_text() == "mine"
    else:
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def public_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def survey(directory: Path, *options: str, **process: Any) -> dict[str, Any]:
    command = [find_engine(), "survey", *options, str(directory)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, **process)
    counted: dict[str, Any] = json.loads(ended.stdout)
    return counted


def test_survey_counts_sizes_and_levels_and_follows_nothing(public_folder: Path) -> None:
    for depth, size in ((0, 0), (1, 1), (1, 100), (2, 5000)):
        folder = public_folder.joinpath(*["below"] * depth)
        folder.mkdir(exist_ok=True)
        (folder / f"file{size}").write_bytes(b"x" * size)
    (public_folder / "loop").symlink_to(".")
    (public_folder / "below" / "up").symlink_to("..")
    os.mkfifo(public_folder / "pipe")
    counted = survey(public_folder)
    assert (counted["files"], counted["bytes"], counted["folders"], counted["depth"]) == (4, 5101, 3, 3)
    assert (counted["links"], counted["others"], counted["unreadable"], counted["complete"]) == (2, 1, 0, True)
    assert counted["placement"]["weights"] == [1, 2, 1]
    classes = counted["sizes"]["classes"]
    before = [0, *(row["up_to_bytes"] for row in classes)]
    held = {row["up_to_bytes"]: low for row, low in zip(classes, before, strict=False) if row["count"]}
    assert len(held) == 4
    for size in (100, 5000):
        assert any(low < size <= high for high, low in held.items())
    assert survey(public_folder, "--files-max=1")["complete"] is False


def test_survey_counts_unreadable_folders(public_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    (public_folder / "secret").mkdir(mode=0o700)
    (public_folder / "open").mkdir()
    (public_folder / "open" / "file").write_bytes(b"12")
    try:
        counted = survey(public_folder, user=65534)
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("other users may not run the engine")
    assert (counted["files"], counted["unreadable"], counted["folders"]) == (1, 1, 2)
