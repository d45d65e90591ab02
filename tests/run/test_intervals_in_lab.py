"""A run whose hosts, array and drives are sampled at intervals of their own."""

from __future__ import annotations

from pathlib import Path

from hakaru.analysis.counters import Counters, Key
from hakaru.store import RunReader

from tests.run.conftest import STUDY, Hakaru

MS = 1_000_000
MEASURE = "{warmup: 200 ms, time: 1 s, repetitions: 2, sample_interval: 200 ms}"
APART = "{warmup: 200 ms, time: 3 s, repetitions: 1, sample_interval: {hosts: 200 ms, arrays: 1 s, drives: 100 ms}}"


def test_each_kind_of_node_has_series_of_its_own_interval(hakaru: Hakaru, tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    modelled = STUDY.replace("hosts: 2", "hosts: 1").replace("{kind: none}", "{kind: preset, name: jdsf-2011}")
    modelled = modelled.replace("size: 64 MiB}", "size: 64 MiB, placement: {group: 0}}").replace(MEASURE, APART)
    study.write_text(modelled)
    result = hakaru.run("run", str(study), "--only", "pattern=reads", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    reader = RunReader(hakaru.only_run())
    (repetition,) = reader.repetitions()
    counters = Counters.of_table(reader.samples(repetition["point"], repetition["repetition"]))
    machine = next(key.node for key in counters.keys(engine="watch") if key.entity == "machine")
    expected = {
        Key("host-1", "initiator", "vms", "reads"): 200,
        Key(machine, "watch", "machine", "idle_ns"): 200,
        Key("array", "array", "lu/0", "reads"): 1000,
        Key("array", "array", "controller", "busy_ns"): 1000,
        Key("array", "array", "drive/0.0", "busy_ns"): 100,
        Key("array", "array", "drive/0.0", "reads"): 1000,
    }
    # Late samples stay on their grid, and the median leaves out the missing ones.
    found = {key: series.interval_ns / MS for key in expected if (series := counters.get(*key)) is not None}
    assert {key: round(interval, -2) for key, interval in found.items()} == expected
    (point,) = reader.read("summary.json")["points"]
    assert "sampled_rarely" not in {caveat["caveat"] for caveat in point["caveats"]}
    assert point["utilisation"]["drives"]["mean"] > 0
