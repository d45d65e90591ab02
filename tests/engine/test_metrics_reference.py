"""docs/reference/metrics.md lists what the engines give: no more, no less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.capture.namespace import namespace
from tests.peers.array import MIB, TARGET_NAME, Engine, array, lu

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
Names = set[tuple[str, str]]


def _documented() -> dict[str, Names]:
    """Section → (entity pattern or `result`, name)."""
    sections: dict[str, Names] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        found = sections.setdefault(section.splitlines()[0], set())
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            codes = [re.findall(r"`([^`]+)`", cell) for cell in cells[:2]]
            if not line.startswith("| `"):
                continue
            if len(cells) == 4:
                found.update((entity, codes[1][0]) for entity in codes[0])
            else:
                found.add(("result", codes[0][0]))
    return sections


def _pattern(entity: str) -> str:
    """`lu/7` → `lu/N`, as the page writes it."""
    for kind, pattern in {
        r"(lu|port|cpu)/\d+": r"\1/N",
        r"group/\d+": "group/G",
        r"drive/\d+\.\d+": "drive/G.D",
        r"(vm|nic|irq|softirq|pool|backup)/.+": r"\1/NAME",
        r"tcp/.+/(source|destination)": r"tcp/NAME/\1",
        r"tcp/(?!sessions$)[^/]+": "tcp/NAME",
    }.items():
        if re.fullmatch(kind, entity):
            return re.sub(kind, pattern, entity)
    return entity


def _given(sample: dict[str, Any]) -> Names:
    return {(_pattern(entity), name) for entity, names in sample["counters"].items() for name in names}


def _started(engine: Engine) -> dict[str, Any]:
    engine.say({"type": "start", "at_ns": 0})
    return engine.hear("sample")


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
    }


def _lacks_tcp_alone(given: Names, documented: Names) -> bool:
    """A kernel that does not tell all of TCP's story lacks some of it; no more, no less besides."""
    return given <= documented and all(entity.startswith("tcp/") for entity, _ in documented - given)


def test_the_page_lists_what_array_and_initiator_give(tmp_path: Path) -> None:
    page = _documented()
    model = {
        "kind": "array",
        "controller": {"command_us": 1, "data_us_per_mib": 1},
        "cache": {"size_bytes": 64 * MIB, "hit_us": 1},
        "groups": [_group({"kind": "preset", "name": "sata-ssd-960"})],
    }
    pool = {"name": "p", "directory": str(tmp_path), "groups": []}
    with array(lu(0, 64 * MIB, placement={"group": 0, "offset_bytes": 0}), model=model, pools=[pool]) as a:
        sample = _given(_started(a.engine))
        load = Engine({"engine": "initiator", "vms": [_vm(a.portal)], "warmup_s": 0.0, "measure_s": 0.3})
        try:
            load_sample = _given(_started(load))
            load_result = load.hear("result")
        finally:
            load.close()
        result = a.engine.stop()
    modelled_port = {pair for pair in page["array"] if pair[0] == "port/0"}
    assert _lacks_tcp_alone(sample, (page["array"] - modelled_port) | page["Every engine"])
    assert set(result) == {n for e, n in sample if e in ("lu/N", "sessions") and not n.endswith("_now")}
    of_vms = {pair for pair in page["initiator"] if pair[0] != "result"}
    assert _lacks_tcp_alone(load_sample, of_vms | page["Every engine"])
    assert set(load_result["values"]) == {name for entity, name in page["initiator"] if entity != "tcp/NAME"}
    assert {(h["entity"], h["name"]) for h in load_result["histograms"]} == {
        ("vms", "read_latency_ns"),
        ("vms", "write_latency_ns"),
    }


def test_the_page_lists_what_a_backup_gives() -> None:
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
            sample = _given(_started(engine))
            result = engine.hear("result")
        finally:
            engine.close()
    documented = {pair for pair in page["backup"] if pair[0] != "result"} | page["Every engine"]
    assert _lacks_tcp_alone(sample, documented)
    values = {re.sub(r"/a$", "/NAME", name) for name in result["values"]}
    assert values == {name for entity, name in page["backup"] if entity == "result"}
    assert {(h["entity"], h["name"]) for h in result["histograms"]} == {
        ("backups", "read_latency_ns"),
        ("backups", "write_latency_ns"),
    }


def test_the_page_lists_what_watch_gives(tmp_path: Path) -> None:
    page = _documented()
    tcp = {"interval_us": 1000, "ports": [1], "trace": "off", "file": str(tmp_path / "tcp.series")}
    capture = {"interface": "lo", "file": str(tmp_path / "lo.pcapng")}
    with namespace() as place:
        engine = Engine({"engine": "watch", "machine": True, "tcp": tcp, "capture": capture}, place.inside)
        try:
            given = _given(_started(engine))
            result = engine.stop()
        finally:
            engine.close()
    tcp_totals = {name for entity, name in given if entity == "tcp_watch" and not name.endswith("_now")}
    captured = {name for entity, name in given if entity == "capture"} | {"clock_set_ns", "cut_short"}
    assert set(result) == {f"tcp_{name}" for name in tcp_totals} | {f"capture_{name}" for name in captured}
    # A kernel without pressure accounting lacks those; nothing else may be missing.
    missing = (page["watch"] | page["Every engine"]) - given
    assert given <= page["watch"] | page["Every engine"]
    assert all(name.startswith("pressure_") for _, name in missing)


def test_the_page_lists_what_a_probe_gives() -> None:
    server = Engine({"engine": "probe", "role": "server", "listen": "127.0.0.1:0"})
    try:
        portal = server.found["listen"]
        client = Engine({"engine": "probe", "role": "client", "connect": portal, "seconds": 0.2, "round_trips": 50})
        try:
            client.say({"type": "start", "at_ns": 0})
            values = client.hear("result")["values"]
            assert client.process.wait(10) == 0
        finally:
            client.close()
    finally:
        server.close()
    assert set(values) == {name for _, name in _documented()["probe"]}
    assert 0 < values["rtt_us_min"] <= values["rtt_us_p50"] <= values["rtt_us_p99"] <= values["rtt_us_max"]
    assert values["send_bytes_per_s"] > 0
