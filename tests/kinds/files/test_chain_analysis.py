"""Analysis of loads on chains: differences of disks, space of the layers, report."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.fileserver.chain_spec import ChainSpec
from hakaru.fileserver.space import LAYERS as SHOWN
from hakaru.fileserver.space import STAGES, compactions, disagreement, growths
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.kinds.files.analysis.amplification import ratios
from hakaru.kinds.files.report import REPORT
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report import charts
from hakaru.report.blocks import Cell, Row
from hakaru.study import Study
from hakaru.wording import say

from tests.analysis.run_files import RepetitionData, write
from tests.kinds.files import test_analysis as plain
from tests.kinds.files.study import fields
from tests.kinds.files.test_chain import LAB, to

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"
MIB = 1 << 20
PAGE_BYTES = 64 << 10
BELOW = (
    *("lu_reads_per_disk_read", "lu_writes_per_disk_write"),
    *("lu_read_bytes_per_disk_byte", "lu_written_bytes_per_disk_byte", "misaligned_percent"),
)
LAYERS = ("files_bytes", "guest_used_bytes", "image_allocated_bytes", "host_used_bytes", "lu_mapped_bytes")
# A dynamic VHD gives nothing back, so only the first two layers shrink.
GROWING = {
    "created": (0, 0, 20, 52, 70),
    "loaded": (16, 16, 36, 68, 86),
    "deleted": (0, 0, 36, 67, 86),
    "guest_trimmed": (0, 0, 36, 67, 86),
    "host_trimmed": (0, 0, 36, 67, 86),
    "compacted": (0, 0, 16, 47, 66),
}
RETURNING = {
    **GROWING,
    "guest_trimmed": (0, 0, 20, 52, 86),
    "host_trimmed": (0, 0, 20, 52, 70),
    "compacted": (0, 0, 17, 49, 67),
}
FIXED = {stage: sizes for stage, sizes in GROWING.items() if stage != "compacted"}


@dataclass
class Rep:
    """A repetition with a rate, and the bytes of its layers in MiB."""

    files_per_s: float
    stages: dict[str, tuple[int, ...]] = field(default_factory=lambda: GROWING)


@dataclass
class Pt:
    factors: dict[str, Any]
    reps: list[Rep]


def record(disk: dict[str, Any], stages: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The record of a chain, as a run writes it."""
    spec = ChainSpec(VirtualDisk.model_validate({"format": "vhd", "size": "64 MiB"} | disk))
    layers: dict[str, dict[str, int | None]] = {
        stage: {"entries": 40, **{name: size * MIB for name, size in zip(LAYERS, stages[stage], strict=True)}}
        for stage in STAGES
        if stage in stages
    }
    for each in layers.values():
        each["pool_used_bytes"] = each["lu_mapped_bytes"]
    return {
        **spec.describe(),
        "page_bytes": PAGE_BYTES,
        "stages": layers,
        "growths": [growth.to_json() for growth in growths(layers, spec, PAGE_BYTES, 0)],
        "compactions": [growth.to_json() for growth in compactions(layers, spec, PAGE_BYTES)],
        "disagreement": disagreement(layers, spec, PAGE_BYTES, 0),
    }


def build(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    content, samples, histograms = plain.build({"tools": 1}, plain.Rep(rep.files_per_s))
    disk = {"format": factors["disk_format"]} if "disk_format" in factors else {}
    return content | {"chains": {"server": record(disk, rep.stages)}}, samples, histograms


def summary_of(folder: Path, factors: list[dict[str, Any]], *points: Pt) -> dict[str, Any]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to(), factors=factors)
    return summarise(write(folder, {"study": study, "lab": described}, points, build))


def differences(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in summary["findings"] if finding["kind"] == "difference"]


def test_difference_between_disks_has_an_interval_and_a_judgement(tmp_path: Path) -> None:
    levels = [{"disk_cache": ["writeback", "none", "writethrough"]}]
    clear = [Rep(rate) for rate in (100.0, 101.0, 99.0, 100.5)]
    slower = [Rep(rate) for rate in (90.0, 91.0, 89.0, 90.5)]
    noisy = [Rep(rate) for rate in (80.0, 120.0, 95.0, 110.0)]
    points = [
        Pt({"disk_cache": name}, reps)
        for name, reps in zip(levels[0]["disk_cache"], (clear, slower, noisy), strict=True)
    ]
    summary = summary_of(tmp_path, levels, *points)
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    found = differences(summary)
    assert summary["findings"][:2] == found
    assert [finding["text"].split(".")[0] for finding in found] == [
        "none instead of writeback",
        "writethrough instead of writeback",
    ]
    rate = [next(row for row in finding["evidence"]["rows"] if row["metric"] == "files_per_s") for finding in found]
    assert rate[0]["change"] == pytest.approx(-10, abs=0.1) and rate[0]["low"] < -10 < rate[0]["high"] < 0
    assert rate[0]["p_corrected"] < 0.001 < 0.05 < rate[1]["p_corrected"]
    assert rate[0]["p_corrected"] > rate[0]["p"], "corrected for the number of tests"
    assert "Files per second: -10.0\u00a0% (95 % confidence interval" in found[0]["text"]
    assert "The difference is significant" in found[0]["text"] and "差は有意である" in found[0]["text_ja"]
    assert (
        "n = 4 and 4). The difference is not significant" in found[1]["text"] and "有意ではない" in found[1]["text_ja"]
    )


def test_difference_of_single_repetitions_is_not_judged(tmp_path: Path) -> None:
    levels = [{"disk_cache": ["writeback", "none"]}]
    summary = summary_of(tmp_path, levels, *(Pt({"disk_cache": name}, [Rep(100.0)]) for name in ("writeback", "none")))
    (found,) = differences(summary)
    assert "cannot be judged without two repetitions" in found["text"]


def test_points_that_differ_in_more_than_the_chain_are_not_compared(tmp_path: Path) -> None:
    levels = [{"tools": [1, 2], "disk_cache": ["writeback"]}]
    points = [Pt({"tools": tools, "disk_cache": "writeback"}, [Rep(100.0)] * 3) for tools in (1, 2)]
    assert differences(summary_of(tmp_path, levels, *points)) == []


def test_levels_that_also_change_the_guest_are_not_compared(tmp_path: Path) -> None:
    """The rest of the load is the same, and the lab is not."""
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    cache = {"load.to.chain.disk.cache": "none"}
    for other, count in ((cache, 1), (cache | {"lab.load_guest.memory": "2 GiB"}, 0)):
        study = fields(lab=LAB, load=to(), factors=[{"disk": ["plain", "other"]}])
        study["variables"] = {"disk": {"plain": {}, "other": other}}
        points = [Pt({"disk": name}, [Rep(100.0)] * 3) for name in ("plain", "other")]
        folder = tmp_path / str(count)
        folder.mkdir()
        summary = summarise(write(folder, {"study": study, "lab": described}, points, build))
        assert len(differences(summary)) == count


def test_space_of_the_layers_and_of_trim_is_reported(tmp_path: Path) -> None:
    levels = [{"disk_format": ["vhd", "qcow2"]}]
    points = [
        Pt({"disk_format": "vhd"}, [Rep(100.0), Rep(101.0)]),
        Pt({"disk_format": "qcow2"}, [Rep(100.0, RETURNING), Rep(101.0, RETURNING)]),
    ]
    summary = summary_of(tmp_path, levels, *points)
    kept, returned = (finding for finding in summary["findings"] if finding["kind"] == "space")
    assert kept["text"].startswith(
        "vhd: 16 MiB of files made the file system of the virtual disk grow by 16 MiB, the image"
    )
    assert "TRIM of that file system gave back 0 MiB from the image" in kept["text"]
    assert "returned 0 MiB to the pool, less than a quarter of the files" in kept["text"]
    assert "made the image 16 MiB smaller" in returned["text"] and "returned 16 MiB to the pool" in returned["text"]
    assert "プールに 16 MiB が戻った" in returned["text_ja"]
    assert "Compaction of the image then made it 20 MiB smaller" in kept["text"]
    assert kept["text"].endswith("20 MiB returned to the pool.") and kept["evidence"]["compacted"]["lu"] == 20 * MIB
    assert "made it 3 MiB smaller" in returned["text"] and "プールに 3 MiB が戻った" in returned["text_ja"]
    for point in summary["points"]:
        assert all(growth["agrees"] for growth in point["space"]["growths"])
        assert point["space"]["stages"]["loaded"]["lu"] == 86 * MIB
        assert "layers_disagree" not in {caveat["caveat"] for caveat in point["caveats"]}
    assert [point["metrics"]["trim_returned_percent"]["mean"] for point in summary["points"]] == [0, 100]
    letters = {caveat["caveat"]: "a" for point in summary["points"] for caveat in point["caveats"]}
    for language, heading in (("en", "host's df"), ("ja", "ホストの df")):
        space, growth = REPORT.tables(summary, letters, language)[2:]
        assert heading in [column.title for column in space.columns]
        assert len(space.rows) == 2 * (1 + len(STAGES)) and len(growth.rows) == 2 * (1 + 5)


def test_bytes_of_several_chains_are_added_up_and_counted_by_repetition(tmp_path: Path) -> None:
    """The second file server has half of the files, so a mean over chains would be another one."""
    half = {stage: tuple(size // 2 for size in sizes) for stage, sizes in GROWING.items()}

    def build_of_two(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build(factors, rep)
        return content | {"chains": content["chains"] | {"other": record({}, half)}}, samples, histograms

    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to(), factors=[{"disk_cache": ["none"]}])
    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_of_two))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    space = summary["points"][0]["space"]
    assert (space["repetitions"], space["chains"]) == (3, 2)
    assert space["stages"]["loaded"]["files"] == (16 + 8) * MIB
    one = record({}, GROWING)["growths"][0]["allowed_bytes"]
    files = space["growths"][0]
    assert (files["upper_bytes"], files["allowed_bytes"]) == (24 * MIB, 2 * one) and files["agrees"]
    (found,) = (finding for finding in summary["findings"] if finding["kind"] == "space")
    assert found["text"].startswith("24 MiB of files") and "sums over 2 file servers" in found["text"]
    assert "2 台のファイルサーバーの合計" in found["text_ja"]
    assert found["evidence"]["loaded"]["files"] == 24 * MIB
    assert (found["evidence"]["repetitions"], found["evidence"]["chains"]) == (3, 2)


def test_building_has_a_rate_and_the_pool_a_use_over_time(tmp_path: Path) -> None:
    """Two clients build 40 MB each, one from second 0 to 4 and the other from 1 to 5. A pool takes
    10 MiB for each second after the first, and another one nothing.
    """

    def build_of_two(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build(factors, rep)
        for second in range(8):
            at = plain.START + (second - 10) * plain.SECOND
            for client, late in (("one", 0), ("two", 1)):
                if second >= late:
                    done = 10e6 * min(second - late, 4)
                    samples.add(client, "files", at, {"trees": {"bytes_done": done}})
            pools = {"growing": (100 + 10 * max(0, second - 1)) * MIB, "full": 50 * MIB}
            for array, used in pools.items():
                samples.add(array, "array", at, {"pool/pool": {"used_bytes_now": used}})
        return content, samples, histograms

    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to(), factors=[{"disk_cache": ["none"]}])
    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_of_two))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    assert point["metrics"]["build_mb_per_s"]["mean"] == pytest.approx(80 / 5)
    assert point["metrics"]["build_mb_per_s"]["n"] == 3
    assert point["pool_use"]["seconds"] == list(range(8))
    assert point["pool_use"]["bytes"] == [(150 + 10 * max(0, second - 1)) * MIB for second in range(8)]
    (group,) = REPORT.groups(summary, Study.model_validate(study), "en")
    assert "pool" in [figure.name for figure in group.figures]


def test_run_without_samples_of_building_has_no_rate_and_no_figure_of_it(tmp_path: Path) -> None:
    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    (point,) = summary_of(tmp_path, [{"disk_cache": ["none"]}], *points)["points"]
    assert point["metrics"]["build_mb_per_s"]["mean"] is None and "pool_use" not in point


@pytest.mark.parametrize("language", ["en", "ja"])
def test_stack_of_the_layers_is_drawn_after_each_stage_for_each_kind_of_disk(tmp_path: Path, language: str) -> None:
    levels = [{"disk_format": ["vhd", "qcow2"], "disk_cache": ["none", "writeback"]}]
    points = [
        Pt({"disk_format": name, "disk_cache": cache}, [Rep(100.0, stages)] * 2)
        for name, stages in (("vhd", GROWING), ("qcow2", FIXED))
        for cache in ("none", "writeback")
    ]
    summary = summary_of(tmp_path, levels, *points)
    study = Study.model_validate(fields(lab=LAB, load=to(), factors=levels))
    (figure,) = (each for each in REPORT.groups(summary, study, language)[0].figures if each.name == "stack")
    numbers = charts.numbers_of(figure.draw(charts.WIDE))
    words = [say(language, f"stage.{stage}") for stage in STAGES], [say(language, f"layer.{layer}") for layer in SHOWN]
    shown = [
        f"{stage}, {layer}: {sizes[name][place]}"
        for sizes in (GROWING, FIXED)
        for name, stage in zip(STAGES, words[0], strict=True)
        if name in sizes
        for place, layer in zip((0, 1, 2, 3, 4, 4), words[1], strict=True)
    ]
    # The second cache of each disk has the same layers.
    assert numbers == shown
    assert figure.note.startswith(say(language, "origin.measured"))
    assert figure.note.endswith(say(language, "figure.files.stack.alike"))
    for size in (charts.WIDE, charts.NARROW):
        drawn = charts.svg(figure.draw(size))
        assert drawn.count(f">{words[1][-1]}<") == 1, "one legend for all panels"


def test_accesses_of_the_lu_are_counted_for_those_of_the_disk_until_all_is_written_back(tmp_path: Path) -> None:
    """The guest writes 8 MB in 1000 requests; below a dynamic VHD each of them is 2, of 12 MB in
    all. It reads 4 MB in 500 requests, which become 6 MB in 750. A partition, another guest and
    what follows the writing back do not count.
    """
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to(), factors=[{"disk_format": ["raw", "vhd", "qcow2"], "disk_cache": ["none"]}])

    def build_counted(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build(factors, rep)
        is_vhd, end = factors["disk_format"] == "vhd", plain.START + (plain.SECONDS + 4) * plain.SECOND
        # Half of the growth is after the load.
        for step, share in enumerate((0.0, 0.5, 1.0)):
            at = plain.START - plain.SECOND + step * (end - plain.START + plain.SECOND) // 2
            disk = {"reads": 500.0, "writes": 1000.0, "read_bytes": 4e6, "write_bytes": 8e6}
            factor = {"reads": 1.5, "writes": 2.0, "read_bytes": 1.5, "write_bytes": 1.5}
            noise = rep.files_per_s / 100
            lu = {name: value * (factor[name] * noise if is_vhd else 1.0) for name, value in disk.items()}
            above = {f"disk/{name}": {key: share * each for key, each in disk.items()} for name in ("nbd0", "nbd0p1")}
            samples.add("server", "watch", at, above | {"disk/sda": {key: share * each for key, each in lu.items()}})
            samples.add("client", "watch", at, {"disk/nbd0": dict.fromkeys(disk, share * 1000000000.0)})
            samples.add("storage", "array", at, {"lu/0": {key: share * each for key, each in lu.items()}})
        samples.add("storage", "array", end + plain.SECOND, {"lu/0": dict.fromkeys(lu, 1e9)})
        loaded = content["chains"]["server"]["stages"]["loaded"]
        loaded |= {"image_data_bytes": 16 * MIB, "misaligned_bytes": 14 * MIB if is_vhd else 0}
        content["chains"]["server"] |= {"array": "storage", "written_back_ns": end}
        return content, samples, histograms

    noisy = [Rep(rate) for rate in (99.0, 100.0, 101.0)]
    points = [Pt({"disk_format": name, "disk_cache": "none"}, noisy) for name in ("raw", "vhd", "qcow2")]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_counted))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    found = [[point["metrics"][name]["mean"] for name in BELOW] for point in summary["points"]]
    assert found == [
        pytest.approx([1, 1, 1, 1, 0]),
        pytest.approx([1.5, 2, 1.5, 1.5, 87.5]),
        pytest.approx([1, 1, 1, 1, 0]),
    ]
    # Both aligned disks are compared with, also the one that follows.
    costs = [finding for finding in summary["findings"] if finding["kind"] == "misalignment"]
    assert [finding["evidence"]["base"] for finding in costs] == ["raw", "qcow2"]
    for finding, base in zip(costs, ("raw", "qcow2"), strict=True):
        rows = {row["metric"]: row for row in finding["evidence"]["rows"]}
        assert [rows[name]["change"] for name in BELOW[:4]] == pytest.approx([50, 100, 50, 50], abs=0.1)
        assert all(row["low"] < row["change"] < row["high"] and row["p_corrected"] < 0.01 for row in rows.values())
        assert finding["text"].startswith(f"none: vhd instead of {base}: 87.5 % of its data")
        assert "Writes of the LU per write of the virtual disk: +100" in finding["text"]
        assert "書き込み 1 回あたりの LU の書き込み数" in finding["text_ja"]
    letters = {caveat["caveat"]: "a" for point in summary["points"] for caveat in point["caveats"]}
    (table,) = (each for each in REPORT.tables(summary, letters, "en") if "for each access" in each.caption)
    (row,) = (row for row in table.rows if isinstance(row, Row) and "vhd" in row.cells)
    shown = [cell.text for cell in row.cells if isinstance(cell, Cell)]
    assert shown == ["1.50", "2", "1.50", "1.50"] and "87.5" in row.cells
    # A partition that begins amid a block misaligns every disk.
    study["load"]["to"]["chain"]["partition_start"] = 63
    summary = summarise(write(tmp_path / "partition", {"study": study, "lab": described}, points, build_counted))
    assert not [finding for finding in summary["findings"] if finding["kind"] == "misalignment"]


def test_disk_that_is_hardly_read_has_no_ratio_of_reads() -> None:
    few = {"reads": (10.0, 4.0), "read_bytes": (40e3, 16e3), "writes": (100.0, 150.0), "write_bytes": (4e6, 6e6)}
    found = ratios([few])
    assert [found[name] for name in BELOW[1:4:2]] == [1.5, 1.5]
    assert all(math.isnan(found[name]) for name in BELOW[0:4:2])
    assert all(math.isnan(value) for value in ratios([]).values())


def test_disk_that_was_not_compacted_has_no_such_stage(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, [{"disk_cache": ["none"]}], Pt({"disk_cache": "none"}, [Rep(100.0, FIXED)] * 2))
    (point,) = summary["points"]
    assert list(point["space"]["stages"]) == list(FIXED)
    letters = {caveat["caveat"]: "a" for caveat in point["caveats"]}
    assert len(REPORT.tables(summary, letters, "en")[2].rows) == 1 + len(FIXED)
    (found,) = (finding for finding in summary["findings"] if finding["kind"] == "space")
    assert "Compaction" not in found["text"] and found["evidence"]["compacted"] is None


@pytest.mark.parametrize(
    ("compacted", "upper"),
    [((0, 0, 16, 47, 66), None), ((0, 0, 16, 60, 79), "image"), ((0, 0, 16, 47, 86), "host")],
)
def test_layers_must_also_agree_about_what_compaction_returned(
    tmp_path: Path, compacted: tuple[int, ...], upper: str | None
) -> None:
    found = record({}, GROWING | {"compacted": compacted})["disagreement"]
    assert (found and (found["stage"], found["upper"])) == (upper and ("compacted", upper))


def test_layers_that_do_not_agree_mark_their_point(tmp_path: Path) -> None:
    lost = {**GROWING, "loaded": (60, 60, 80, 112, 70)}
    summary = summary_of(tmp_path, [{"disk_cache": ["none"]}], Pt({"disk_cache": "none"}, [Rep(100.0, lost)] * 3))
    (caveat,) = [c for c in summary["points"][0]["caveats"] if c["caveat"] == "layers_disagree"]
    assert (caveat["values"]["upper"], caveat["values"]["lower"]) == ("host", "lu")
    assert "`host` and `lu` differs by 62,914,560 bytes" in caveat["text"]
    assert not summary["points"][0]["space"]["growths"][3]["agrees"]


def test_a_cold_load_must_reach_the_drives_behind_a_modelled_cache(tmp_path: Path) -> None:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to() | {"cold": True}, factors=[{"disk": ["cold", "warm"]}])
    study["variables"] = {"disk": {"cold": {}, "warm": {}}}

    def build_of_array(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build({}, rep)
        share = {"cold": 1.0, "warm": 0.5}[factors["disk"]]
        for second in range(-1, plain.SECONDS + 2):
            # Tools read 0.8 MB per file. One read of the LU in ten is read ahead.
            files = rep.files_per_s * (second + 1)
            below = {
                "lu/0": {"read_bytes": 0.8e6 * files, "write_bytes": 0.3e6 * files},
                "group/0": {"read_bytes": 0.8e6 * files * share},
                "cache": {
                    "read_hits": (10 - 9 * share) * files,
                    "readahead_hits": share * files,
                    "read_misses": 9 * share * files,
                },
            }
            samples.add("storage", "array", plain.START + second * plain.SECOND, below)
        return content, samples, histograms

    points = [Pt({"disk": name}, [Rep(100.0)] * 2) for name in ("cold", "warm")]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_of_array))
    cold, warm = summary["points"]
    shares = {
        name: [point["metrics"][name]["mean"] for point in (cold, warm)]
        for name in ("read_below_percent", "read_from_drives_percent", "cache_hit_percent")
    }
    assert shares["read_below_percent"] == pytest.approx([100, 100])
    assert cold["metrics"]["lu_write_to_read"]["mean"] == pytest.approx(0.3 / 0.8)
    assert shares["read_from_drives_percent"] == pytest.approx([100, 50])
    assert shares["cache_hit_percent"] == pytest.approx([0, 50])
    found = [
        [each["values"] for each in point["caveats"] if each["caveat"] == "cache_not_cold"] for point in (cold, warm)
    ]
    assert found == [[], [{"layer": "drives", "percent": pytest.approx(50), "asked": 90.0}]]


def test_counters_of_different_intervals_are_joined_on_one_clock(tmp_path: Path) -> None:
    """Tools copy from second 0 on. The array is sampled every 2 s, between the samples of the
    tools, and a drive of it five times a second. It is idle, but for half a second.
    """
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to() | {"cold": True}, factors=[{"disk_cache": ["none"]}])

    def build_of_array(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build(factors, rep)

        def read(second: float) -> float:
            return 0.8e6 * rep.files_per_s * (max(0.0, second) + 1)

        # The sample before the window is of a time in which the array delivered nothing.
        for second in (-3.5, -1.5, 0.5, 2.5, 4.5):
            at = plain.START + int(second * plain.SECOND)
            group = {"queue_ns": 0.0, "ops": read(second)}
            samples.add("storage", "array", at, {"lu/0": {"read_bytes": read(second)}, "group/0": group})
        for step in range(5 * plain.SECONDS):
            second = step / 5
            busy = min(0.5, max(0.0, second - 1)) * plain.SECOND
            # A flash drive always has a command, and its busiest part is its dies.
            drive = {"busy_ns": second * plain.SECOND, "dies_busy_ns": 0.8 * busy, "queue_ns": 30 * busy}
            at = plain.START + int(second * plain.SECOND)
            samples.add("storage", "array", at, {"drive/0.0": drive})
        return content, samples, histograms

    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_of_array))
    (point,) = summary["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert mean["read_below_percent"] == pytest.approx(100)
    assert mean["drive_busy_percent_max"] == pytest.approx(80)
    assert mean["commands_per_drive_max"] == pytest.approx(30)
    assert not [caveat for caveat in point["caveats"] if caveat["caveat"] == "cache_not_cold"]
    drives = point["utilisation"]["drives"]["mean"]
    assert drives == pytest.approx(80 * 0.5 / (plain.SECONDS - 0.2))
    letters = {caveat["caveat"]: "a" for caveat in point["caveats"]}
    (row,) = REPORT.tables(summary, letters, "en")[3].rows
    assert isinstance(row, Row)
    shown = [(cell.text, cell.small) for cell in row.cells if isinstance(cell, Cell)]
    assert shown == [("10.5", "80.0"), ("3.9", "30.0")]


def test_guest_of_a_chain_has_metrics_of_its_own(tmp_path: Path) -> None:
    """The guest is full, and the machine that runs it, which the node `server` reports, is not."""
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=to(), factors=[{"disk_cache": ["none"]}])

    def build_with_guest(factors: dict[str, Any], rep: Rep) -> RepetitionData:
        content, samples, histograms = build(factors, rep)
        for second in range(plain.SECONDS):
            at, grown = plain.START + second * plain.SECOND, float(second * plain.SECOND)
            available = {"mem_available_bytes_now": float((500 - second) * MIB)}
            disk = {"reads": 10.0 * second, "read_latency_ns_sum": 0.6 * grown, "busy_ns": 0.6 * grown}
            disk |= {"writes": 10.0 * second, "write_latency_ns_sum": 0.2 * grown, "queue_ns": 0.8 * grown}
            guest = {"machine": {"user_ns": grown, "idle_ns": 0.0} | available, "disk/sda": disk}
            guest["disk/nbd0"] = {name: 2 * value for name, value in disk.items()} | {"busy_ns": 0.9 * grown}
            samples.add("guest", "watch", at, guest)
        return content | {"guests": {"guest": {"initiator": "open-iscsi"}}}, samples, histograms

    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, points, build_with_guest))
    (point,) = summary["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert mean["machine_percent"] == pytest.approx(plain.Rep(100.0).cpu)
    assert mean["guest_percent"] == pytest.approx(100)
    assert mean["guest_available_mib"] == pytest.approx(500 - (plain.SECONDS - 1))
    assert mean["guest_disk_response_ms"] == pytest.approx(40)
    assert mean["guest_disk_queue"] == pytest.approx(1.6)
    assert mean["guest_disk_busy_percent"] == pytest.approx(90)
    assert {"cpu/machine"} == {name for name in point["utilisation"] if name.startswith("cpu/machine")}
    assert point["limiter"] != "machine_cpu"
    assert not [caveat for caveat in point["caveats"] if "saturated" in caveat["caveat"]]
    for language, heading in (("en", "response of the slowest disk, ms"), ("ja", "最も遅いディスクの応答、ms")):
        letters = {caveat["caveat"]: "a" for caveat in point["caveats"]}
        tables = REPORT.tables(summary, letters, language)
        (row,) = next(table for table in tables if heading in [column.title for column in table.columns]).rows
        assert isinstance(row, Row)
        assert [float(str(cell)) for cell in row.cells[-5:]] == pytest.approx([100, 497, 40, 1.6, 90])
    (judged,) = (each for each in point["rule_book"] if each["rule"] == "response_time")
    assert judged["device"] in ("disk/sda/guest", "disk/nbd0/guest") and judged["outcome"] == "fine"
