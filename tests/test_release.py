"""A release: one version everywhere, what the tools of `make dist` refuse, and how the pages
installs it. Nothing is built.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import hakaru
import pytest
from hakaru.engine.binary import find_engine
from hakaru.engine.contract import Hello, parse_event

from tests.docs.pages import PAGES

ROOT = Path(__file__).resolve().parents[1]
NUMBER: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
INSTALL = re.compile(r"\b(?:pip3?|pipx|uv tool|uv pip) install\s+([^`\n;|&]+)|\b(?:uvx|pipx run)\s+([^`\n;|&]+)")


def tool(name: str) -> Any:
    """Load a Python program of `tools` that has no suffix."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


# The version


def test_package_has_the_version_of_cargo() -> None:
    assert version("hakaru") == hakaru.__version__ == NUMBER, "make setup"
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


def test_engine_has_the_version_of_cargo() -> None:
    command = [find_engine(), "run"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    hello = parse_event(done.stdout.split(b"\n", 1)[0])
    assert isinstance(hello, Hello)
    assert hello.version.partition("+")[0] == NUMBER, "cargo build --package hakaru-engine"


@pytest.mark.parametrize("lock", ["Cargo.lock", "fuzz/Cargo.lock"])
def test_locks_have_the_version_of_cargo(lock: str) -> None:
    packages = tomllib.loads((ROOT / lock).read_text())["package"]
    own = {p["version"] for p in packages if p["name"].startswith("hakaru-") and p["name"] != "hakaru-fuzz"}
    assert own == {NUMBER}


def test_newest_release_of_the_changelog_is_the_version_of_cargo() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(NUMBER)} - \d{{4}}-\d\d-\d\d", headings[1])


def test_installation_pages_name_no_version() -> None:
    for page in ROOT.glob("docs/guide/installation*.md"):
        assert re.findall(r"hakaru-\d[^`]*", page.read_text()) == [], page.name


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A Git checkout with what `tools/version` needs."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "version", tmp_path / "tools")
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n\n[profile.x]\nversion = "9"\n')
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "one")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def version_of(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "tools" / "version"], capture_output=True, text=True)


def test_version_of_a_commit_has_its_hash(checkout: Path) -> None:
    git(checkout, "tag", "old-experiment")
    assert version_of(checkout).stdout == f"1.2.3+g{git(checkout, 'rev-parse', '--short=9', 'HEAD')}\n"


def test_version_of_a_release_is_its_tag(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3")
    assert version_of(checkout).stdout == "1.2.3\n"


def test_another_tag_than_the_version_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "v1.3.0")
    refused = version_of(checkout)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "error: the tag of this commit is v1.3.0, but Cargo.toml has the version 1.2.3" in refused.stderr


def test_changed_files_are_refused(checkout: Path) -> None:
    (checkout / "new.txt").touch()
    assert version_of(checkout).returncode == 0
    with (checkout / "Cargo.toml").open("a") as file:
        file.write("# changed\n")
    refused = version_of(checkout)
    assert refused.returncode == 2 and "error: files differ from the commit" in refused.stderr


def test_folder_without_git_is_refused(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")
    assert "is not a Git checkout" in version_of(checkout).stderr


# Checks of `make dist`


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with all files and an engine that is only a header."""
    info, data = f"hakaru-{NUMBER}.dist-info", f"hakaru-{NUMBER}.data"
    path = tmp_path / f"hakaru-{NUMBER}-py3-none-manylinux_2_17_x86_64.whl"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with zipfile.ZipFile(path, "w") as archive:
        for name in CHECK.package_files():
            archive.write(ROOT / "python" / name, name)
        archive.writestr(f"{data}/scripts/hakaru", "")
        engine = zipfile.ZipInfo(f"{data}/scripts/hakaru-engine")
        engine.external_attr = 0o755 << 16
        archive.writestr(engine, b"\x7fELF".ljust(18, b"\0") + (62).to_bytes(2, "little"))
        for name in ("RECORD", "sboms/hakaru-engine.cyclonedx.json", "licenses/LICENSE-MIT", "licenses/LICENSE-APACHE"):
            archive.writestr(f"{info}/{name}", "")
        metadata = [f"Version: {NUMBER}", *(f"Provides-Extra: {name}" for name in extras)]
        archive.writestr(f"{info}/METADATA", "\n".join(metadata))
    return path


CHECK = tool("check-wheels")


def test_complete_wheel_is_accepted(wheel: Path) -> None:
    assert list(CHECK.faults_of_wheel(wheel, NUMBER)) == []


@pytest.mark.parametrize(
    "name",
    ["docs/guide/installation.ja.md", "studies/vm-sweep/README.md", "studies/vm-sweep/study.yaml"]
    + [f"schema/{name}.schema.json" for name in ("array", "contract", "report", "study")],
)
def test_wheel_without_a_file_that_users_need_is_refused(wheel: Path, name: str) -> None:
    shorter = wheel.with_name(wheel.name.replace("hakaru", "shorter", 1))
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(shorter, "w") as archive:
        for each in whole.infolist():
            if each.filename != f"hakaru/shipped/{name}":
                archive.writestr(each, whole.read(each))
    assert list(CHECK.faults_of_wheel(shorter, NUMBER)) == [f"hakaru/shipped/{name} is missing"]


def test_wheel_with_the_engine_of_another_processor_is_refused(wheel: Path) -> None:
    renamed = wheel.rename(wheel.with_name(wheel.name.replace("x86_64", "aarch64")))
    (fault,) = CHECK.faults_of_wheel(renamed, NUMBER)
    assert fault.endswith("hakaru-engine is not a program for aarch64")


def test_wheel_of_another_version_is_refused(wheel: Path) -> None:
    assert any("METADATA is missing" in fault for fault in CHECK.faults_of_wheel(wheel, f"{NUMBER}+g1"))


class Package:
    """The part of an installed package that `tools/sbom` reads."""

    def __init__(self, *requires: str) -> None:
        self.requires = requires


INSTALLED = {
    "hakaru": Package(
        "rich>=15",
        "Altair; extra == 'report'",
        "optuna; extra == 'tune'",
        "brotli; extra == 'dev'",
        "old; python_version < '3'",
    ),
    "rich": Package("pygments", "pyyaml; extra == 'more'"),
    "altair": Package("fonttools[woff]"),
    "fonttools": Package("brotli; extra == 'woff'"),
    "optuna": Package("pyyaml", "pygments"),
    **{name: Package() for name in ("pygments", "pyyaml", "brotli", "old")},
}


def bill(name: str, *parts: str, tools: Any) -> dict[str, Any]:
    listed = [{"type": "library", "bom-ref": part, "name": part} for part in parts]
    component = {"type": "application", "bom-ref": name, "name": name}
    return {
        "metadata": {"component": component, "tools": tools},
        "components": listed,
        "dependencies": [{"ref": part, "dependsOn": []} for part in parts],
    }


def test_bill_of_materials_marks_what_only_extras_need() -> None:
    python = bill("", *INSTALLED, tools={"components": [{"type": "application", "name": "cyclonedx-py"}]})
    rust = bill("engine", "serde", tools=[{"vendor": "x", "name": "cargo-cyclonedx", "version": "1"}])
    merged = tool("sbom").merge(python, rust, ("report", "tune"), INSTALLED)
    assert merged["metadata"]["component"] == {"type": "application", "bom-ref": "hakaru", "name": "hakaru"}
    assert [each["name"] for each in merged["metadata"]["tools"]["components"]] == ["cyclonedx-py", "cargo-cyclonedx"]
    parts = {part["name"]: part for part in merged["components"]}
    assert {name for name in INSTALLED if name != "hakaru" and parts[name]["scope"] == "required"} == {
        "rich",
        "pygments",
    }
    extras = {name: [each["value"] for each in part.get("properties", ())] for name, part in parts.items()}
    assert (extras["brotli"], extras["pyyaml"], extras["pygments"]) == (["report"], ["tune"], [])
    assert parts["uplot"]["purl"].startswith("pkg:npm/uplot@") and "serde" in parts
    (edges,) = [each["dependsOn"] for each in merged["dependencies"] if each["ref"] == "hakaru"]
    assert edges == ["altair", "engine", "hakaru-sans", "optuna", "rich", "uplot"]


# How the documentation installs it


def installed_names(text: str) -> Iterator[str]:
    """Yield the packages that the commands in a text install by name from a package index, rather
    than from a file or folder. Words in angle brackets and options are left out.
    """
    for match in INSTALL.finditer(text):
        for word in shlex.split(match[1] or match[2], comments=True):
            if not re.match(r"-|[.$~/<]|\S*/|\S*\.whl", word):
                yield word


def texts() -> Iterator[tuple[str, str]]:
    """Every text that may name a command to install something: pages, and the program's source."""
    for path in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *(ROOT / "python").rglob("*.py")]:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_users_are_told_to_install_files_only() -> None:
    found = [f"{path}: {name}" for path, text in texts() for name in installed_names(text)]
    assert found == []
    assert sum(len(INSTALL.findall(text)) for _, text in texts()) > 5


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`pip install hakaru`", ["hakaru"]),
        ("pipx install 'hakaru[report]'", ["hakaru[report]"]),
        ("uv tool install --quiet hakaru", ["hakaru"]),
        ("uvx hakaru doctor", ["hakaru", "doctor"]),
        ('pipx install "${wheel}[report]"  # a comment', []),
        ("`pip install .`, or", []),
        ("pip install --quiet './hakaru-1-x86_64.whl[report]'", []),
    ],
)
def test_names_that_a_text_installs_are_found(text: str, names: list[str]) -> None:
    assert list(installed_names(text)) == names


def test_programs_of_a_release_can_be_executed() -> None:
    for name in ("check-wheels", "dist", "sbom", "try-install", "try-wheels", "version"):
        assert os.access(ROOT / "tools" / name, os.X_OK), name
