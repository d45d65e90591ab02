"""A run in progress: the files of the invented run under its name while it is written, and the real
publisher, which a test feeds with events.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hakaru.live.feed import LiveRun, of_directory
from hakaru.run.publisher import Publisher


@dataclass
class ScriptedRun:
    """A run whose events a test publishes."""

    directory: Path
    publisher: Publisher

    @property
    def run(self) -> LiveRun:
        return of_directory(self.directory)

    @property
    def points(self) -> list[Any]:
        return list(json.loads((self.directory / "points.json").read_text()))

    def publish(self, name: str, **values: Any) -> None:
        event = {"event": name, "at": time.time(), **values}
        self.publisher.publish(name, json.dumps(event))

    def start(self) -> None:
        """Publish the beginning of the run."""
        total = sum(point["repetitions"] for point in self.points)
        self.publish("run_started", run=self.run.name, study="vm-sweep", repetitions=total, done=0)
        self.publish("phase", phase="lab", detail="4 hosts, 1 switch, 1 array", left_s=300)

    def begin(self, index: int, repetition: int, done: int) -> None:
        """Publish the beginning of a repetition of the point number `index`."""
        point = self.points[index]
        total = sum(each["repetitions"] for each in self.points)
        label = ", ".join(map(str, point["factors"].values()))
        values = {"point": point["point"], "repetition": repetition, "factors": point["factors"], "label": label}
        self.publish("repetition_started", **values, done=done, total=total, left_s=240 - done)

    def sample(self, index: int, repetition: int, iops: float) -> None:
        """Publish one second of load."""
        queues = {"in_flight": 28, "port": 0.4, "controller": 1.2, "drives": iops / 150, "link_bytes": 9000}
        values = {"point": self.points[index]["point"], "repetition": repetition, "left_s": 200, "queues": queues}
        text = f"{iops:,.0f} IOPS, {iops / 30:.0f} MB/s, p99 21 ms"
        self.publish("sample", **values, text=text, iops=iops, mb_per_s=iops / 30, latency_ms_p99=21.0)

    def end(self, index: int, repetition: int, iops: float) -> None:
        """Publish the end of a repetition, whose files exist."""
        point = self.points[index]
        values = {"point": point["point"], "repetition": repetition}
        self.publish("result", **values, text=f"{iops:,.0f} IOPS", iops=iops, mb_per_s=50.0, latency_ms_p99=21.0)
        measure = {"start_ns": 1, "end_ns": 2}
        self.publish("repetition", **values, factors=point["factors"], measure=measure, caveats=[])

    def finish(self) -> None:
        """Give the run its final name and publish its end."""
        self.set_status("done")
        self.directory = self.directory.rename(self.directory.with_name(self.run.name))
        total = sum(point["repetitions"] for point in self.points)
        self.publish("run_ended", run=self.run.name, status="done", done=total, total=total)
        self.publish("done", run=str(self.directory), reports=[], valid=True)
        self.publisher.close()

    def set_status(self, status: str) -> None:
        path = self.directory / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status}))


@pytest.fixture
def scripted(invented_run: Path, tmp_path: Path) -> Iterator[ScriptedRun]:
    with scripted_run(invented_run, tmp_path / "runs") as run:
        yield run


class scripted_run:
    """A context with a scripted run in `folder`, which is created."""

    def __init__(self, invented_run: Path, folder: Path) -> None:
        self._directory = folder / f"{invented_run.name}.partial"
        shutil.copytree(invented_run, self._directory)
        self._publisher = Publisher()

    def __enter__(self) -> ScriptedRun:
        run = ScriptedRun(self._directory, self._publisher)
        run.set_status("running")
        self._publisher.open(self._directory)
        return run

    def __exit__(self, *_: object) -> None:
        self._publisher.close()
