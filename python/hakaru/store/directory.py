"""The run directory: its writer, its reader, and how a user names one.

A run is written as `RUN.partial/` and renamed to `RUN/` when it ends (done or interrupted). A
repetition counts as finished if its `repetitions/POINT-R.json` exists, which is written last. A run
that was killed at any instant can therefore be resumed, and never shows half a repetition.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hakaru import __version__
from hakaru.errors import UsageError
from hakaru.store import typed
from hakaru.store.captures import SUFFIX, keep_captures
from hakaru.store.files import environment_error, remove_unfinished, sync_directory, write_atomic, write_json
from hakaru.store.tables import Histograms, Samples
from hakaru.store.tcp import write_tcp
from hakaru.suggest import did_you_mean

FORMAT = 4
"""Format of run directories, `format` in run.json. It changes whenever analysis needs data that the
runs recorded so far lack, or reads their data in another way, so no reader handles two formats.

4: initiators count failovers and failbacks, and trials of packets have stops of processors.
"""
PARTIAL = ".partial"
WATCHING = "watching"
"""Folder, in a run that is being written, to which watches write during a repetition."""
RUNS_ENV = "HAKARU_RUNS"
LOCK_S = 1.0
"""Time to wait for a run that is locked, in seconds."""


def runs_folder(out: Path | None = None) -> Path:
    """Folder of runs: `out`, else `$HAKARU_RUNS`, else `./runs`."""
    return out or Path(os.environ.get(RUNS_ENV) or "runs")


def list_runs(folder: Path) -> list[Path]:
    """Runs in `folder` that this hakaru can read, oldest first, including partial ones."""
    return [directory for directory, run in _runs_by_start(folder) if run.get("format") == FORMAT]


def _runs_by_start(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Runs of any format in `folder` and their run.json, oldest first."""
    return sorted(((path, described(path)) for path in run_directories(folder)), key=_by_start)


def run_directories(folder: Path) -> list[Path]:
    """All directories in `folder` that hold a run of any format, in no order. Names that begin with
    a dot are runs that are being removed. Raises EnvironmentError_ for a folder of another user.
    """
    try:
        found = [*folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        raise environment_error(folder, "cannot read", error) from error
    return [p for p in found if not p.name.startswith(".") and _is_file(p / "run.json")]


def _is_file(path: Path) -> bool:
    # `Path.is_file` raises an error if its directory belongs to another user.
    try:
        return path.is_file()
    except OSError:
        return False


def newest_runs(folder: Path) -> dict[str, Path]:
    """Study → its newest run with results, of the runs in `folder` that used a lab and did not
    fail.
    """
    newest = {}
    for directory in list_runs(folder):
        run = described(directory)
        if run.get("status") != "failed" and not run.get("site") and has_results(directory):
            newest[str(run.get("study"))] = directory
    return newest


def find_run(name: str, folder: Path, *, measured: bool = False) -> Path:
    """Directory of the run `name`: `latest`, a name in `folder`, or a path.

    `measured`: the run must have results, and `latest` is the last one that did not fail. Raises
    UsageError for a run that does not exist, has no results or is recorded in another format.
    """
    if name == "latest":
        return _latest(folder, measured)
    for candidate in (Path(name), folder / name, folder / f"{name}{PARTIAL}"):
        if _is_file(candidate / "run.json"):
            _check_readable(candidate, measured)
            return candidate
    known = [path.name.removesuffix(PARTIAL) for path in run_directories(folder)]
    hint = did_you_mean(name, known, "`hakaru runs` lists them; the path of a run or `latest` is also accepted")
    raise UsageError(f"no run named {name!r} in {folder}", hint)


def _latest(folder: Path, measured: bool) -> Path:
    runs = list_runs(folder)
    matching = [p for p in runs if not measured or (described(p).get("status") != "failed" and has_results(p))]
    if matching:
        return matching[-1]
    if runs:
        message = f"none of the {len(runs)} runs in {folder} has results"
        raise UsageError(message, f"see why the last one failed: {runs[-1] / 'run.json'}")
    if others := _runs_by_start(folder):
        raise _other_format(*others[-1])
    raise UsageError(f"no run in {folder}", "run a study first; `hakaru studies` lists them")


def _check_readable(directory: Path, measured: bool) -> None:
    run = described(directory)
    if run.get("format") != FORMAT:
        raise _other_format(directory, run)
    if measured and not has_results(directory):
        message = f"{directory.name}: nothing was measured: {run.get('error') or 'the run was interrupted'}"
        raise UsageError(message, f"`{typed.resume(run, directory.name)}` measures what is missing")


def _other_format(directory: Path, run: dict[str, Any]) -> UsageError:
    message = f"{directory.name} has run format {run.get('format')}, but this version of hakaru reads format {FORMAT}"
    versions, again = run.get("versions"), typed.again(run)
    version = versions.get("hakaru") if isinstance(versions, dict) else None
    # The format may change within a version that is not released yet.
    if version in (None, __version__):
        return UsageError(message, f"measure again: `{again}`")
    return UsageError(message, f"measure again: `{again}`, or read it with hakaru {version}, which recorded it")


def has_results(directory: Path) -> bool:
    """Whether a run has at least one finished repetition."""
    return any((directory / "repetitions").glob("*.json"))


def described(directory: Path) -> dict[str, Any]:
    """Contents of run.json; empty if it cannot be read."""
    try:
        run = json.loads((directory / "run.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return run if isinstance(run, dict) else {}


def _by_start(run: tuple[Path, dict[str, Any]]) -> tuple[str, str]:
    return str(run[1].get("started", "")), run[0].name


def _lock_exclusively(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class RunWriter:
    """Writes one run directory. Every method leaves only complete files, or raises
    `EnvironmentError_`.
    """

    def __init__(self, directory: Path) -> None:
        """Lock `directory`, an existing `RUN.partial/`, against other writers. Use `create` or
        `reopen`.
        """
        self.directory = directory
        self._lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        # The lock is released when the process ends for any reason, so that a killed run can be
        # resumed at once. A list of runs locks each for an instant.
        deadline = time.monotonic() + LOCK_S
        while not _lock_exclusively(self._lock):
            if time.monotonic() > deadline:
                os.close(self._lock)
                raise UsageError(f"{self.name} is being written by another hakaru", "wait for it, or end it")
            time.sleep(LOCK_S / 100)

    @classmethod
    def create(cls, folder: Path, study: str, now: dt.datetime) -> RunWriter:
        """Create a `RUN.partial/` in `folder`, which is created if absent."""
        name = f"{study}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        directory = folder / f"{name}{PARTIAL}"
        try:
            for part in ("repetitions", "samples", "histograms"):
                (directory / part).mkdir(parents=True)
        except OSError as e:
            raise environment_error(directory, "cannot make the run directory", e) from e
        return cls(directory)

    @classmethod
    def reopen(cls, directory: Path) -> RunWriter:
        """Continue an interrupted run: rename it to `RUN.partial/` again."""
        if directory.suffix != PARTIAL:
            partial = directory.with_name(directory.name + PARTIAL)
            try:
                directory.rename(partial)
            except OSError as e:
                raise environment_error(directory, "cannot continue", e) from e
            directory = partial
        writer = cls(directory)
        for folder in (directory, *(child for child in directory.iterdir() if child.is_dir())):
            remove_unfinished(folder)
        return writer

    @property
    def name(self) -> str:
        """Name of the run: `STUDY-YYYYMMDD-HHMMSS-XXXX`."""
        return self.directory.name.removesuffix(PARTIAL)

    def write(self, file: str, value: Any) -> None:
        """Write `value` to `file` as JSON."""
        write_json(self.directory / file, value)

    def write_bytes(self, file: str, raw: bytes) -> None:
        """Write the bytes `raw` to `file`."""
        write_atomic(self.directory / file, lambda out: out.write(raw))

    def series_folder(self, wanted: bool = True) -> Path:
        """Return the folder to which watches write during a repetition. If `wanted`, create it, and
        remove the files of a killed run.
        """
        folder = self.directory / WATCHING
        if wanted:
            try:
                folder.mkdir(exist_ok=True)
                for file in folder.iterdir():
                    file.unlink()
            except OSError as e:
                raise environment_error(folder, "cannot write to", e) from e
        return folder

    def write_repetition(
        self,
        repetition: dict[str, Any],
        samples: Samples,
        histograms: Histograms,
        tcp: Mapping[str, Path] | None = None,
        captures: Mapping[str, Path] | None = None,
    ) -> None:
        """Write one repetition. Its JSON is written last, because its presence marks the rest as
        complete.

        `tcp`: node → the file that its watch wrote, which is then removed. `captures`: node → the
        configured capture file of its watch, whose parts are then moved.
        """
        stem = f"{repetition['point']}-{repetition['repetition']}"
        # An attempt that was killed while it was written may have left captures and series.
        self.forget(stem)
        samples.write(self.directory / "samples" / f"{stem}.parquet")
        histograms.write(self.directory / "histograms" / f"{stem}.parquet")
        if captures:
            keep_captures(self.directory / "capture", stem, captures)
        if tcp:
            (self.directory / "tcp").mkdir(exist_ok=True)
            write_tcp(self.directory / "tcp" / f"{stem}.parquet", tcp)
            for file in tcp.values():
                file.unlink(missing_ok=True)
        write_json(self.directory / "repetitions" / f"{stem}.json", repetition)

    def forget(self, stem: str) -> None:
        """Remove the files of a repetition, its JSON first. `stem`: point and number, `p01-2`."""
        try:
            (self.directory / "repetitions" / f"{stem}.json").unlink(missing_ok=True)
            for kind in ("samples", "histograms", "tcp"):
                (self.directory / kind / f"{stem}.parquet").unlink(missing_ok=True)
            for part in (self.directory / "capture").glob(f"{stem}-*{SUFFIX}"):
                part.unlink()
        except OSError as e:
            raise environment_error(self.directory, "cannot continue", e) from e

    def close(self) -> None:
        """Unlock the directory, finished or not. Safe to call twice."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def finish(self) -> Path:
        """Give the run its final name. Returns the directory."""
        target = self.directory.with_name(self.name)
        try:
            # A repetition that did not finish leaves files there.
            shutil.rmtree(self.directory / WATCHING, ignore_errors=True)
            self.directory.rename(target)
            sync_directory(target.parent)
        except OSError as e:
            raise environment_error(target, "cannot give the run its name", e) from e
        finally:
            self.close()
        self.directory = target
        return target


class RunReader:
    """Reads one run directory. A file that is missing or not JSON is a `UsageError` that names
    it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, file: str) -> Any:
        """Return the contents of the JSON file `file`."""
        path = self.directory / file
        try:
            return json.loads(path.read_bytes())
        except OSError as e:
            raise UsageError(f"{path}: {e.strerror}", "the run directory is not complete") from e
        except ValueError as e:
            raise UsageError(f"{path}: not JSON: {e}", "the file was changed after the run") from e

    def repetitions(self) -> list[dict[str, Any]]:
        """Finished repetitions, in the order they were run."""
        files = sorted((self.directory / "repetitions").glob("*.json"))
        records = [self.read(str(f.relative_to(self.directory))) for f in files]
        return sorted(records, key=lambda record: int(record["order"]))

    def done(self) -> set[str]:
        """Names of the repetitions that were measured, such as `p01-2`. Others failed."""
        return {f"{each['point']}-{each['repetition']}" for each in self.repetitions() if each["status"] == "done"}

    def samples(self, point: str, repetition: int) -> pa.Table:
        """Samples of one repetition."""
        return self._table("samples", point, repetition)

    def histograms(self, point: str, repetition: int) -> pa.Table:
        """Histograms of one repetition."""
        return self._table("histograms", point, repetition)

    def tcp(self, point: str, repetition: int) -> pa.Table | None:
        """Series of the TCP connections of one repetition (`store.tcp.TCP`); None if the study
        records none.
        """
        path = self.directory / "tcp" / f"{point}-{repetition}.parquet"
        return self._table("tcp", point, repetition) if path.exists() else None

    def captures(self, point: str, repetition: int) -> list[Path]:
        """Captures of one repetition, `POINT-R-NODE.pcapng` or their parts; empty if the study
        records none.
        """
        return sorted((self.directory / "capture").glob(f"{point}-{repetition}-*{SUFFIX}"))

    def _table(self, kind: str, point: str, repetition: int) -> pa.Table:
        path = self.directory / kind / f"{point}-{repetition}.parquet"
        try:
            return pq.read_table(path)
        except (OSError, pa.ArrowException) as e:
            raise UsageError(f"{path}: {e}", "the run directory is not complete") from e
