"""Kinds of study are found through entry points, in our own package and in others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hakaru import kind
from hakaru.errors import EnvironmentError_, UsageError

MODULE = """
from hakaru.kind import Kind

class Other(Kind):
    name = "other"
    study = run = analysis = report = None

KIND = Other()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder on `sys.path`. Kinds are looked up again in a test that installs one, and
    after it.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    kind.registered.cache_clear()
    yield tmp_path
    kind.registered.cache_clear()
    for name in [name for name in sys.modules if name.startswith("planted_kind")]:
        del sys.modules[name]


def plant(folder: Path, source: str, declared: str) -> None:
    (folder / "planted_kind.py").write_text(source)
    info = folder / "planted_kind-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-kind\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{kind.GROUP}]\n{declared}\n")


def test_our_own_kinds_are_declared_as_entry_points() -> None:
    assert {"vms", "copy", "tuning"} <= set(kind.registered())


def test_each_kind_has_every_part() -> None:
    for registered in kind.registered().values():
        assert all(
            part is not None for part in (registered.study, registered.run, registered.analysis, registered.report)
        ), registered.name


def test_kind_of_another_package_is_found(install: Path) -> None:
    plant(install, MODULE, "other = planted_kind:KIND")
    assert {"vms", "other"} <= set(kind.registered())
    assert kind.named("other").folder == install


def test_a_kind_without_a_module_for_a_part_is_named(install: Path) -> None:
    source = MODULE.replace("    study = run = analysis = report = None\n", "")
    plant(install, source, "other = planted_kind:KIND")
    with pytest.raises(EnvironmentError_, match="kind of study 'other' has no part 'report'") as e:
        _ = kind.named("other").report
    assert "REPORT" in e.value.hint
    assert kind.named("other").tune is None


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no kind of study named 'nosuch'") as e:
        kind.named("nosuch")
    assert "copy" in e.value.hint and "vms" in e.value.hint


@pytest.mark.parametrize(
    ("source", "declared", "message"),
    [
        ("KIND = None", "other = planted_kind:KIND", "is not the kind of study 'other'"),
        (MODULE, "another = planted_kind:KIND", "is not the kind of study 'another'"),
        (MODULE, "other = planted_kind:NOTHING", "cannot be loaded"),
        ("import no_such_module", "other = planted_kind:KIND", "cannot be loaded"),
    ],
)
def test_invalid_entry_point_is_named(install: Path, source: str, declared: str, message: str) -> None:
    plant(install, source, declared)
    with pytest.raises(EnvironmentError_, match=message):
        kind.registered()


@pytest.mark.parametrize("module", ["analysis.summary", "report.document", "run.runner", "study.load", "tune.run"])
def test_module_that_uses_kinds_can_be_imported_first(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import hakaru.{module}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", ["study", "run", "analysis", "report"])
@pytest.mark.parametrize("name", ["vms", "copy", "tuning"])
def test_a_part_of_a_kind_can_be_imported_first(name: str, part: str) -> None:
    code = f"from hakaru import kind; kind.named({name!r}).{part}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
