"""Array files: what is accepted, and how every refusal says where and what would do."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hakaru.array.load import array_schema, load_array
from hakaru.errors import UsageError
from hakaru.study.document import parse_document

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
format: 1
target_name: iqn.2026-01.org.example:array
portals: ["127.0.0.1:3260", "[::1]:3260"]
lus:
  - {lun: 0, size: 1 GiB, store: {kind: memory}}
  - {lun: 7, size: 10 GiB, block: 4096, store: {kind: file, path: lus/seven.img}, read_only: true}
sample_interval: 500 ms
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "array.yaml"
    path.write_text(text)
    return path


def test_paths_count_from_the_array_files_folder(tmp_path: Path) -> None:
    loaded = load_array(written(tmp_path, GOOD))
    assert loaded.state == tmp_path / "array.state"
    assert loaded.resolve("lus/seven.img") == tmp_path / "lus" / "seven.img"
    assert loaded.resolve("/dev/sdz") == Path("/dev/sdz")


REFUSALS = [
    ("format: 1", "format: 2", "format", "input should be 1", ""),
    ("lun: 7", "lun: 0", "lun: 0", "lus[1].lun: LUN 0 is given twice", "a number of its own"),
    ("lun: 7", "lun: 256", "lun: 256", "less than or equal to 255", ""),
    ("size: 1 GiB", "size: 1", "size: 1,", "a size needs a unit", ""),
    ("size: 1 GiB", "size: 0", "size: 0", "greater than or equal to 512", ""),
    ("size: 1 GiB", "size: 1000 B", "size: 1000", "not a multiple of the block length 512", ""),
    ("size: 1 GiB", "size: 65 TiB", "size: 65", "less than or equal to 70368744177664", ""),
    ("block: 4096", "block: 1024", "block", "input should be 512 or 4096", ""),
    ("read_only: true", "read_only: yes", "read_only", "input should be a valid boolean", ""),
    ("read_only: true", "readonly: true", "readonly", "unknown field", "did you mean 'read_only'?"),
    ("kind: memory", "kind: memroy", "{kind", "'memroy'", ""),
    ("kind: file, path", "kind: file, pat", "pat:", "unknown field", "did you mean 'path'?"),
    ("lus/seven.img", '"a\\nb"', '"a', "string should match pattern", ""),
    ("iqn.2026-01.org.example:array", "array", "array", "string should match pattern", ""),
    ("127.0.0.1:3260", "localhost:3260", '"localhost', "string should match pattern", ""),
    ("127.0.0.1:3260", "127.0.0.1", '"127.0.0.1"', "string should match pattern", ""),
    ("127.0.0.1:3260", "127.0.0.1:99999", '"127', "there is no port 99999", "for instance 127.0.0.1:3260"),
    ("127.0.0.1:3260", "127.0.0.256:1", '"127', "127.0.0.256", "for instance"),
    ("127.0.0.1:3260", "[::1]:3260", "portals", "stands there twice", "leave one out"),
    ("127.0.0.1:3260", "0.0.0.0:3260", '"0.0.0.0', "can be reached from outside this machine", "allow_external"),
    ("sample_interval: 500 ms", "sample_interval: 10 ms", "10 ms", "greater than or equal to", ""),
    ("sample_interval: 500 ms", "metrics: 192.0.2.1:9807", "192", "can be reached from outside", "allow_external"),
    ("sample_interval: 500 ms", "model: {kind: preset, name: jdsf-2011}", "{lun: 0", "has no placement", "add `pl"),
    ("sample_interval: 500 ms", "state: ''", "''", "at least 1 character", ""),
    ("sample_interval: 500 ms", "lus: []", "lus: []", "duplicate key", ""),
    ("sample_interval: 500 ms", "x: !!python/object:os.system a", "!!python", "tags are not allowed", ""),
    ("sample_interval: 500 ms", "x: [", "x:", "not valid YAML", ""),
]


@pytest.mark.parametrize(("old", "new", "at", "message", "hint"), REFUSALS)
def test_refusal_says_where_what_and_what_would_do(
    tmp_path: Path, old: str, new: str, at: str, message: str, hint: str
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as e:
        load_array(path)
    assert message in e.value.message
    assert hint in e.value.hint
    assert e.value.message.startswith(f"{path}:"), e.value.message
    line = text[: text.index(at)].count("\n") + 1
    assert abs(int(e.value.message.removeprefix(f"{path}:").split(":")[0]) - line) <= 1


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"- 1", b"a", b"a: &a [*a]", b"x" * (1 << 20) + b"y", b"[" * 100])
def test_what_is_no_array_file_is_refused_with_a_place(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "array.yaml"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=r":\d+:\d+: "):
        load_array(path)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml: No such file"):
        load_array(tmp_path / "absent.yaml")


def test_checked_in_schema_is_up_to_date() -> None:
    assert json.loads((ROOT / "schema" / "array.schema.json").read_text()) == array_schema(), "run `make schema`"


def test_schema_accepts_and_refuses_what_the_loader_does() -> None:
    schema = array_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    validator.validate(parse_document(GOOD.encode(), "array.yaml").data)
    for old, new in (("lun: 7", "lun: 256"), ("block: 4096", "block: 1024"), ("read_only", "readonly")):
        assert not validator.is_valid(parse_document(GOOD.replace(old, new).encode(), "array.yaml").data)
