"""Runs of a copy study in a lab with an emulated network, and on existing equipment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hakaru.report.points_table import print_summary
from hakaru.store import RunReader

from tests.run.conftest import Hakaru, LoopbackArray
from tests.study.copying import COPYING, PUBLISHED

COPY = """\
format: 1
id: copy
title: {en: Copy, ja: 複製}
question: {en: Does it copy?, ja: 複製できるか}
expectation: {en: It does., ja: できる}
origin: emulated
lab:
  hosts: [kvm]
  arrays: [primary, vtl]
  switches: {core: {forwarding: cut_through}, edge: {}}
  links:
    kvm: {between: [kvm, core], rate: 100 Mbit/s, sustained: 1 Mbit/s}
    primary: {between: [primary, core], rate: 100 Mbit/s, sustained: 1 Mbit/s}
    uplink: {between: [core, edge], rate: 100 Mbit/s, sustained: 1 Mbit/s}
    vtl: {between: [vtl, edge], rate: 50 Mbit/s, sustained: 1 Mbit/s}
arrays:
  primary:
    target_name: iqn.2013-01.example.hakaru:primary
    model: {kind: none}
    lus: [{lun: 0, size: 8 MiB, fill: {}}]
  vtl:
    target_name: iqn.2013-01.example.hakaru:vtl
    model: {kind: none}
    lus: [{lun: 0, size: 8 MiB}]
load:
  kind: copy
  jobs: 2
  image: 1 MiB
  block: 64 KiB
  depth: 2
  from: {array: primary, lus: [0]}
  to: {array: vtl, lus: [0]}
  time_limit: 20 s
variables:
  case:
    plain: {load.verify: true}
    held: {lab.links.kvm.send_rate: 20 Mbit/s, lab.mtu: 9000}
    slow: {load.rate_limit: 1 Mbit/s, load.time_limit: 1 s}
factors: [{case: [plain, held, slow]}]
measure: {repetitions: 1, sample_interval: 100 ms}
"""


@dataclass(frozen=True)
class Copied:
    """A run of the study: its output and its directory."""

    events: list[dict[str, Any]]
    stderr: str
    reader: RunReader

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """Case → record."""
        return {record["factors"]["case"]: record for record in self.reader.repetitions()}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """Run a study of three points of some seconds each."""
    folder = tmp_path_factory.mktemp("copied")
    path = folder / "copy" / "study.yaml"
    path.parent.mkdir()
    path.write_text(COPY)
    hakaru = Hakaru(folder / "runs")
    result = hakaru.run("run", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return Copied(events, result.stderr, RunReader(hakaru.only_run()))


def values_of(record: dict[str, Any], engine: str) -> dict[str, float]:
    (values,) = [e["values"] for e in record["engines"] if e["engine"] == engine]
    return dict(values)


def last_of(reader: RunReader, record: dict[str, Any], engine: str) -> dict[tuple[str, str], float]:
    """Return (entity, name) → last value of an engine."""
    rows = reader.samples(record["point"], record["repetition"]).to_pylist()
    rows = sorted((row for row in rows if row["engine"] == engine), key=lambda row: row["at_ns"])
    return {(row["entity"], row["name"]): row["value"] for row in rows}


def test_copy_runs_through_an_emulated_network_that_each_point_changes(copied: Copied) -> None:
    assert any("copied_percent" in e for e in copied.events if e["event"] == "sample")
    reader, records = copied.reader, copied.records
    assert set(records) == {"plain", "held", "slow"}
    for record in records.values():
        engines = sorted((e["engine"], e["node"]) for e in record["engines"])
        assert [n for e, n in engines if e != "watch"] == ["primary", "vtl", "kvm", "fabric"]
        assert {n for e, n in engines if e == "watch"} == {"primary", "vtl", "kvm", "fabric"}
        assert 0 < record["measure"]["start_ns"] < record["measure"]["end_ns"]
        # Before it stopped, the network had delivered or dropped every frame.
        fabric = last_of(reader, record, "fabric")
        for link in ("kvm", "primary", "uplink", "vtl"):
            for direction in ("a-b", "b-a"):
                counts = {
                    name: value for (entity, name), value in fabric.items() if entity == f"link/{link}/{direction}"
                }
                dropped = sum(v for name, v in counts.items() if name.startswith("dropped"))
                assert counts["frames_in"] == counts["frames_out"] + dropped, (link, direction)

    def rate(case: str) -> float:
        record = records[case]
        seconds = (record["measure"]["end_ns"] - record["measure"]["start_ns"]) / 1e9
        return values_of(record, "backup")["bytes"] * 8 / seconds

    for case, most in (("plain", 50e6), ("held", 20e6)):
        assert values_of(records[case], "backup")["bytes"] == 2 << 20
        # The last blocks are in flight when the clock stops, so the rate cannot exceed that of the
        # link.
        assert rate(case) <= most, case
    assert values_of(records["plain"], "backup")["mismatches"] == 0
    assert values_of(records["plain"], "backup")["verified_bytes"] == 2 << 20
    # The frames have 9000 bytes, so both ends use the MTU of the point.
    held = last_of(reader, records["held"], "fabric")
    assert held["link/vtl/b-a", "bytes_out"] / held["link/vtl/b-a", "frames_out"] > 1600


def test_copy_ended_by_its_time_limit_keeps_its_rate_and_has_a_caveat(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(copied.reader.read("summary.json"), [])
    assert "2 of 2 copies were not complete after 1 s" in capsys.readouterr().out
    assert copied.stderr.count("baseline: ") == 1, "plain TCP is measured once, although the load is a copy on links"
    record = copied.records["slow"]
    assert "not_finished" in {c["caveat"] for c in record["caveats"]}
    assert values_of(record, "backup")["jobs_done"] == 0
    lab = copied.reader.read("lab.json")
    assert lab["tcp"]
    assert {(b["from"], b["to"]) for b in lab["baselines"]} == {("kvm", "primary"), ("kvm", "vtl")}


SITE_STUDY = COPYING.replace("{lab.array_link.rate: 200 Mbit/s}", "{load.depth: 1}")


def site_study(folder: Path) -> Path:
    path = folder / "copying" / "study.yaml"
    path.parent.mkdir()
    path.write_text(SITE_STUDY)
    (path.parent / "published.csv").write_text(PUBLISHED)
    return path


def write_copy_site(folder: Path, array: LoopbackArray, *, expendable: bool, roles: bool = True) -> Path:
    lu = {"portal": array.portal, "target_name": array.target_name, "lun": 0}
    source, destination = dict(lu), {**lu, "lun": 1, "expendable": expendable}
    if roles:
        source["role"], destination["role"] = "source", "destination"
    path = folder / "site.yaml"
    path.write_text(json.dumps({"format": 1, "name": "loopback", "lus": [source, destination]}))
    return path


@pytest.mark.parametrize(
    ("expendable", "roles", "only", "message"),
    [
        (False, True, "case=plain", "LU 1 of"),
        (True, False, "case=plain", "names no source"),
        (True, True, "buffer=64 KiB", "changes the lab, which a site does not have"),
    ],
)
def test_copy_on_a_site_is_refused_before_anything_is_written(
    hakaru: Hakaru, array: LoopbackArray, tmp_path: Path, expendable: bool, roles: bool, only: str, message: str
) -> None:
    site = write_copy_site(tmp_path, array, expendable=expendable, roles=roles)
    result = hakaru.ask("run", str(site_study(tmp_path)), "--site", str(site), "--only", only)
    assert result.returncode == 2
    assert "nothing was written" in result.stderr and message in result.stderr


def test_copy_between_lus_of_a_site_is_measured(hakaru: Hakaru, two_lus: LoopbackArray, tmp_path: Path) -> None:
    site = write_copy_site(tmp_path, two_lus, expendable=True)
    arguments = ("--site", str(site), "--only", "case=plain", "--repetitions", "1", "--report", "none")
    result = hakaru.run("run", str(site_study(tmp_path)), *arguments)
    assert result.returncode in (0, 4, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["origin"] == "measured"
    assert values_of(record, "backup")["bytes"] == 32 << 20
