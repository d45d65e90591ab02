"""Imports of packages that belong to an optional extra of hakaru
(`[project.optional-dependencies]` of pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hakaru.errors import EnvironmentError_


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import packages of the extra `name` in this block. Raises EnvironmentError_ if one of them is
    not installed.

        with extra("sql"):
            import duckdb
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "hakaru"):
            raise
        raise EnvironmentError_(
            f"this needs the package {package}, which is not installed",
            f"install hakaru with its extra `{name}` (docs/guide/installation.md)",
        ) from error
