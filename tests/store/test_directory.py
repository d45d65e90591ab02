"""The run directory: finished and unfinished runs, their names, and files after a killed writer."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.store import FORMAT, Histograms, RunReader, RunWriter, Samples, directory, find_run, list_runs

NOW = dt.datetime(2026, 11, 21, 12, 30, 5, tzinfo=dt.UTC)


def samples() -> Samples:
    collected = Samples()
    for at in (1_000, 2_000):
        collected.add("host-1", "initiator", at, {"vms": {"reads": at, "writes": 7}, "vm/vm01": {"reads": 3}})
    return collected


def histograms() -> Histograms:
    collected = Histograms()
    collected.add("host-1", "initiator", 2_000, [{"entity": "vms", "name": "read_latency_ns", "hdr": "aaa"}])
    collected.add("host-1", "initiator", None, [{"entity": "vms", "name": "read_latency_ns", "hdr": "bbb"}])
    return collected


def write(folder: Path, *, started: str = "2026-11-21T12:30:05+00:00") -> RunWriter:
    writer = RunWriter.create(folder, "vm-sweep", NOW)
    writer.write("run.json", {"format": FORMAT, "run": writer.name, "started": started, "status": "done"})
    record = {"point": "p01", "repetition": 2, "order": 1, "factors": {"vms": 1}}
    writer.write_repetition(record, samples(), histograms())
    return writer


def test_name_contains_study_and_time(tmp_path: Path) -> None:
    name = write(tmp_path).name
    assert name.startswith("vm-sweep-20261121-123005-")
    assert len(name) == len("vm-sweep-20261121-123005-0000")


def test_run_is_partial_until_it_is_finished(tmp_path: Path) -> None:
    writer = write(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [f"{writer.name}.partial"]
    finished = writer.finish()
    assert list(tmp_path.iterdir()) == [finished]
    assert finished.name == writer.name


def test_captures_are_stored_and_deleted_with_their_repetition(tmp_path: Path) -> None:
    writer = write(tmp_path)
    folder = writer.series_folder()
    written = ["p01-3-a-00001.pcapng", "p01-3-a-1-00004.pcapng", "p01-3-a-1-00005.pcapng"]
    for number, name in enumerate(written):
        (folder / name).write_bytes(bytes(number))
    record = {"point": "p01", "repetition": 3, "order": 2, "factors": {"vms": 1}}
    captures = {node: folder / f"p01-3-{node}.pcapng" for node in ("a", "a-1")}
    writer.write_repetition(record, samples(), histograms(), captures=captures)
    reader = RunReader(writer.directory)
    stored = {file.name: file.stat().st_size for file in reader.captures("p01", 3)}
    # A single part has no number. The numbers of several parts show that older parts were deleted.
    assert stored == {"p01-3-a.pcapng": 0, "p01-3-a-1-00004.pcapng": 1, "p01-3-a-1-00005.pcapng": 2}
    assert reader.captures("p01", 2) == []
    (folder / "left-00001.pcapng").write_bytes(b"of a repetition that was killed")
    assert list(writer.series_folder().iterdir()) == []
    # The attempt that replaces one that was killed has none of its captures.
    (folder / "p01-3-a-00001.pcapng").write_bytes(b"")
    writer.write_repetition(record, samples(), histograms(), captures={"a": folder / "p01-3-a.pcapng"})
    assert [file.name for file in reader.captures("p01", 3)] == ["p01-3-a.pcapng"]
    assert sorted(p.name for p in writer.finish().iterdir() if p.name in ("watching", "tcp")) == []


def test_written_records_can_be_read_back(tmp_path: Path) -> None:
    reader = RunReader(write(tmp_path).finish())
    (record,) = reader.repetitions()
    assert record["factors"] == {"vms": 1}
    table = reader.samples("p01", 2)
    assert table.column_names == ["node", "engine", "entity", "name", "at_ns", "value"]
    assert table.num_rows == 6
    assert table.column("at_ns").type == pa.int64()
    assert sum(table.column("value").to_pylist()) == 1_000 + 2_000 + 14 + 6
    assert reader.histograms("p01", 2).column("at_ns").to_pylist() == [2_000, None]


def test_repetition_without_its_json_does_not_count(tmp_path: Path) -> None:
    writer = write(tmp_path)
    (writer.directory / "repetitions" / "p01-2.json").unlink()
    assert RunReader(writer.directory).repetitions() == []


def test_latest_run_is_the_last_started_not_the_last_by_name(tmp_path: Path) -> None:
    older = write(tmp_path, started="2026-11-21T12:00:00+00:00").finish()
    newer = write(tmp_path, started="2026-11-21T13:00:00+00:00").finish()
    assert list_runs(tmp_path) == [older, newer]
    assert find_run("latest", tmp_path) == newer
    assert find_run(older.name, tmp_path) == older
    assert find_run(str(older), Path("elsewhere")) == older


def fail(folder: Path, started: str, repetitions: int = 0) -> Path:
    writer = write(folder, started=started)
    meta = {"status": "failed", "error": "no array answers", "study": "vm-sweep"}
    writer.write("run.json", {"format": FORMAT, "run": writer.name, "started": started} | meta)
    if not repetitions:
        (writer.directory / "repetitions" / "p01-2.json").unlink()
    return writer.finish()


@pytest.mark.parametrize("repetitions", [0, 1])
def test_failed_run_is_the_latest_for_resume_but_not_for_reports(tmp_path: Path, repetitions: int) -> None:
    done = write(tmp_path, started="2026-11-21T12:00:00+00:00").finish()
    failed = fail(tmp_path, "2026-11-21T13:00:00+00:00", repetitions)
    assert find_run("latest", tmp_path, measured=True) == done
    assert find_run("latest", tmp_path) == failed


def test_run_without_a_measurement_is_refused_with_the_reason(tmp_path: Path) -> None:
    failed = fail(tmp_path, "2026-11-21T13:00:00+00:00")
    with pytest.raises(UsageError, match="nothing was measured: no array answers") as e:
        find_run(failed.name, tmp_path, measured=True)
    assert "--resume" in e.value.hint


@pytest.mark.parametrize("format_", [FORMAT - 1, FORMAT + 1, None])
def test_run_of_another_format_is_refused_with_a_remedy(tmp_path: Path, format_: int | None) -> None:
    writer = write(tmp_path)
    writer.write("run.json", {"format": format_, "run": writer.name, "started": "", "study": "vm-sweep"})
    old = writer.finish()
    with pytest.raises(
        UsageError, match=f"{old.name} has run format {format_}, but this version of hakaru reads format {FORMAT}"
    ) as e:
        find_run(old.name, tmp_path)
    assert "hakaru run vm-sweep" in e.value.hint
    assert list_runs(tmp_path) == []


def test_partial_run_is_found_by_its_name(tmp_path: Path) -> None:
    writer = write(tmp_path)
    assert find_run(writer.name, tmp_path) == writer.directory


@pytest.mark.parametrize("name", ["latest", "nope"])
def test_missing_run_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        find_run(name, tmp_path)


def test_reopened_run_is_partial_again_and_keeps_its_name(tmp_path: Path) -> None:
    finished = write(tmp_path).finish()
    writer = RunWriter.reopen(finished)
    assert writer.directory.name == f"{finished.name}.partial"
    assert writer.finish() == finished


def test_run_that_is_being_written_cannot_be_reopened(tmp_path: Path) -> None:
    writer = write(tmp_path)
    with pytest.raises(UsageError, match="being written"):
        RunWriter.reopen(writer.directory)


def test_list_of_runs_delays_a_writer_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = write(tmp_path).finish()
    # A list locks each run for an instant (`hakaru.store.inventory`). This one ends while the
    # writer waits for its next attempt.
    listing = os.open(finished, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(listing, fcntl.LOCK_SH)
    monkeypatch.setattr(directory, "LOCK_S", 60)
    monkeypatch.setattr(time, "sleep", lambda _: os.close(listing))
    writer = RunWriter.reopen(finished)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(listing)  # the writer did wait
    writer.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_an_environment_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentError_):
        write(tmp_path)


def test_folder_below_a_file_is_an_environment_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentError_) as e:
        write(tmp_path / "file")
    assert "--out" in e.value.hint


def test_damaged_parquet_is_a_usage_error(tmp_path: Path) -> None:
    directory = write(tmp_path).finish()
    (directory / "samples" / "p01-2.parquet").write_bytes(b"PAR1nonsense")
    with pytest.raises(UsageError, match="p01-2"):
        RunReader(directory).samples("p01", 2)


def test_folder_that_cannot_be_examined_is_an_environment_error(tmp_path: Path) -> None:
    # Like a folder of another user, but for root, too.
    long = tmp_path / ("x" * 300)
    with pytest.raises(EnvironmentError_, match="cannot read"):
        list_runs(long)
    with pytest.raises(UsageError, match="no run named"):
        find_run("x" * 300, tmp_path)


def test_reopened_run_loses_the_unfinished_files_of_ended_processes(tmp_path: Path) -> None:
    finished = write(tmp_path).finish()
    left, used = (finished / "samples" / f".p01-1.parquet.{pid}" for pid in (12, 13))
    own = finished / ".run.json.12"
    for file in (left, used, own):
        file.write_text("{}")
    for file in (left, own):
        os.utime(file, (0, 0))
    partial = RunWriter.reopen(finished).directory
    assert [file.name for file in partial.rglob(".*")] == [used.name]
    assert (partial / "run.json").exists() and list(partial.glob("samples/p01-2*"))
