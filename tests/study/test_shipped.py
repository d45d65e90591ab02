"""Files of a wheel: `hakaru/shipped` links to every study and table, and to the page about metrics.

A wheel contains only the package, so files outside the package need these links.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "python" / "hakaru" / "shipped"
FILES = sorted([*ROOT.glob("studies/*/study.yaml"), *ROOT.glob("studies/*/*.csv"), *ROOT.glob("reference/*.csv")])
FILES.append(ROOT / "docs" / "reference" / "metrics.md")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_study_and_table_is_in_the_package(path: Path) -> None:
    link = SHIPPED / path.relative_to(ROOT)
    assert link.is_symlink() and link.resolve() == path, f"ln -s it: {link}"


def test_package_ships_no_dangling_link() -> None:
    assert [p for p in SHIPPED.rglob("*") if not p.is_dir() and p.resolve() not in FILES] == []
