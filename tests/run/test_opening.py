"""The beginning of a run: what its directory has when it can be watched."""

from __future__ import annotations

import json
from pathlib import Path

from hakaru.run.course import StudyCourse
from hakaru.run.options import Options
from hakaru.run.preparation import prepare
from hakaru.run.progress import Lines, Watchers
from hakaru.run.runner import Run
from hakaru.study import load


class Probe(Lines):
    """A watcher that notes which files of the run describe it when it can be watched."""

    def __init__(self) -> None:
        self.points: list[str] = []
        self.files: set[str] = set()

    def opened(self, directory: Path) -> None:
        self.files = {path.name for path in directory.iterdir() if path.is_file()}
        self.points = [point["point"] for point in json.loads((directory / "points.json").read_text())]

    def event(self, name: str, **values: object) -> None:
        """Do nothing."""


def test_a_run_can_be_watched_only_when_its_files_describe_it(study: Path, tmp_path: Path) -> None:
    loaded, probe = load(str(study)), Probe()
    prepared = prepare(loaded, Options(), folder=tmp_path / "runs", site=None, resume=None, command=["hakaru"])
    Run(prepared, Watchers([probe]), StudyCourse(prepared)).open()
    assert probe.points == [point.id for point in prepared.expanded.points]
    assert probe.files >= {"run.json", "study.json", "study.yaml", "points.json", "machine.json"}
