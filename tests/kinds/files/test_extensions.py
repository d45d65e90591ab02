"""Disks below file servers that are extended under load: events, refusals, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.errors import UsageError
from hakaru.fileserver.chain_spec import SIZED_LAYERS
from hakaru.kinds.files.report import REPORT
from hakaru.kinds.files.run import RUN
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report import charts
from hakaru.report.blocks import Row
from hakaru.report.charts import WIDE
from hakaru.run.events import ArrayChange, DiskChange
from hakaru.run.plan import estimate
from hakaru.study import Study, expand, load

from tests.analysis.run_files import RepetitionData, write
from tests.kinds.files import test_analysis as plain
from tests.kinds.files.study import fields, written
from tests.kinds.files.test_chain import LAB, expanded_of, segments, to
from tests.kinds.files.test_chain_analysis import SCHEMA, Pt, Rep, build

MIB = 1 << 20
RAW = {"format": "raw"}
TIMED: dict[str, Any] = {"repetitions": 1, "sample_interval": "100 ms", "time": "10 s"}


def extension(at: str, size: str) -> dict[str, Any]:
    return {"at": at, "extend_disk": {"size": size}}


def test_events_extend_the_disk_and_the_lu_of_each_file_server(tmp_path: Path) -> None:
    events = [extension("5 s", "128 MiB"), {"at": "4 s", "grow_pool": {"size": "64 MiB"}}, extension("3 s", "96 MiB")]
    parts: dict[str, Any] = {"lab": segments(2, 2), "factors": [{"tools": [2]}]}
    loaded = to(smb={}, disk=RAW) | {"servers": 2}
    expanded = expanded_of(tmp_path, load=loaded | {"events": events}, **parts)
    planned, study = plan_lab(expanded.study.lab), expanded.at(expanded.points[0])
    chains = RUN.chains(study, planned)
    assert all(chain.spec.extensible and chain.spec.disk.size == 64 * MIB for chain in chains)
    found = RUN.events(study, planned)
    assert [(event.at_ns // 10**9, event.name) for event in found] == [
        (at, name) for at, name in ((5, "extend_disk"), (4, "grow_pool"), (3, "extend_disk")) for _ in range(2)
    ]
    nodes = [chain.node for chain in chains]
    assert len(set(nodes)) == 2 and [event.object for event in found[:2]] == nodes
    # The LU has 512 MiB, and grows by as much as the disk.
    assert [event.change for event in found[:2]] == [DiskChange(node, 128 * MIB, 576 * MIB) for node in nodes]
    assert [event.change for event in found[4:]] == [DiskChange(node, 96 * MIB, 544 * MIB) for node in nodes]
    assert all(isinstance(event.change, ArrayChange) for event in found[2:4])


def test_full_pool_of_a_larger_lu_takes_more_memory(tmp_path: Path) -> None:
    # The LU is smaller than the pool, so it limits what the pool can hold.
    loaded = to(disk=RAW, lu={"size": "512 MiB", "pool": "1 GiB"})
    expanded = [
        expanded_of(tmp_path, load=each) for each in (loaded, loaded | {"events": [extension("2 s", "96 MiB")]})
    ]
    without, with_event = (estimate(each, plan_lab(each.study.lab)).memory_bytes for each in expanded)
    assert with_event - without == 32 * MIB
    study = expanded[0].study
    assert [chain.spec.extensible for chain in RUN.chains(study, plan_lab(study.lab))] == [False]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": {"to": {"directory": "small"}, "events": [extension("2 s", "96 MiB")]}}, "are not on a chain"),
        ({"load": to() | {"events": [extension("2 s", "96 MiB")]}}, "QEMU cannot make a disk of the format vhd larger"),
        (
            {"load": to(disk={"format": "vhdx"}) | {"events": [extension("2 s", "96 MiB")]}},
            "QEMU cannot make a disk of the format vhdx larger",
        ),
        ({"load": to(disk=RAW) | {"events": [extension("2 s", "64 MiB")]}}, "and 64 MiB is not larger"),
        (
            {"load": to(disk=RAW) | {"events": [extension("3 s", "96 MiB"), extension("2 s", "128 MiB")]}},
            "the disk has 128 MiB before the event, and 96 MiB is not larger",
        ),
        ({"load": to(disk=RAW) | {"events": [extension("2 s", "100000001 B")]}}, "are not whole blocks"),
        (
            {"load": to(disk=RAW) | {"events": [extension("2 s", "8 GiB")]}},
            "a disk of 8 GiB does not fit on an LU of 8640 MiB",
        ),
        (
            {"load": to(disk=RAW | {"subformat": "fixed"}) | {"events": [extension("2 s", "240 MiB")]}},
            "a fixed disk of 240 MiB fills a pool of 256 MiB",
        ),
        ({"load": to(disk=RAW) | {"events": [{"at": "2 s"}]}}, "an event is one change, and this one has none"),
        (
            {"load": to(disk=RAW) | {"events": [extension("2 s", "96 MiB") | {"grow_pool": {"size": "64 MiB"}}]}},
            "this one has grow_pool, extend_disk",
        ),
        (
            {"load": to(disk=RAW) | {"events": [extension("20 s", "96 MiB")]}, "measure": TIMED},
            "20 s is not within the measuring phase",
        ),
    ],
)
def test_impossible_extensions_are_refused(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        expand(load(str(written(tmp_path, **({"lab": LAB} | parts)))).study)


def test_a_pool_that_grows_before_has_space_for_a_larger_fixed_disk(tmp_path: Path) -> None:
    events = [{"at": "1 s", "grow_pool": {"size": "64 MiB"}}, extension("2 s", "240 MiB")]
    fixed = to(disk=RAW | {"subformat": "fixed"}, lu={"size": "1 GiB", "pool": "256 MiB"})
    expanded = expanded_of(tmp_path, load=fixed | {"events": events})
    assert len(RUN.events(expanded.study, plan_lab(expanded.study.lab))) == 2


def extended(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    """After 2 s of the measuring phase, each layer takes 50 ms to grow by 32 MiB; 150 ms of it are
    a hold. A second client uses 60 files in the following second.
    """
    content, samples, histograms = build(factors, rep)
    for second in range(-10, plain.SECONDS + 2):
        at, used = plain.START + second * plain.SECOND, 60.0 if second > 2 else 0.0
        samples.add("client", "files", at, {"trees": {"bytes_done": 1e6 * min(second + 10, 4)}})
        samples.add("other", "files", at, {"files": {"files_read": used}})
        pool = {"used_bytes_now": 48.0 * MIB, "capacity_bytes_now": 63.0 * MIB}
        samples.add("array", "array", at, {"pool/pool": pool})
    begun_ns, step_ns = plain.START + 2 * plain.SECOND, plain.SECOND // 20
    layers = {
        layer: {
            "before_bytes": 64 * MIB,
            "after_bytes": 96 * MIB,
            "begun_ns": begun_ns + i * step_ns,
            "done_ns": begun_ns + (i + 1) * step_ns + (step_ns if layer == "virtual_disk" else 0),
        }
        for i, layer in enumerate(SIZED_LAYERS)
    }
    event = {"event": "extend_disk", "object": "server", "due_ns": begun_ns, "begun_ns": begun_ns}
    event |= {"done_ns": begun_ns + plain.SECOND // 4, "layers": layers, "held_ms": 150.0}
    return content | {"events": [event]}, samples, histograms


def test_extension_under_load_has_its_layers_times_and_rates(tmp_path: Path) -> None:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    loaded = to(disk=RAW) | {"events": [extension("2 s", "96 MiB")]}
    data = fields(lab=LAB, load=loaded, factors=[{"disk_cache": ["none"]}])
    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(tmp_path, {"study": data, "lab": described}, points, extended))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    mean = {name: each["mean"] for name, each in point["metrics"].items()}
    assert mean["extension_ms"] == pytest.approx(250) and mean["extension_held_ms"] == 150
    rates = [mean[f"files_per_s_{when}_extension"] for when in ("before", "during", "after")]
    assert rates == pytest.approx([100, 100 + 60 / 1.25, 100])
    assert "pool_growth_ms" not in mean
    assert point["pool_use"]["extension_s"] == [12.0] and point["pool_use"]["growth_s"] == []
    assert [*point["extension"]] == [*SIZED_LAYERS]
    assert point["extension"]["virtual_disk"] == {"before_bytes": 64 * MIB, "after_bytes": 96 * MIB, "ms": 100.0}
    (found,) = (finding for finding in summary["findings"] if finding["kind"] == "extension")
    assert "from 64 to 96 MiB under load" in found["text"] and "held for 150 ms" in found["text"]
    assert "with 100 ms, was that of this layer: virtual disk" in found["text"]
    assert "100 files per second before, 148 while the disk was extended, and 100 after it" in found["text"]
    assert "64 MiB から 96 MiB" in found["text_ja"]
    assert found["evidence"]["layers"] == point["extension"]
    assert "growth" not in {finding["kind"] for finding in summary["findings"]}
    study = Study.model_validate(data)
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, study, language)
        figure = next(figure for figure in group.figures if figure.name == "pool")
        assert charts.spec(figure.draw(WIDE))
        table = REPORT.tables(summary, {}, language)[-1]
        rows = [row.cells for row in table.rows if isinstance(row, Row)]
        assert figure.note.endswith(
            {"en": "at the dashed lines.", "ja": "破線はディスクを拡張した時点である。"}[language]
        )
        assert [row[1:] for row in rows] == [["64.0", "96.0", "100" if i == 3 else "50"] for i in range(6)], language
