"""Plain TCP streams beside loads over iSCSI: analysis, report, engine configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.engine import contract
from hakaru.kinds.vms import consistency, path, path_figures
from hakaru.kinds.vms.hypervisor import Hypervisor
from hakaru.kinds.vms.load import load_at
from hakaru.kinds.vms.run import RUN
from hakaru.kinds.vms.stream_meter import StreamMeter
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.study import expand
from pydantic import TypeAdapter

from tests.analysis.small_distance import Load, Pt, factors, spec_of, write_run
from tests.study.shipped import shipped

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"


def streamed(mb_per_s: float, settings: str = "default", rtt_ms: int = 20, **more: Any) -> Pt:
    """Return a point with plain streams."""
    stream = Load(spec_of("default", rtt_ms), stream_mb_per_s=mb_per_s, **more)
    return Pt(factors(rtt_ms, settings, transport="stream"), [stream] * 2)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Summary of three settings at three distances, with streams for the first and the last."""
    settings = ("default", "parameters", "optimised")
    loads = [Pt(factors(rtt, s), [Load(spec_of(s, rtt))] * 2) for s in settings for rtt in (10, 20, 40)]
    streams = [streamed(117.0, s, rtt) for s in ("default", "optimised") for rtt in (10, 20, 40)]
    return summarise(write_run(tmp_path_factory.mktemp("runs"), [*loads, *streams]))


def point(summary: dict[str, Any], **levels: Any) -> dict[str, Any]:
    (found,) = [p for p in summary["points"] if p["factors"] == factors(20) | levels]
    return dict(found)


def test_stream_has_a_rate_and_tcp_s_clocks_but_no_requests(summary: dict[str, Any]) -> None:
    metrics = point(summary, transport="stream")["metrics"]
    assert metrics["mb_per_s"]["mean"] == pytest.approx(117.0)
    assert metrics["mb_per_s"]["n"] == 2
    assert metrics["iops"]["mean"] is None and metrics["latency_ms_mean"]["mean"] is None
    assert metrics["r2ts_per_command"]["mean"] is None
    shares = [metrics[f"tcp_{state}_percent"]["mean"] for state in ("idle", "receive_window", "send_buffer", "path")]
    assert sum(shares) == pytest.approx(100)


def test_bound_of_a_stream_is_the_link_without_headers(summary: dict[str, Any]) -> None:
    stream = point(summary, transport="stream")
    assert [b["bound"] for b in stream["bounds"]] == ["link", "window"]
    assert stream["bounds"][0]["mb_per_s"] == pytest.approx(125 * 1448 / 1538)
    assert stream["caveats"] == [] or {c["caveat"] for c in stream["caveats"]} == {"few_repetitions"}


def test_loads_name_the_stream_over_the_same_path_with_the_same_tcp(summary: dict[str, Any]) -> None:
    default, parameters = point(summary), point(summary, settings="parameters")
    stream = point(summary, transport="stream")
    # Both settings have the same lab and sockets.
    assert default["plain_stream"]["point"] == parameters["plain_stream"]["point"] == stream["point"]
    percent = 100 * default["metrics"]["mb_per_s"]["mean"] / 117.0
    assert default["plain_stream"]["percent"] == pytest.approx(percent)
    # The third setting has larger buffers.
    other = point(summary, settings="optimised", transport="stream")
    assert point(summary, settings="optimised")["plain_stream"]["point"] == other["point"] != stream["point"]
    assert "plain_stream" not in stream


def test_report_with_streams_matches_the_schema(summary: dict[str, Any]) -> None:
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_streams_are_drawn_beside_the_loads_and_listed_with_them(summary: dict[str, Any], language: str) -> None:
    assert [c["plain_stream"] for c in summary["curves"]] == [False] * 3 + [True] * 2
    assert len(path_figures.groups(summary)) == 1
    figures = path_figures.of_run(summary, language)
    assert [f.name for f in figures if f.name.startswith("throughput")] == ["throughput_0"]
    # The window of the stream stands beside that of the load, of which it is the plain form.
    assert [f.name for f in figures if f.name.startswith("window")] == ["window", "window_stream"]
    letters = {caveat["caveat"]: "a" for p in summary["points"] for caveat in p["caveats"]}
    (table,) = path.streams_table(summary, letters, language)
    assert len(table.rows) == 9
    assert all(len(row.cells) == len(table.columns) for row in table.rows)


def test_without_streams_there_is_no_table_of_them(tmp_path: Path) -> None:
    runs = write_run(tmp_path, [Pt(factors(rtt), [Load(spec_of("default", rtt))]) for rtt in (10, 20)])
    assert path.streams_table(summarise(runs), {"few_repetitions": "a"}, "en") == []


def test_engines_of_a_stream_use_the_port_and_the_sockets_of_the_sessions() -> None:
    loaded = shipped("long-distance")
    only = {"transport": {"stream"}, "initiator": {"linux-iscsi"}, "rtt": {"20 ms"}}
    expanded = expand(loaded.study, only=only)
    turn, lab = expanded.repetitions[0], plan_lab(loaded.study.lab)
    (server,) = RUN.servers(expanded, turn, lab).values()
    ((host, sender),) = RUN.loads(expanded, turn, lab).items()
    assert isinstance(server, contract.ProbeServer) and isinstance(sender, contract.ProbeStream)
    assert (host, sender.connect, sender.streams) == ("initiator", lab.portals()[0], 1)
    assert server.listen.rpartition(":")[2] == sender.connect.rpartition(":")[2]
    assert sender.socket.send_buffer_bytes == 256 << 10
    assert RUN.ports(sender) == {3260}


def test_meter_of_streams_shows_delivered_bytes() -> None:
    def sample(second: int, acked: float) -> contract.Sample:
        return contract.Sample(at_ns=second * 10**9, counters={"tcp/streams": {"acked_bytes": acked}})

    meter = StreamMeter(1)
    assert meter.add("host", sample(1, 0.0)) is None
    rates = meter.add("host", sample(2, 5e6))
    assert rates is not None and rates.values == {"mb_per_s": 5.0}


@pytest.mark.parametrize(
    ("lab", "hypervisor", "words"),
    [
        ({"hosts": 1, "paths": 2}, {"kind": "none"}, "plain streams use one path"),
        ({"hosts": 1}, {"kind": "preset", "name": "kvm-83"}, "share sessions"),
        ({"hosts": 1}, {"kind": "none"}, None),
    ],
)
def test_streams_are_refused_where_loads_use_other_connections(
    lab: dict[str, Any], hypervisor: dict[str, Any], words: str | None
) -> None:
    study = shipped("vm-sweep").study
    load = load_at(study).model_copy(
        update={
            "transport": "stream",
            "paths": None,
            "hypervisor": TypeAdapter(Hypervisor).validate_python(hypervisor),
        }
    )
    plan = plan_lab(LabSpec.model_validate(lab | {"array": "array"}))
    found = [message for place, message, _ in consistency._paths(load, plan) if place == ("load", "transport")]
    assert [words in message for message in found] == ([True] if words else [])
