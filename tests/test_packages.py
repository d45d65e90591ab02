"""Packages of hakaru import only those below them, and no modules import each other in a circle.

Every `import` counts, also inside functions and under TYPE_CHECKING. Kinds of study are found by
entry points, which are no imports, so packages can use kinds without naming them. The test needs no
engine: `pytest -q tests/test_packages.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "python"

ORDER = (
    ("cli",),
    ("web",),
    ("live",),
    ("kinds",),
    ("tune",),
    ("report",),
    ("analysis",),
    ("array", "doctor", "files"),
    ("run", "capture"),
    ("store",),
    ("lab.check",),
    ("lab.build",),
    ("lab.sandbox",),
    ("study",),
    ("lab.plan",),
    ("lab.model",),
    ("fileserver",),
    ("guest", "remote"),
    ("engine",),
    ("output",),
    ("translation",),
    ("wording", "terminal", "text", "suggest", "lost_packets", "unix_socket"),
    ("kind", "units", "caveats", "login_defaults", "search", "steadiness"),
    ("extras",),
    ("errors", "left_terminal", "system_calls", "kernel_threads"),
    ("",),
)
"""Packages and modules of hakaru, from top to bottom; those of one row do not import each other.

The lab has two halves. Model and plan are pure, and studies use them to check whether their lab
is possible. Guests are below both, because a model contains their interfaces and a plan asks
whether this machine can run them. Sandbox, build and check change this machine, do not depend on
studies, and are used by runs.
"""

RANK = {name: rank for rank, row in enumerate(ORDER) for name in row}

Imports = Mapping[str, frozenset[str]]
"""Module → modules that it imports, all by their full names."""


def modules_of(folder: Path) -> dict[str, Path]:
    """Return full name → file of every module under `folder`."""
    modules = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(module: str, path: Path, known: Mapping[str, Path]) -> frozenset[str]:
    """Return the modules of `known` that a module imports anywhere in its file."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            imported |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names}
    return frozenset(name for name in imported & set(known) if name != module)


def read_imports(folder: Path) -> Imports:
    known = modules_of(folder)
    return {module: imports_of(module, path, known) for module, path in known.items()}


def place_of(module: str) -> str | None:
    """Return the package in ORDER that a module belongs to: the longest prefix of its name."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in RANK), "" if not parts or parts == ["lab"] else None)


def upward_imports(imports: Imports) -> Iterator[str]:
    """Yield imports of packages that are not below, and modules that are not in the order."""
    for module, imported in sorted(imports.items()):
        place = place_of(module)
        if place is None:
            yield f"{module} has no place in the order of packages"
            continue
        for other in sorted(imported):
            above = place_of(other)
            if above is not None and above != place and RANK[above] <= RANK[place]:
                yield f"{module} imports {other}: {place or 'hakaru'} is not above {above}"


def circles(imports: Imports) -> Iterator[str]:
    """Yield groups of modules that import each other, directly or through others (strongly
    connected components, by reachability).
    """
    reached = {module: _reachable(module, imports) for module in imports}
    done: set[str] = set()
    for module in sorted(imports):
        if module not in done and module in reached[module]:
            circle = sorted(other for other in reached[module] if module in reached[other])
            done |= set(circle)
            yield " ↔ ".join(circle)


def _reachable(module: str, imports: Imports) -> frozenset[str]:
    reached: set[str] = set()
    pending = list(imports[module])
    while pending:
        other = pending.pop()
        if other not in reached:
            reached.add(other)
            pending.extend(imports.get(other, ()))
    return frozenset(reached)


def test_packages_import_only_those_below_them() -> None:
    assert list(upward_imports(read_imports(SOURCE))) == []


def test_modules_have_no_import_cycles() -> None:
    assert list(circles(read_imports(SOURCE))) == []


def test_every_name_in_the_order_exists() -> None:
    modules = modules_of(SOURCE)
    assert [name for name in RANK if name and f"hakaru.{name}" not in modules] == []


def test_one_module_calls_the_kernel_through_ctypes() -> None:
    users = [name for name, path in modules_of(SOURCE).items() if "ctypes" in standard_imports(path)]
    assert users == ["hakaru.system_calls"]


def standard_imports(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize(
    ("file", "text", "violation"),
    [
        ("study/load.py", "from hakaru.run.plan import lines", "study is not above run"),
        ("study/load.py", "def f():\n    import hakaru.run.plan\n", "study is not above run"),
        (
            "study/load.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..run import plan\n",
            "study is not above run",
        ),
        ("lab/build/lab.py", "from hakaru.lab.check import links", "lab.build is not above lab.check"),
        ("analysis/points.py", "from hakaru.kinds.vms import KIND", "analysis is not above kinds"),
        ("array/page.py", "import hakaru.doctor", "array is not above doctor"),
        ("helpers/page.py", "", "hakaru.helpers.page has no place in the order of packages"),
    ],
)
def test_planted_upward_import_is_found(tmp_path: Path, file: str, text: str, violation: str) -> None:
    plant(tmp_path, {file: text})
    assert violation in "\n".join(upward_imports(read_imports(tmp_path)))


def test_imports_downwards_and_within_a_package_are_allowed(tmp_path: Path) -> None:
    files = {
        "cli/run.py": "from hakaru.kinds.vms import KIND\nfrom .options import Only",
        "study/load.py": "from hakaru.lab.model import LabSpec\nfrom hakaru.study.factors import f",
        "cli/options.py": "import json",
    }
    plant(tmp_path, files)
    assert list(upward_imports(read_imports(tmp_path))) == []


def test_planted_import_cycle_is_found(tmp_path: Path) -> None:
    files = {
        "study/load.py": "from hakaru.study import factors",
        "study/factors.py": "def f():\n    from hakaru.study.part import g",
        "study/part.py": "from .load import h",
    }
    plant(tmp_path, files)
    expected = "hakaru.study.factors ↔ hakaru.study.load ↔ hakaru.study.part"
    assert list(circles(read_imports(tmp_path))) == [expected]


def plant(folder: Path, files: Mapping[str, str]) -> None:
    """Write a small package `hakaru` that has every package the planted files may import."""
    every = {"__init__.py": "", "run/plan.py": "", "lab/check/links.py": "", "kinds/vms/__init__.py": ""}
    every |= {"doctor/__init__.py": "", "lab/model/__init__.py": ""}
    for name, text in (every | dict(files)).items():
        path = folder / "hakaru" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in path.relative_to(folder).parents:
            if parent.parts:
                (folder / parent / "__init__.py").touch()
