"""Every third-party module that hakaru imports is declared in pyproject.toml.

An undeclared module that another package depends on disappears when that package drops it. The test
needs no engine.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def imported_modules() -> set[str]:
    """Return the top-level modules that hakaru imports, without its own and those of the standard
    library.
    """
    modules: set[str] = set()
    for path in (ROOT / "python" / "hakaru").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    return modules - {"hakaru"} - set(sys.stdlib_module_names)


def canonical_name(requirement: str) -> str:
    """Return the canonical name of a requirement: `ruamel-yaml` for `ruamel.yaml>=0.19`."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_third_party_module_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [r for group in project["optional-dependencies"].values() for r in group]
    declared = {canonical_name(r) for r in (*project["dependencies"], *extras)}
    distributions = packages_distributions()
    undeclared = {
        module
        for module in imported_modules()
        if not declared & {canonical_name(name) for name in distributions.get(module, [module])}
    }
    assert not undeclared
