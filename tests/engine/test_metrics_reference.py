"""docs/reference/metrics.md lists exactly the metrics of the engines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hakaru.files.tree import TreeSpec

from tests.capture.namespace import namespace
from tests.peers.array import MIB, TARGET_NAME, Engine, array, lu

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
Names = set[tuple[str, str]]


def _documented() -> dict[str, Names]:
    """Return section → (entity pattern or `result`, name)."""
    sections: dict[str, Names] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        metrics = sections.setdefault(section.splitlines()[0], set())
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            codes = [re.findall(r"`([^`]+)`", cell) for cell in cells[:2]]
            if not line.startswith("| `"):
                continue
            if len(cells) == 4:
                metrics.update((entity, codes[1][0]) for entity in codes[0])
            else:
                metrics.add(("result", codes[0][0]))
    return sections


def _pattern(entity: str) -> str:
    """Return an entity's pattern as the page writes it: `lu/7` → `lu/N`."""
    for kind, pattern in {
        r"(lu|port|cpu|tape)/\d+": r"\1/N",
        r"group/\d+": "group/G",
        r"drive/\d+\.\d+": "drive/G.D",
        r"(vm|vms|paths|nic|irq|softirq|disk|pool|cap|share|backup)/.+": r"\1/NAME",
        r"tcp/.+/(source|destination)": r"tcp/NAME/\1",
        r"tcp/(?!sessions$)[^/]+": "tcp/NAME",
    }.items():
        if re.fullmatch(kind, entity):
            return re.sub(kind, pattern, entity)
    return entity


def _present_names(sample: dict[str, Any]) -> Names:
    return {(_pattern(entity), name) for entity, names in sample["counters"].items() for name in names}


def _started(engine: Engine) -> dict[str, Any]:
    engine.send({"type": "start", "at_ns": 0})
    return engine.wait_for("sample")


def _group(drive: dict[str, Any]) -> dict[str, Any]:
    return {"raid": "raid0", "drives": 1, "stripe_unit_bytes": 65536, "drive": drive}


def _vm(portal: str) -> dict[str, Any]:
    return {
        "name": "a",
        "destination": {
            "kind": "iscsi",
            "portal": portal,
            "target_name": TARGET_NAME,
            "lun": 0,
            "initiator_name": "iqn.2026-01.org.hakaru:a",
        },
        "region": {"offset_bytes": 0, "length_bytes": 0},
        "pattern": {"sizes": [{"bytes": 4096}], "read_percent": 50, "random_percent": 100},
        "load": {"kind": "closed", "queue_depth": 1},
        "seed": 1,
        "group": 0,
    }


def _lacks_only_tcp(present: Names, documented: Names) -> bool:
    """Return whether all documented metrics are present, except TCP's, some of which a kernel may
    lack.
    """
    return present <= documented and all(entity.startswith("tcp/") for entity, _ in documented - present)


def test_metrics_page_lists_the_metrics_of_array_and_initiator(tmp_path: Path) -> None:
    page = _documented()
    model = {
        "kind": "array",
        "controller": {"command_us": 1, "data_us_per_mib": 1},
        "cache": {"size_bytes": 64 * MIB, "hit_us": 1},
        "groups": [_group({"kind": "preset", "name": "sata-ssd-960"})],
    }
    pool = {"name": "p", "directory": str(tmp_path), "groups": []}
    more = {"model": model, "pools": [pool], "caps": [{"name": "c", "iops": 1_000_000}]}
    more |= {"shares": {"in_flight": 16, "classes": [{"name": "s", "share": 1}]}}
    with array(lu(0, 64 * MIB, placement={"group": 0, "offset_bytes": 0}), **more) as a:
        sample = _present_names(_started(a.engine))
        times = {"warmup_s": 0.0, "measure_s": 0.3}
        load = Engine({"engine": "initiator", "vms": [_vm(a.portal)], "groups": ["g"], **times})
        try:
            load_sample = _present_names(_started(load))
            load_result = load.wait_for("result")
        finally:
            load.close()
        result = a.engine.stop()
    others = {pair for pair in page["array"] if pair[0] in ("port/0", "tape/N")}
    assert _lacks_only_tcp(sample, (page["array"] - others) | page["Every engine"])
    assert set(result) == {n for e, n in sample if e in ("lu/N", "sessions") and not n.endswith("_now")}
    of_vms = {pair for pair in page["initiator"] if pair[0] not in ("result", "paths/NAME")}
    assert _lacks_only_tcp(load_sample, of_vms | page["Every engine"])
    assert set(load_result["values"]) == {
        name for entity, name in page["initiator"] if entity not in ("tcp/NAME", "paths/NAME")
    }
    assert {(h["entity"], h["name"]) for h in load_result["histograms"]} == {
        (entity, f"{op}_latency_ns") for entity in ("vms", "vms/g") for op in ("read", "write")
    }


def test_metrics_page_lists_the_metrics_of_tape_drives() -> None:
    library = {
        "lun": 0,
        "drives": [{"lun": 1, "generation": "lto5"}],
        "slots": 1,
        "cartridges": [],
        "capacity_bytes": MIB,
        "early_warning_bytes": 0,
    }
    with array(tape_library=library | {"times": {}}) as timed:
        sample = _present_names(_started(timed.engine))
    tapes = {pair for pair in sample if pair[0] == "tape/N"}
    assert tapes == {pair for pair in _documented()["array"] if pair[0] == "tape/N"}
    with array(tape_library=library) as untimed:
        assert not any(entity == "tape/N" for entity, _ in _present_names(_started(untimed.engine)))


def test_metrics_page_lists_the_metrics_of_paths() -> None:
    page = _documented()
    with array(lu(0, 64 * MIB), portals=["127.0.0.1:0"] * 2) as a:
        first, second = a.engine.found["portals"]
        vm = _vm(first) | {"group": None}
        vm["destination"]["other_portals"] = [second]
        load = Engine({"engine": "initiator", "vms": [vm], "multipath": {}, "warmup_s": 0.0, "measure_s": 0.3})
        try:
            sample = _present_names(_started(load))
        finally:
            load.close()
    paths = {pair for pair in sample if pair[0] == "paths/NAME"}
    assert paths == {pair for pair in page["initiator"] if pair[0] == "paths/NAME"}
    assert not any(entity.startswith("tcp/") for entity, _ in sample)


def test_metrics_page_lists_the_metrics_of_a_backup() -> None:
    page = _documented()
    with array(lu(0, MIB), lu(1, 2 * MIB)) as a:
        place = {"portal": a.portal, "target_name": TARGET_NAME, "initiator_name": "iqn.2026-01.org.hakaru:a"}
        job = {
            "name": "a",
            "source": {**place, "lun": 0},
            "destination": {**place, "lun": 1},
            "length_bytes": MIB,
            "compression": {"kind": "zstd", "level": 1},
            "verify": True,
        }
        engine = Engine({"engine": "backup", "jobs": [job], "time_limit_s": 0.0})
        try:
            sample = _present_names(_started(engine))
            result = engine.wait_for("result")
        finally:
            engine.close()
    documented = {pair for pair in page["backup"] if pair[0] != "result"} | page["Every engine"]
    assert _lacks_only_tcp(sample, documented)
    values = {re.sub(r"/a$", "/NAME", name) for name in result["values"]}
    assert values == {name for entity, name in page["backup"] if entity == "result"}
    assert {(h["entity"], h["name"]) for h in result["histograms"]} == {
        ("backups", "read_latency_ns"),
        ("backups", "write_latency_ns"),
    }


def test_metrics_page_lists_the_metrics_of_a_watch(tmp_path: Path) -> None:
    page = _documented()
    tcp = {"interval_us": 1000, "ports": [1], "trace": "off", "file": str(tmp_path / "tcp.series")}
    capture = {"interface": "lo", "file": str(tmp_path / "lo.pcapng")}
    with namespace() as place:
        engine = Engine({"engine": "watch", "machine": True, "tcp": tcp, "capture": capture}, place.inside)
        try:
            present = _present_names(_started(engine))
            result = engine.stop()
        finally:
            engine.close()
    tcp_totals = {name for entity, name in present if entity == "tcp_watch" and not name.endswith("_now")}
    captured = {name for entity, name in present if entity == "capture"} | {"clock_set_ns", "cut_short"}
    assert set(result) == {f"tcp_{name}" for name in tcp_totals} | {f"capture_{name}" for name in captured}
    # Only the metrics of pressure accounting may be missing, which some kernels lack.
    missing = (page["watch"] | page["Every engine"]) - present
    assert present <= page["watch"] | page["Every engine"]
    assert all(name.startswith("pressure_") for _, name in missing)


def test_metrics_page_lists_the_metrics_of_a_load_on_files(tmp_path: Path) -> None:
    page = _documented()["files"]
    trees = TreeSpec.model_validate({"trees": 1, "depth": 2, "folders": 2, "targets": 20, "scale": "1/10000"})
    config = {
        "engine": "files",
        "task": "load",
        "destination": {"kind": "directory", "path": str(tmp_path / "trees")},
        "trees": trees.config().model_dump(),
        "build": True,
        "tools": 1,
        "seed": 1,
    }
    engine = Engine(config)
    try:
        sample = _present_names(_started(engine))
        result = engine.wait_for("result")
    finally:
        engine.close()
    assert sample == {pair for pair in page if pair[0] in ("files", "trees")} | _documented()["Every engine"]
    of_load = {name for entity, name in page if entity in ("files", "result") and not name.endswith("_now")}
    of_load -= {histogram["name"] for histogram in result["histograms"]}
    assert set(result["values"]) == of_load


def test_metrics_page_lists_the_metrics_of_a_probe() -> None:
    server = Engine({"engine": "probe", "role": "server", "listen": "127.0.0.1:0"})
    try:
        portal = server.found["listen"]
        client = Engine({"engine": "probe", "role": "client", "connect": portal, "seconds": 0.2, "round_trips": 50})
        try:
            client.send({"type": "start", "at_ns": 0})
            values = client.wait_for("result")["values"]
            assert client.process.wait(60) == 0
        finally:
            client.close()
    finally:
        server.close()
    assert set(values) == {name for _, name in _documented()["probe"]}
    assert 0 < values["rtt_us_min"] <= values["rtt_us_p50"] <= values["rtt_us_p99"] <= values["rtt_us_max"]
    assert values["send_bytes_per_s"] > 0


def test_metrics_page_lists_the_metrics_of_plain_streams() -> None:
    server = Engine({"engine": "probe", "role": "server", "listen": "127.0.0.1:0"})
    try:
        times = {"warmup_s": 0.1, "measure_s": 0.2, "sample_interval_ms": 100}
        stream = Engine({"engine": "probe", "role": "stream", "connect": server.found["listen"], "streams": 2} | times)
        try:
            present = _present_names(_started(stream)) - _documented()["Every engine"]
            values = stream.wait_for("result")["values"]
            assert stream.process.wait(60) == 0
        finally:
            stream.close()
    finally:
        server.close()
    assert ("tcp/NAME", "connections_now") in present
    assert present - {("tcp/NAME", "connections_now")} <= _documented()["initiator"]
    assert set(values) == {name for _, name in present if not name.endswith("_now")}
    assert values["acked_bytes"] > 0
