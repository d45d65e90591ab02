"""Files of a wheel: `hakaru/shipped` links to every study with its README, table, page and schema.

A wheel contains only the package, so files outside the package need these links.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "python" / "hakaru" / "shipped"
PATTERNS = (
    "studies/*/study.yaml",
    "studies/*/README.md",
    "studies/*/*.csv",
    "reference/*.csv",
    "docs/**/*.md",
    "schema/*.json",
)
FILES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_users_need_is_in_the_package(path: Path) -> None:
    link = SHIPPED / path.relative_to(ROOT)
    assert link.is_symlink() and link.resolve() == path, f"ln -s it: {link}"


def test_package_ships_no_dangling_link() -> None:
    assert [p for p in SHIPPED.rglob("*") if not p.is_dir() and p.resolve() not in FILES] == []
