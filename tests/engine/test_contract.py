"""The Python side of the contract agrees with the Rust side, by the schema that the engine
exports.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.engine import contract
from hakaru.engine.binary import find_engine
from hakaru.engine.contract.presets import ARRAY_PRESETS, DRIVE_PRESETS
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "schema" / "contract.schema.json"
COMMAND = (
    contract.Configure
    | contract.Start
    | contract.Measure
    | contract.Manage
    | contract.Count
    | contract.SetLink
    | contract.Trial
    | contract.Stop
)


class Shapes:
    """Reduces a JSON Schema to the parts that must agree: names, types, required fields, defaults,
    alternatives.
    """

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions

    def of(self, schema: Any) -> Any:
        if schema is True or not isinstance(schema, dict) or not set(schema) - {"description", "default", "title"}:
            return "any"
        if "$ref" in schema:
            return self.of(self._definitions[schema["$ref"].rsplit("/", 1)[1]])
        if len(schema.get("allOf", [])) == 1:
            return self.of(schema["allOf"][0])
        alternatives = schema.get("oneOf") or schema.get("anyOf")
        if alternatives:
            return self._alternatives(schema, alternatives)
        if "const" in schema:
            return {"one of": [schema["const"]]}
        if "enum" in schema:
            return {"one of": sorted(schema["enum"])}
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._nullable([{**schema, "type": name} for name in kind])
        if kind == "array":
            return {"list of": self.of(schema["items"])}
        if kind == "object":
            return self._object(schema)
        return kind

    def _nullable(self, schemas: list[Any]) -> Any:
        shapes = [self.of(schema) for schema in schemas if schema != {"type": "null"} and schema.get("type") != "null"]
        return {"or null": shapes[0]}

    def _alternatives(self, schema: dict[str, Any], alternatives: list[Any]) -> Any:
        if {"type": "null"} in alternatives:
            return self._nullable(alternatives)
        # Fields beside `oneOf` apply to every alternative (an enum inside an enum, flattened).
        beside = {key: schema[key] for key in ("properties", "required") if "properties" in schema and key in schema}
        shapes = [self.of(_merged(beside, alternative)) for alternative in alternatives]
        if all(set(shape) == {"one of"} for shape in shapes if isinstance(shape, dict)):
            return {"one of": sorted(value for shape in shapes for value in shape["one of"])}
        flat = [inner for shape in shapes for inner in shape.get("alternatives", [shape])]
        if len(flat) == 1:  # an enum of one variant so far, which Python writes as the variant
            return flat[0]
        return {"alternatives": sorted(flat, key=lambda shape: json.dumps(shape, sort_keys=True))}

    def _object(self, schema: dict[str, Any]) -> Any:
        if "properties" not in schema:
            return {"map of": self.of(schema.get("additionalProperties"))}
        fields = {}
        for name, field in schema["properties"].items():
            shape = self.of(field)
            tag = isinstance(shape, dict) and len(shape.get("one of", [])) == 1
            needed = tag or name in schema.get("required", [])
            fields[name] = [shape, "needed"] if needed else [shape, self._default(field)]
        return fields

    def _default(self, field: dict[str, Any]) -> Any:
        return {"default": field.get("default")}


def _merged(beside: dict[str, Any], alternative: dict[str, Any]) -> dict[str, Any]:
    if not beside or "$ref" in alternative:
        return alternative
    return {
        **alternative,
        "properties": {**beside["properties"], **alternative.get("properties", {})},
        "required": [*beside.get("required", []), *alternative.get("required", [])],
    }


def python_shape(model: Any) -> Any:
    schema = TypeAdapter(model).json_schema(mode="validation")
    return Shapes(schema.get("$defs", {})).of(schema)


def engine_shape(name: str) -> Any:
    schema = json.loads(SCHEMA.read_text())
    return Shapes(schema["definitions"]).of(schema["definitions"][name])


@pytest.mark.parametrize(("name", "model"), [("Command", COMMAND), ("Event", contract.Event)])
def test_messages_have_the_shapes_of_the_engines_schema(name: str, model: Any) -> None:
    assert python_shape(model) == engine_shape(name)


def test_comparison_detects_a_changed_name_type_requirement_or_default() -> None:
    schema = json.loads(SCHEMA.read_text())
    text = json.dumps(schema)
    for change in (
        ('"sessions_max"', '"sessions_most"'),
        ('"default": 16384', '"default": 16385'),
        ('"at_ns"', '"at_us"'),
        ('"const": "peer"', '"const": "pier"'),
        ('"seek_track_ms"', '"seek_tracks_ms"'),
        ('["type", "at_ns"]', '["type"]'),
    ):
        assert change[0] in text, change
        changed = json.loads(text.replace(*change))
        shapes = Shapes(changed["definitions"])
        both = [shapes.of(changed["definitions"][name]) for name in ("Command", "Event")]
        assert both != [python_shape(COMMAND), python_shape(contract.Event)]


def test_engine_prints_the_checked_in_schema() -> None:
    printed = subprocess.run([find_engine(), "schema"], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == json.loads(SCHEMA.read_text())


PATTERN = contract.Pattern(sizes=[contract.SizeWeight(bytes=4096)], read_percent=70, random_percent=100)
VM = contract.Vm(
    name="vm-1",
    destination=contract.IscsiDestination(
        portal="10.77.0.1:3260", target_name="iqn.2011-10.example.hakaru:array", lun=0, initiator_name="iqn.x:vm-1"
    ),
    region=contract.Region(offset_bytes=0, length_bytes=0),
    pattern=PATTERN,
    load=contract.OpenLoad(rate_per_s=100.0, arrivals="poisson", in_flight_max=64),
    seed=2**64 - 1,
)
CONFIGURATIONS: list[contract.EngineConfig] = [
    contract.FabricEngineConfig(
        fabric=contract.FabricConfig(
            switches=[
                contract.SwitchConfig(
                    name="s",
                    shared_buffer=contract.SharedBuffer(bytes=9 << 20),
                    router=contract.RouterConfig(
                        interfaces=[contract.RouterInterface(vlan=2, address="10.0.1.254", prefix_length=24)],
                        routes=[contract.RouteConfig(destination="10.9.0.0", prefix_length=16, via="10.0.1.1")],
                    ),
                )
            ],
            links=[
                contract.LinkConfig(
                    name="uplink",
                    a=contract.InterfaceEnd(name="p0"),
                    b=contract.SwitchEnd(name="s"),
                    a_to_b=contract.Direction(rate_bits_per_s=10**9, loss=contract.RandomLoss(percent=0.1), pause=True),
                )
            ],
        )
    ),
    contract.ArrayConfig(
        target_name="iqn.2011-10.example.hakaru:array",
        portals=["10.77.0.1:3260"],
        lus=[
            contract.LuConfig(
                lun=0, size_bytes=1 << 40, store=contract.MemoryStore(fill_seed=7, fill_compressible_percent=50)
            ),
            contract.LuConfig(
                lun=1,
                size_bytes=1 << 30,
                store=contract.FileStore(path="/lu"),
                placement=contract.Placement(group=0, offset_bytes=0),
            ),
        ],
        model=contract.PresetModel(kind="preset", name="jdsf-2011"),
    ),
    contract.ArrayConfig(
        target_name="iqn.2011-10.example.hakaru:array",
        portals=["192.0.2.1:3260"],
        lus=[contract.LuConfig(lun=0, size_bytes=1 << 30, store=contract.MemoryStore())],
        model=contract.NoModel(kind="none"),
        access=contract.AccessConfig(
            users=[contract.ChapUser(name="vm", secret=contract.SecretFile(path="/run/secret"))],
            rules=[contract.AccessRule(user="vm", address="10.1.0.0/16", lus=[contract.LuAccess(lun=0)])],
        ),
        allow_external=True,
    ),
    contract.InitiatorConfig(
        vms=[VM],
        chap=contract.ChapConfig(user=contract.ChapUser(name="vm", secret=contract.SecretText(text="canary-canary"))),
        warmup_s=1.0,
        measure_s=2.5,
    ),
    contract.InitiatorConfig(vms=[VM], warmup_s=1.0, measure_s=2.5),
    contract.InitiatorConfig(
        vms=[
            VM.model_copy(
                update={
                    "destination": contract.FileDestination(path="/dev/sdz", direct=True),
                    "load": contract.ClosedLoad(queue_depth=32),
                }
            )
        ],
        login=contract.LoginKeys(header_digest=True),
        warmup_s=0.0,
        measure_s=0.0,
    ),
    contract.BackupConfig(
        jobs=[
            contract.BackupJob(
                name="vm-1",
                source=contract.Lu(
                    portal="10.77.0.1:3260", target_name="iqn.x:primary", lun=0, initiator_name="iqn.x:kvm-1"
                ),
                destination=contract.Lu(
                    portal="10.77.1.1:3260", target_name="iqn.x:vtl", lun=0, initiator_name="iqn.x:kvm-1"
                ),
                destination_offset_bytes=1 << 30,
                length_bytes=1 << 28,
                rate_limit_bytes_per_s=125_000_000,
                compression=contract.Zstd(level=1),
                verify=True,
            )
        ],
        time_limit_s=60.0,
    ),
    contract.PacketsConfig(
        ports=[
            contract.PacketPort(name="left", interface="eth1"),
            contract.PacketPort(name="right", interface="eth2"),
        ],
        streams=[
            contract.PacketStream(
                name="a",
                from_="left",
                to="right",
                source_address="198.18.0.2",
                destination_address="198.19.0.2",
                sizes=[contract.FrameSize(bytes=64, weight=7), contract.FrameSize(bytes=1518)],
            )
        ],
        avoid_processors=[1],
    ),
    contract.WatchConfig(machine=True),
    contract.WatchConfig(
        tcp=contract.TcpWatch(
            interval_us=1000, ports=[3260], trace="on", file="/run/tcp.series", file_bytes_max=1 << 20
        )
    ),
    contract.ProbeServer(listen="10.77.0.1:0"),
    contract.ProbeClient(connect="10.77.0.1:5000", seconds=0.5, round_trips=100),
    contract.ProbeStream(
        connect="10.77.0.1:3260",
        streams=1,
        socket=contract.SocketOptions(send_buffer_bytes=262_144),
        warmup_s=4.0,
        measure_s=4.0,
        sample_interval_ms=100,
    ),
]


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=lambda config: type(config).__name__)
def test_configurations_are_valid_by_the_engines_schema(config: contract.EngineConfig) -> None:
    command = contract.Configure(contract=contract.CONTRACT_VERSION, config=config)
    line = command.line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    jsonschema.validate(json.loads(line), json.loads(SCHEMA.read_text()))
    assert TypeAdapter(COMMAND).validate_json(line) == command


def test_secret_appears_only_in_the_configuration() -> None:
    secret = contract.SecretText(text="canary-canary")
    user = contract.ChapUser(name="vm", secret=secret)
    assert "canary" in user.model_dump_json()
    assert "canary" not in f"{user!r} {user} {secret!r}"
    for wrong in ({"name": "vm", "secret": "canary-canary"}, {"name": "vm", "secret": {"text": "canary-canary"}}):
        with pytest.raises(ValidationError) as caught:
            contract.ChapUser.model_validate(wrong)
        assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", "Invalid JSON"),
        (b"[]", "should be an object"),
        (b'{"type":"hullo"}', "hullo"),
        (b'{"type":"hello","contract":"1","version":"x"}', "hello.contract: Input should be a valid integer"),
        (b'{"type":"phase","phase":"measure"}', "phase.at_ns: Field required"),
        (b'{"type":"ready","found":{},"lost":1}', "ready.lost: Extra inputs are not permitted"),
        (b'{"type":"error","class":"other","message":"","hint":"","fatal":true}', "error.class: Input should be"),
        (b"\xff\xfe", "Invalid JSON"),
    ],
)
def test_invalid_event_is_refused_with_its_place(line: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        contract.parse_event(line)
    assert expected in str(refused.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_value_error(line: bytes) -> None:
    try:
        contract.parse_event(line)
    except ValueError:
        return


@pytest.mark.parametrize(("function", "known"), [("array_presets", ARRAY_PRESETS), ("drive_presets", DRIVE_PRESETS)])
def test_python_knows_the_presets_of_the_engine(function: str, known: tuple[str, ...]) -> None:
    source = (Path(__file__).resolve().parents[2] / "crates" / "drive" / "src" / "preset.rs").read_text()
    body = source[source.index(f"fn {function}") :].partition("}")[0]
    assert tuple(re.findall(r'"([^"]+)"', body)) == known


def test_defaults_of_login_keys_are_generated_from_the_schema() -> None:
    printed = subprocess.run([ROOT / "tools" / "login-defaults"], capture_output=True, text=True, check=True).stdout
    assert (ROOT / "python" / "hakaru" / "login_defaults.py").read_text() == printed
