"""Array files: accepted files, and refusals that name the place and the remedy."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jsonschema
import pytest
from hakaru.array.consistency import problems
from hakaru.array.load import array_schema, load_array
from hakaru.array.model import ArrayFile
from hakaru.errors import UsageError
from hakaru.study.document import parse_document

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
format: 1
target_name: iqn.2026-01.org.example:array
portals: ["127.0.0.1:3260", "[::1]:3260"]
access:
  users: [{name: host-1, secret_file: secrets/host-1}]
  target: {name: array, secret_file: secrets/array}
  rules:
    - {initiator_name: iqn.2026-01.org.example:host-1, address: 10.1.0.0/16, user: host-1, lus: [{lun: 2}, {lun: 3}]}
pools:
  - name: main
    groups: [{name: g0, size: 64 GiB}, {name: g1, size: 64 GiB}]
  - {name: fast, directory: /srv/fast, page: 64 KiB, soft_threshold_percent: 90, groups: [{name: g0, size: 2 GiB}]}
lus:
  - {lun: 0, size: 1 GiB, store: {kind: memory}}
  - {lun: 7, size: 10 GiB, block: 4096, store: {kind: file, path: lus/seven.img}, read_only: true}
  - {lun: 8, size: 1 TiB, store: {kind: thin, pool: main}, removable: true}
  - {lun: 9, size: 1 TiB, store: {kind: thin, pool: fast, volume: nine, quota: 10 GiB}}
tape_library:
  lun: 20
  drives: [{lun: 21}, {lun: 22, generation: lto6}]
  slots: 4
  import_export: 1
  cartridges: [{barcode: HAK001L5}, {barcode: HAK002L5, slot: 1}, {barcode: HAK003L5, write_protected: true}]
  capacity: 20 GiB
sample_interval: 500 ms
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "array.yaml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_array_files_folder(tmp_path: Path) -> None:
    loaded = load_array(written(tmp_path, GOOD))
    assert loaded.state == tmp_path / "array.state"
    assert loaded.resolve("lus/seven.img") == tmp_path / "lus" / "seven.img"
    assert loaded.resolve("/dev/sdz") == Path("/dev/sdz")


REFUSALS = [
    ("format: 1", "format: 2", "input should be 1", ""),
    ("lun: 7", "lun: 0", "lus[1].lun: LUN 0 is given twice", "a number of its own"),
    ("lun: 7", "lun: 256", "should be at most 255 (found 256)", ""),
    ("size: 1 GiB", "size: 1", "a size needs a unit", ""),
    ("size: 1 GiB", "size: 0 B", "should be at least 512 B (found '0 B')", ""),
    ("size: 1 GiB", "size: 1000 B", "not a multiple of the block length 512", ""),
    ("size: 1 GiB", "size: 65 TiB", "should be at most 64 TiB (found '65 TiB')", ""),
    ("block: 4096", "block: 1024", "input should be 512 or 4096", ""),
    ("read_only: true", "read_only: yes", "should be `true` or `false` (found 'yes')", "write `true`"),
    ("read_only: true", "readonly: true", "unknown field", "did you mean 'read_only'?"),
    ("kind: memory", "kind: memroy", "'memroy'", ""),
    ("kind: file, path", "kind: file, pat", "unknown field", "did you mean 'path'?"),
    ("lus/seven.img", '"a\\nb"', "write a path without control characters", ""),
    ("iqn.2026-01.org.example:array", "array", "write an iSCSI name in lower case, for example iqn.2026-01.", ""),
    (
        "127.0.0.1:3260",
        "localhost:3260",
        "write an IP address and port, for example 127.0.0.1:3260; names are not looked up (found 'localhost:3260')",
        "",
    ),
    ("sample_interval: 500 ms", "caps: [{name: c}]", "cap 'c' has no rate", ""),
    ("sample_interval: 500 ms", "caps: [{name: c, iops: 0}]", "should be at least 1 (found 0)", ""),
    ("sample_interval: 500 ms", "caps: [{name: c, rate: 1 kB/s}]", "should be at least", ""),
    ("sample_interval: 500 ms", "caps: [{name: c, rate: 20}]", "a rate needs a unit", ""),
    ("sample_interval: 500 ms", "caps: [{name: c, lu: 1, iops: 9}]", "unknown field", "did you mean 'lun'?"),
    (
        "sample_interval: 500 ms",
        "caps: [{name: c, iops: 9}, {name: c, iops: 8}]",
        "cap 'c' is given twice",
        "a name of its own",
    ),
    (
        "sample_interval: 500 ms",
        "caps: [{name: c, lun: 22, iops: 9}]",
        "LUN 22 is a tape drive",
        "write 20, the LUN of",
    ),
    (
        "sample_interval: 500 ms",
        "shares: {in_flight: 9, classes: [{name: c, lun: 21, share: 1}]}",
        "shares.classes[0].lun: LUN 21 is a tape drive",
        "write 20, the LUN of the changer",
    ),
    (
        "sample_interval: 500 ms",
        "port_groups: [{portals: [0]}, {portals: [2]}]",
        "port_groups[1].portals[0]: no portal 2",
        "portals are numbered from 0 to 1",
    ),
    (
        "sample_interval: 500 ms",
        "port_groups: [{portals: [1]}, {portals: [0, 1]}]",
        "port_groups[1].portals[1]: portal 1 is in group 1 already",
        "write each portal once",
    ),
    ("sample_interval: 500 ms", "port_groups: [{portals: []}]", "port_groups[0].portals", ""),
    (
        "sample_interval: 500 ms",
        "port_groups: [{portals: [1], preferred: true}, {portals: [0], preferred: true}]",
        "port_groups[1].preferred: group 1 is the preferred one already",
        "prefer one group at most",
    ),
    ("127.0.0.1:3260", "127.0.0.1", "write an IP address and port, for example 127.0.0.1:3260", ""),
    ("127.0.0.1:3260", "127.0.0.1:99999", "there is no port 99999", "for example 127.0.0.1:3260"),
    ("127.0.0.1:3260", "127.0.0.256:1", "127.0.0.256", "for example"),
    ("127.0.0.1:3260", "[::1]:3260", "is given twice", "leave one out"),
    ("127.0.0.1:3260", "0.0.0.0:3260", "can be reached from outside this machine", "allow_external"),
    ("sample_interval: 500 ms", "sample_interval: 10 ms", "should be at least 100 ms (found '10 ms')", ""),
    ("sample_interval: 500 ms", "metrics: 192.0.2.1:9807", "can be reached from outside", "allow_external"),
    (
        "sample_interval: 500 ms",
        "model: {kind: preset, name: jdsf-2011}",
        "group 'g0' has no placement",
        "add `pl",
        "{name: g0",
    ),
    (
        "sample_interval: 500 ms",
        "model: {kind: preset, name: jdsf2011}",
        "there is no preset 'jdsf2011'; did you mean 'jdsf-2011'?",
        "",
    ),
    ("capacity: 20 GiB", "pool: tapes\n  capacity: 20 GiB", "there is no pool 'tapes'", "the pools are main, fast"),
    (
        "capacity: 20 GiB",
        "pool: main\n  folder: tapes\n  capacity: 20 GiB",
        "tape_library.pool: the cartridges are in a folder and in a pool",
        "remove `folder`, or `pool`",
    ),
    ("lun: 22", "lun: 7", "tape_library.drives[1].lun: LUN 7 is given twice", "a number of their own"),
    ("slots: 4", "slots: 2", "there is no slot for HAK003L5", "the library has 2 slots", "cartridges:"),
    ("write_protected: true", "slot: 1", "tape_library.cartridges[2].slot: slot 1 is given twice", "of its own"),
    ("HAK002L5", "HAK001L5", "the barcode HAK001L5 is given twice", "its own"),
    ("HAK002L5", "hak", "write a barcode of up to 32 capital letters and digits", ""),
    ("generation: lto6", "generation: lto2", "input should be 'lto3', 'lto4', 'lto5' or 'lto6'", ""),
    ("HAK001L5}", "HAK001L5, generation: 4}", "input should be 'lto3', 'lto4', 'lto5' or 'lto6'", ""),
    ("lun: 20", "lun: 20\n  vendor: HAKARULAB", "write a name of printable ASCII", "", "vendor:"),
    ("lun: 20", "lun: 20\n  product: 'a '", "without spaces at its ends", "", "product:"),
    ("lun: 22", "lun: 22, product: TAPE LTO-6 DRIVES", "tape_library.drives[1].product: write a name", ""),
    (
        "capacity: 20 GiB",
        "capacity: 10 TiB\n  times: {compression: 2}",
        "with compression, a cartridge takes more than 16 TiB",
        "reduce the capacity or the compression",
    ),
    ("capacity: 20 GiB", "capacity: 1 KiB", "should be at least 1 MiB", ""),
    (
        "capacity: 20 GiB",
        "capacity: 16 MiB",
        "early warning would begin before",
        "smaller than `capacity`",
        "lun: 20",
    ),
    ("pool: main}", "pool: mian}", "lus[2].store.pool: there is no pool 'mian'", "the pools are main, fast"),
    ("volume: nine", "volume: nine/x", "write a name of up to 64 letters", ""),
    ("lun: 9, size: 1 TiB", "lun: 9, size: 1 TiB, thin: 1", "should be `true` or `false` (found 1)", "write `true`"),
    ("pool: fast, volume: nine", "pool: main, volume: lu-8", "LUN 8 is stored in main/lu-8 as well", "of its own"),
    ("kind: thin, pool: main", "kind: thin", "store.pool: missing", "add `pool:`"),
    ("name: fast", "name: main", "pool 'main' is given twice", "a name of its own"),
    ("name: fast", "name: ../fast", "write a name of up to 64 letters", ""),
    ("page: 64 KiB", "page: 96 KiB", "a page must be a power of two", "256 KiB"),
    ("page: 64 KiB", "page: 4 KiB", "should be at least 64 KiB (found '4 KiB')", ""),
    ("soft_threshold_percent: 90", "soft_threshold_percent: 0", "should be at least 1 (found 0)", ""),
    ("name: g1", "name: g0", "group 'g0' is given twice", "of its own"),
    ("size: 64 GiB", "size: 256 KiB", "at least two pages", "make it larger"),
    ("directory: /srv/fast", "directory: ''", "at least 1 character", ""),
    ("user: host-1, lus", "user: host-2, lus", "there is no user 'host-2'", "the users are host-1"),
    ("10.1.0.0/16", "10.1.0.1/16", "has host bits set", "10.1.0.0/16"),
    ("10.1.0.0/16", "10.1.0", "does not appear to be an IPv4 or IPv6 network", "for example"),
    ("{lun: 3}", "{lun: 2}", "LUN 2 is given twice", "leave one out"),
    ("{name: host-1, secret_file: secrets/host-1}", "{name: host-1, secret: x}", "secret: unknown field", ""),
    ("sample_interval: 500 ms", "sessions: 0", "should be at least 1 (found 0)", ""),
    ("sample_interval: 500 ms", "spin: 2 ms", "should be at most 1 ms (found '2 ms')", ""),
    ("sample_interval: 500 ms", "state: ''", "at least 1 character", ""),
    ("sample_interval: 500 ms", "lus: []", "duplicate key", ""),
    ("sample_interval: 500 ms", "x: !!python/object:os.system a", "tags are not allowed", ""),
    ("sample_interval: 500 ms", "x: }", "not valid YAML", ""),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case[1])
def test_refusal_names_the_place_the_problem_and_the_remedy(tmp_path: Path, case: tuple[str, ...]) -> None:
    """Change a good file and check message, hint and line: that of the change, or of the field that
    it makes wrong.
    """
    old, new, message, hint, *at = case
    text = GOOD.replace(old, new, 1)
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as e:
        load_array(path)
    assert message in e.value.message
    assert hint in e.value.hint
    assert e.value.message.startswith(f"{path}:"), e.value.message
    line = text[: text.index(at[0]) if at else GOOD.index(old)].count("\n") + 1
    assert int(e.value.message.removeprefix(f"{path}:").split(":")[0]) == line, e.value.message


@pytest.mark.parametrize("lun", [0, 8, 20])
def test_caps_and_shares_may_name_a_disk_or_the_changer(tmp_path: Path, lun: int) -> None:
    shares = f"shares: {{in_flight: 9, classes: [{{name: s, lun: {lun}, share: 1}}]}}"
    loaded = load_array(written(tmp_path, f"{GOOD}caps: [{{name: c, lun: {lun}, iops: 9}}]\n{shares}\n"))
    assert loaded.file.caps[0].lun == lun and loaded.file.shares is not None


def test_shares_are_refused_with_a_pool_that_holds_writes(tmp_path: Path) -> None:
    holding = GOOD.replace("name: main\n", "name: main\n    hold_when_full: 30 s\n")
    assert load_array(written(tmp_path, holding)).file.pools[0].hold_when_full
    shares = "shares: {in_flight: 9, classes: [{name: s, share: 1}]}\n"
    with pytest.raises(UsageError, match=r"pools\[0\].hold_when_full: writes that wait for space") as e:
        load_array(written(tmp_path, holding + shares))
    assert e.value.hint == "remove it, or `shares`"


def test_ten_thousand_cartridges_are_checked_in_linear_time() -> None:
    def cpu_s(count: int) -> float:
        """CPU time of the checks of an array file with so many cartridges."""
        cartridges = [{"barcode": f"C{i}"} | ({} if i % 2 else {"slot": count - i}) for i in range(count)]
        sizes = {"capacity": "1 MiB", "early_warning": "0 B"}
        library = {"lun": 0, "drives": [{"lun": 1}], "slots": count, "cartridges": cartridges} | sizes
        name = "iqn.2026-01.org.example:a"
        file = ArrayFile.model_validate({"format": 1, "target_name": name, "lus": [], "tape_library": library})
        begun = time.process_time()
        assert problems(file) == []
        return time.process_time() - begun

    # Ten times as many take about ten times as long, not a hundred times.
    assert cpu_s(10_000) < 40 * min(cpu_s(1000) for _ in range(3))


def test_external_portal_needs_users_and_rules(tmp_path: Path) -> None:
    external = GOOD.replace('"127.0.0.1:3260"', '"192.0.2.1:3260"').replace(
        "format: 1", "format: 1\nallow_external: true"
    )
    assert load_array(written(tmp_path, external)).file.allow_external
    for missing in ("rules", "users"):
        lines = [line for line in external.splitlines() if not line.startswith((f"  {missing}:", "    - {initiator"))]
        incomplete = "\n".join(lines).replace("  rules:", "  rules: []")
        with pytest.raises(UsageError, match="anyone may log in") as e:
            load_array(written(tmp_path, incomplete))
        assert "`users` (CHAP) and `rules`" in e.value.hint


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"- 1", b"a", b"a: &a [*a]", b"x" * (1 << 20) + b"y", b"[" * 100])
def test_invalid_array_file_is_refused_with_line_and_column(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "array.yaml"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=r":\d+:\d+: "):
        load_array(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml: No such file"):
        load_array(tmp_path / "absent.yaml")


def test_checked_in_schema_is_up_to_date() -> None:
    assert json.loads((ROOT / "schema" / "array.schema.json").read_text()) == array_schema(), "run `make schema`"


def test_schema_agrees_with_the_loader() -> None:
    schema = array_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    validator.validate(parse_document(GOOD.encode(), "array.yaml").data)
    for old, new in (("lun: 7", "lun: 256"), ("block: 4096", "block: 1024"), ("read_only", "readonly")):
        assert not validator.is_valid(parse_document(GOOD.replace(old, new).encode(), "array.yaml").data)


@pytest.mark.parametrize(
    ("limits", "place"),
    [
        ("caps: [{name: c, lun: 5, iops: 9}]", "caps[0].lun"),
        (
            "shares: {in_flight: 9, classes: [{name: c, share: 1}, {name: d, lun: 5, share: 1}]}",
            "shares.classes[1].lun",
        ),
    ],
)
def test_lun_of_a_limit_exists_unless_a_pool_may_add_it(tmp_path: Path, limits: str, place: str) -> None:
    text = f"format: 1\ntarget_name: iqn.2026-01.org.example:array\nportals: ['127.0.0.1:0']\n{limits}\n"
    lus = "lus: [{lun: 0, size: 1 GiB, store: {kind: memory}}]\n"
    with pytest.raises(UsageError) as refused:
        load_array(written(tmp_path, text + lus))
    assert f"{place}: there is no LUN 5" in str(refused.value) and "the LUNs are 0" in str(refused.value.hint)
    pools = "pools: [{name: main, groups: [{name: g0, size: 1 GiB}]}]\n"
    assert load_array(written(tmp_path, text + lus + pools))
