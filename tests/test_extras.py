"""Packages of optional extras: hakaru starts without them, and names the extra that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.extras import PANGO_HINT, extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: packages for name, packages in PROJECT["optional-dependencies"].items() if name != "dev"}
MODULES = ("altair", "duckdb", "fontTools", "optuna", "starlette", "textual", "uvicorn", "vl_convert", "weasyprint")
# Runs commands in a process in which these modules are not installed.
_WITHOUT = """
import sys
for name in {modules!r}:
    sys.modules[name] = None
from hakaru.cli import main
sys.exit(max(main(command.split()) for command in sys.argv[1:]))
"""


def without(modules: tuple[str, ...], *commands: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run commands in one process; its exit code is their highest one."""
    program = _WITHOUT.format(modules=modules)
    return subprocess.run([sys.executable, "-c", program, *commands], cwd=cwd, capture_output=True, text=True)


def test_commands_work_without_extras(tmp_path: Path) -> None:
    done = without(MODULES, "--help", "studies", "plan vm-sweep --quick", "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_query_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = without(("duckdb",), "query select", cwd=tmp_path)
    assert done.returncode == 3
    assert "this needs the package duckdb, which is not installed" in done.stderr
    assert "install hakaru with its extra `sql`" in done.stderr


@pytest.mark.parametrize(
    ("call", "package", "name"),
    [("cli.main(['web'])", "uvicorn", "web"), ("cli.live.full_screen()", "textual", "live")],
)
def test_views_name_the_extra_that_they_need(call: str, package: str, name: str) -> None:
    program = _WITHOUT.partition("from hakaru")[0].format(modules=MODULES) + f"from hakaru import cli\n{call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"this needs the package {package}, which is not installed" in done.stderr
    assert name == "live" or f"install hakaru with its extra `{name}`" in done.stderr


def test_run_needs_the_packages_of_its_report_before_it_starts(tmp_path: Path) -> None:
    done = without(MODULES, "run vm-sweep --quick", cwd=tmp_path)
    assert done.returncode == 3 and not any(tmp_path.iterdir())
    assert "reports need the package altair, which is not installed" in done.stderr
    assert "--report none" in done.stderr


def test_report_names_the_extra_that_it_needs(tmp_path: Path, invented_run: Path) -> None:
    done = without(MODULES, f"report {invented_run} --format html --out {tmp_path}", cwd=tmp_path)
    assert done.returncode == 3
    assert "install hakaru with its extra `report`" in done.stderr


def test_summary_of_a_run_is_printed_without_extras(tmp_path: Path, invented_run: Path) -> None:
    call = (
        "from pathlib import Path\nfrom hakaru.analysis import summarise\n"
        "from hakaru.report.points_table import print_summary\n"
        f"print_summary(summarise(Path({str(invented_run)!r})), [])"
    )
    program = _WITHOUT.partition("from hakaru")[0].format(modules=MODULES) + call
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "IOPS" in done.stdout, done.stderr


def test_another_missing_module_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError), extra("sql"):
        import hakaru.missing  # noqa: F401
    with pytest.raises(EnvironmentError_, match="the package missing_package"), extra("sql"):
        import missing_package.part  # noqa: F401


def test_development_has_every_extra() -> None:
    development = set(PROJECT["optional-dependencies"]["dev"])
    assert {package for packages in EXTRAS.values() for package in packages} <= development
    assert not {package for packages in EXTRAS.values() for package in packages} & set(PROJECT["dependencies"])


@pytest.fixture
def without_pango(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose WeasyPrint fails as it does on a system without Pango."""
    fake = tmp_path / "fake" / "weasyprint"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("print('advice')\nraise OSError(\"cannot load library 'libpango-1.0-0'\")\n")
    return {**os.environ, "PYTHONPATH": str(fake.parent)}


def report(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys\nfrom hakaru.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "report", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_report_without_pango_is_html_with_a_note(
    tmp_path: Path, invented_run: Path, without_pango: dict[str, str]
) -> None:
    done = report(without_pango, str(invented_run), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert [Path(line).name for line in done.stdout.splitlines()] == ["report.en.html", "report.ja.html"]
    assert done.stderr == f"note: no PDF, because the system lacks Pango: {PANGO_HINT}\n"


def test_pdf_that_is_asked_for_needs_pango(tmp_path: Path, invented_run: Path, without_pango: dict[str, str]) -> None:
    done = report(without_pango, str(invented_run), "--format", "pdf", "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"PDF reports need Pango: cannot load library 'libpango-1.0-0'\nhint: {PANGO_HINT}" in done.stderr
