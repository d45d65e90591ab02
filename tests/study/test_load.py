"""Study files: which are accepted, and that every refusal names the place and a remedy."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hakaru.errors import UsageError
from hakaru.kinds.copy.analysis.metrics import UNITS as COPY_UNITS
from hakaru.kinds.copy.study import METRICS as BACKUP_METRICS
from hakaru.kinds.vms.analysis import failover, roles
from hakaru.kinds.vms.analysis.flows import UNITS as DISTANCE_UNITS
from hakaru.kinds.vms.analysis.points import UNITS
from hakaru.kinds.vms.study import LINKED_METRICS, LOAD_METRICS, PATH_METRICS, ROLE_METRICS
from hakaru.study import find_study, load, study_paths, title_of
from hakaru.study.part import Text
from hakaru.wording import has

from tests.study.shipped import shipped

ROOT = Path(__file__).resolve().parents[2]

SHIPPED = study_paths()["vm-sweep"].read_text()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a study file and returns its path."""

    def _write(text: str) -> str:
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return str(path)

    return _write


def edited(old: str, new: str) -> str:
    assert SHIPPED.count(old) >= 1, old
    return SHIPPED.replace(old, new, 1)


def place_of(text: str, part: str) -> str:
    """Return `line:column` of the first occurrence."""
    before = text[: text.index(part)]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def test_every_shipped_study_loads_by_its_folders_name() -> None:
    for name in study_paths():
        assert shipped(name).study.id == name


def test_only_the_kind_that_a_study_names_is_imported() -> None:
    program = "import sys\nfrom hakaru.study import load\nload('vm-sweep')\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(re.findall(r"hakaru\.kinds\.\w+\.study\b", done.stdout)) == {"hakaru.kinds.vms.study"}


SLOW_TO_IMPORT = {"pyroute2", "hakaru.lab.build", "hakaru.lab.check", "hakaru.analysis.summary"}


def imported_by(*arguments: str) -> set[str]:
    """Return the modules that a command has imported when it ends or enters the sandbox."""
    program = f"""
import os, sys
from hakaru.cli import main
def show(*_):
    print(*sys.modules, flush=True)
    os._exit(0)
os.execv = show
main({list(arguments)})
show()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("study", ["vm-sweep", "backup-mismatch", "file-server"])
def test_a_plan_imports_nothing_that_builds_labs_or_reads_results(study: str) -> None:
    modules = imported_by("plan", study)
    assert "hakaru.run.plan" in modules and modules.isdisjoint(SLOW_TO_IMPORT)


def test_a_run_imports_little_before_it_enters_the_sandbox() -> None:
    modules = imported_by("run", "vm-sweep", "--quick")
    assert "hakaru.lab.sandbox" in modules and modules.isdisjoint(SLOW_TO_IMPORT | {"numpy", "pyarrow"})


def test_unknown_study_names_the_nearest() -> None:
    with pytest.raises(UsageError) as e:
        find_study("vm-swep")
    assert e.value.hint == "did you mean 'vm-sweep'?"


@pytest.mark.parametrize(
    ("old", "new", "at", "message", "hint"),
    [
        ("  hosts: 4", "  host: 4", "host: 4", "lab.host: unknown field", "did you mean 'hosts'?"),
        ("read_percent: 70", "read_percents: 70", "read_percents", "unknown field", "did you mean 'read_percent'?"),
        ("queue_depth: 32", "queue_deep: 32", "queue_deep", "unknown field", "did you mean 'queue_depth'?"),
        ("read_percent: 70", "read_percent: 170", "170", "read_percent: should be at most 100 (found 170)", ""),
        ("read_percent: 70", "read_percent: '70'", "'70'", "read_percent: should be a whole number (found", "`70`"),
        ("region: 64 GiB", "region: 64", "64\n", "load.region: a size needs a unit", ""),
        ("region: 64 GiB", "region: 64 Gib", "64 Gib", "load.region: a size has no unit 'Gib'", ""),
        ("time: 60 s", "time: 500 ms", "500 ms", "measure.time: should be at least 1 s (found '500 ms')", ""),
        ("name: jdsf-2011}", "name: jdsf2011}", "jdsf2011", "no preset 'jdsf2011'; did you mean 'jdsf-2011'?", ""),
        ("  hosts: 4", "  hosts: 4\n  tcp: 2009", "tcp: 2009", "lab.tcp: needs fields, for example {", "valid here: "),
        ("kind: closed", "kind: close", "{kind: close,", "there is no 'close' here", "did you mean 'closed'?"),
        ("columns: [[0],", "columns: [[7],", "7], [1", "load.columns[0][0]: the array has no LU 7", "its LUs are"),
        ("{lun: 1,", "{lun: 0,", "\n    - {lun: 0, size: 512", "each LU needs a number of its own", ""),
        ("pattern: [random-32k, seq", "pattern: [random-32, seq", "random-32,", "no pattern", "'random-32k'"),
        ("vms: [1, 4,", "vms: [1, 1,", "vms: [1, 1,", "is given twice", "leave one out"),
        ("image: 64 GiB", "image: 65 GiB", "16]", "there is room for 14", "make the LUs larger"),
        ("size: 32 KiB", "size: 1000 B", "1000 B", "not a multiple of the block length 512", ""),
        ("metric: iops,", "metric: p99,", "p99", "no metric 'p99'", "did you mean 'latency_ms_p99'?"),
        ("id: vm-sweep", "id: VM Sweep", "VM Sweep", "id: invalid name 'VM Sweep'", "use lower-case letters"),
        ("metric: iops,", "metric: iopps,", "iopps", "no metric 'iopps'", "did you mean 'iops'?"),
        ("iops: iops", "iops: iop", "kind: table", "has no column 'iop'", "its columns are"),
        ("table: jdsf-2011-vm-sweep-random32k", "table: other", "table: other", "no table", "put other.csv into"),
        ("  hosts: 4", "  hosts: 4\n  mtu: 9", "9\n", "lab.mtu: this lab cannot be built", "use 1500"),
        ("placement: {group: 1}", "placement: {group: 1, offset: 1 EB}", "1 EB", "a size has no unit", ""),
        ("{lun: 1, size: 512 GiB, placement: {group: 1}}", "{lun: 1, size: 512 GiB}", "{lun: 1", "placement", ""),
        ("placement: {group: 1}", "placement: {group: 0}", "{lun: 1", "overlaps with LU 0", "place it from 512 GiB on"),
        ("warmup: 10 s, ", "", "{time", "measure.warmup: missing", "add `warmup:` here"),
    ],
)  # fmt: skip
def test_refusal_names_the_place_the_problem_and_the_remedy(
    write: Callable[[str], str], old: str, new: str, at: str, message: str, hint: str
) -> None:
    text = SHIPPED.replace(old, new) if old.startswith("table: ") else edited(old, new)
    path = write(text)
    with pytest.raises(UsageError) as e:
        load(path)
    assert message in e.value.message
    assert hint in e.value.hint
    line = place_of(text, at).partition(":")[0]
    assert e.value.message.startswith(f"{path}:"), e.value.message
    if not at.startswith("\n"):
        assert abs(int(e.value.message.removeprefix(f"{path}:").split(":")[0]) - int(line)) <= 1


def test_guests_are_refused_for_a_load_of_vms(write: Callable[[str], str]) -> None:
    text = study_paths()["long-distance"].read_text()
    path = write(
        text.replace("  hosts: [initiator]\n", "  hosts: [initiator]\n  guests: {initiator: {names: [vm01]}}\n")
    )
    with pytest.raises(UsageError, match=r"lab\.guests: guests run the jobs of a copy"):
        load(path)


BACKUP = study_paths()["backup-mismatch"].read_text()


@pytest.mark.parametrize(
    ("old", "new", "at", "message", "hint"),
    [
        ("rpm: 7200", "rpms: 7200", "rpms", "unknown field", "did you mean 'rpm'?"),
        ("            heads: 10\n", "", "kind: hdd", "heads: missing", "add `heads:` here"),
        ("queue_depth: 64", "queue_depth: many", "many", "should be a whole number (found 'many')", ""),
        ("seek_full_ms: 18", "seek_full_ms: 18000", "18000", "should be at most 1000 (found 18000)", ""),
        ("name: sata-ssd-960", "name: sata-ssd-96", "sata-ssd-96}", "no drive 'sata-ssd-96'; did you mean", ""),
        ("command_us: 60, data", "command: 60, data", "command: 60", "unknown field", "did you mean 'command_us'?"),
        ("drives: 9", "drives: 2", "raid: raid5", "raid5 needs at least 3 drives (found 2)", ""),
        ("seek_track_ms: 0.5", "seek_track_ms: 9.5", "kind: hdd", "should rise in this order", ""),
    ],
)
def test_wrong_parameter_of_a_drive_model_is_named_with_line_and_column(
    write: Callable[[str], str], old: str, new: str, at: str, message: str, hint: str
) -> None:
    assert BACKUP.count(old) == 1, old
    text = BACKUP.replace(old, new)
    path = write(text)
    with pytest.raises(UsageError) as e:
        load(path)
    lines = [line for line in e.value.message.splitlines() if line.startswith(f"{path}:{place_of(text, at)}: arrays.")]
    assert any(message in line for line in lines), e.value.message
    assert hint in e.value.hint


def test_unknown_field_is_named_with_line_and_column(write: Callable[[str], str]) -> None:
    text = edited("  hosts: 4", "  host: 4")
    path = write(text)
    with pytest.raises(UsageError) as e:
        load(path)
    assert e.value.message == f"{path}:{place_of(text, 'host: 4')}: lab.host: unknown field"


def test_all_errors_of_a_file_are_listed(write: Callable[[str], str]) -> None:
    text = edited("  hosts: 4", "  host: 4").replace("read_percent: 70", "read_percent: 170")
    with pytest.raises(UsageError) as e:
        load(write(text))
    assert len(e.value.message.splitlines()) == 3


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "a/b", "A", "secret.csv", "x\nx"])
def test_table_outside_the_folder_cannot_be_named(write: Callable[[str], str], tmp_path: Path, name: str) -> None:
    (tmp_path.parent / "secret.csv").write_text("vms,iops\n1,1\n")
    text = edited("table: jdsf-2011-vm-sweep-random32k", f"table: {name!r}")
    with pytest.raises(UsageError) as e:
        load(write(text))
    assert "reference[0].table" in e.value.message


def test_table_behind_a_symbolic_link_is_not_read(write: Callable[[str], str], tmp_path: Path) -> None:
    secret = tmp_path.parent / "elsewhere.csv"
    secret.write_text("vms,iops\n1,1\n")
    (tmp_path / "linked.csv").symlink_to(secret)
    with pytest.raises(UsageError, match="no table 'linked'"):
        load(write(SHIPPED.replace("table: jdsf-2011-vm-sweep-random32k", "table: linked")))


@pytest.mark.parametrize(
    "text", ["vms,iops\n", "vms,iops\n1,x\n", "vms,iops\n1\n", "vms,iops\n1,2,3\n", "vms,iops\n1,nan\n"]
)
def test_table_that_is_not_numbers_is_refused(write: Callable[[str], str], tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(UsageError, match=r"mine\.csv"):
        load(write(SHIPPED.replace("table: jdsf-2011-vm-sweep-random32k", "table: mine")))


@pytest.mark.parametrize("text", ["; touch X", "$(touch X)", "`touch X`", "--option", "../", "\\0", "{x}", "<script>"])
def test_texts_with_special_characters_stay_text(write: Callable[[str], str], tmp_path: Path, text: str) -> None:
    loaded = load(write(edited('en: "Japan Data Storage Forum, 2011"', f"en: '{text}'")))
    assert loaded.study.publications["jdsf-2011"].title.en == text
    assert not (tmp_path / "X").exists()


def test_analysis_computes_every_metric_that_a_study_may_name() -> None:
    assert set(UNITS) >= LOAD_METRICS
    assert set(COPY_UNITS) >= BACKUP_METRICS
    assert set(DISTANCE_UNITS) >= LINKED_METRICS
    assert set(roles.UNITS) == ROLE_METRICS
    assert set(failover.UNITS) == PATH_METRICS


def test_every_metric_that_a_study_may_name_has_a_display_name() -> None:
    for metric in LOAD_METRICS | BACKUP_METRICS | LINKED_METRICS | ROLE_METRICS | PATH_METRICS:
        assert has(f"metric.{metric}"), metric


def test_titles_are_read_without_expanding_points(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("format: 1\ntitle: How fast?\nfactors: [{nonsense: [1]}]\n")
    assert title_of(path).model_dump() == {"en": "How fast?", "ja": "How fast?"}
    path.write_text("format: 1\n")
    with pytest.raises(UsageError, match="title: missing"):
        title_of(path)


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("{pattern: random-32}", "no point has pattern random-32", "'random-32k'"),
        ("{vms: 3}", "no point has vms 3", "valid here: 1, 4, 6"),
    ],
)
def test_expectation_about_an_unused_level_is_refused(tmp_path: Path, where: str, message: str, hint: str) -> None:
    text = (ROOT / "studies" / "vm-sweep" / "study.yaml").read_text()
    text += f"  - {{kind: bound, metric: latency_ms_p99, at_most: 1, where: {where}}}\n"
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(UsageError, match=message) as e:
        load(str(tmp_path / "study.yaml"))
    assert "expect[12].where." in e.value.message
    assert hint in e.value.hint


def test_vms_on_several_arrays_are_refused_with_the_supported_load(tmp_path: Path) -> None:
    text = (ROOT / "studies" / "backup-mismatch" / "study.yaml").read_text()
    start = text.index("load:\n")
    vms = (
        "load: {kind: vms, columns: [[0]], image: 1 GiB, patterns: {read: {sizes: [{size: 8 KiB}], read_percent: 100, "
    )
    vms += "random_percent: 100, load: {kind: closed, queue_depth: 1}}}}\n"
    factors = "factors: [{pattern: [read], vms: [1]}]\nmeasure: {warmup: 0 s, time: 1 s, repetitions: 1}\n"
    (tmp_path / "study.yaml").write_text(text[:start] + vms + factors)
    with pytest.raises(UsageError, match="VMs load one array, and the lab has 2: primary, vtl") as e:
        load(str(tmp_path / "study.yaml"))
    assert "only copies" in e.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "place: load.iscsi.initiator.commands",
            "place: load.iscsi.initiator.command",
            "no value at",
            "that the study",
        ),
        ("transport: [stream]", "transport: [strem]", "load.transport", ""),
        (
            "write-4m], vms: [1], transport",
            "read-4m], vms: [1], transport",
            "plain streams only write",
            "read_percent: 0",
        ),
    ],
)
def test_parameters_and_streams_that_cannot_be_are_refused(
    write: Callable[[str], str], old: str, new: str, message: str, hint: str
) -> None:
    text = (ROOT / "studies" / "long-distance" / "study.yaml").read_text()
    with pytest.raises(UsageError, match=message) as e:
        load(write(text.replace(old, new)))
    assert hint in e.value.hint


def test_japanese_text_loses_the_spaces_of_folded_lines() -> None:
    folded = "TCP では速い。 ゲストの NIC は （1 Gbit/s） 遅い 。 10 GbE では 限界になる。"
    assert Text(en="text", ja=folded).ja == "TCP では速い。ゲストの NIC は（1 Gbit/s）遅い。10 GbE では限界になる。"
