"""The block `watch:` of a study: its valid values, and the configurations of watch engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.lab.plan import plan_lab
from hakaru.run.configure import watch_config
from hakaru.run.plan import estimate
from hakaru.study import Expanded, Study, expand
from hakaru.study.watch import Watch
from pydantic import ValidationError

from tests.study.shipped import shipped

STUDY = shipped("vm-sweep").study
GIB = 1 << 30


def watching(watch: dict[str, Any]) -> Expanded:
    return expand(Study.model_validate({**STUDY.written, "watch": watch}))


def config(watch: dict[str, Any]) -> contract.WatchConfig:
    return watch_config(
        watching(watch), machine=False, tcp_file=Path("/t.series"), capture_file=Path("/c.pcapng"), ports=[3260]
    )


def test_capture_and_tcp_watch_are_independent() -> None:
    assert config({"tcp_interval": "1 ms"}).capture is None
    alone = config({"capture": {}})
    assert alone.tcp is None and alone.capture is not None
    assert (alone.capture.interface, alone.capture.snap_bytes, alone.capture.ports) == ("eth0", 1024, [3260])
    both = config({"tcp_interval": "1 ms", "capture": {"interface": "eth1", "snap": "256 KiB", "keep": "2 GiB"}})
    assert both.tcp is not None and both.tcp.interval_us == 1000 and both.capture is not None
    assert (both.capture.interface, both.capture.snap_bytes) == ("eth1", 256 << 10)
    assert both.capture.rotate_bytes is not None and both.capture.files_max is not None
    assert both.capture.rotate_bytes * both.capture.files_max == 2 * GIB


@pytest.mark.parametrize(
    ("watch", "reason"),
    [
        ({}, "`watch` needs"),
        ({"tcp_trace": "on", "capture": {}}, "needs `tcp_interval`"),
        ({"tcp_interval": "1 us"}, "greater than or equal"),
        ({"capture": {"snap": "64 B"}}, "greater than or equal"),
        ({"capture": {"keep": "1 MiB"}}, "greater than or equal"),
        ({"capture": {"interface": "a/b"}}, "should match pattern"),
        ({"capture": {"at": "switches"}}, "'hosts', 'arrays' or 'both'"),
    ],
)
def test_impossible_watch_is_refused(watch: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Watch.model_validate(watch)


def test_watch_is_recorded_with_its_defaults() -> None:
    assert Watch.model_validate({"tcp_interval": "5 ms"}).model_dump(mode="json") == {
        "tcp_interval": "5 ms",
        "tcp_trace": "auto",
        "capture": None,
    }
    capture = {"at": "both", "interface": "eth0", "snap": "1 KiB", "keep": "1 GiB"}
    assert Watch.model_validate({"capture": capture}).model_dump(mode="json") == {
        "tcp_interval": None,
        "tcp_trace": "auto",
        "capture": capture,
    }


def test_plan_counts_the_disk_space_of_captures() -> None:
    lab = plan_lab(STUDY.lab)
    before = estimate(expand(STUDY), lab).disk_bytes
    nodes = {"hosts": len(lab.host_names), "arrays": 1, "both": len(lab.host_names) + 1}
    for at, count in nodes.items():
        expanded = watching({"capture": {"at": at, "keep": "1 GiB"}})
        more = estimate(expanded, lab).disk_bytes - before
        assert more == len(expanded.repetitions) * count * GIB


def test_watch_of_an_array_has_the_interval_of_arrays_unless_it_reads_the_machine() -> None:
    measure = STUDY.written["measure"] | {"sample_interval": {"hosts": "10 s", "arrays": "60 s"}}
    expanded = expand(Study.model_validate({**STUDY.written, "measure": measure}))
    places = [(False, False), (False, True), (True, True)]
    intervals = [watch_config(expanded, machine=m, at_array=a).sample_interval_ms for m, a in places]
    assert intervals == [10_000, 60_000, 10_000]
