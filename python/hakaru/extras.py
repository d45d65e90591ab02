"""Imports of packages that belong to an optional extra of hakaru
(`[project.optional-dependencies]` of pyproject.toml).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

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


def is_installed(package: str) -> bool:
    """Return whether a package is installed, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module that was removed from this process
        return False


PANGO_HINT = "`sudo apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0`"


def import_weasyprint() -> Any:
    """Import WeasyPrint, which typesets PDF reports and takes a second to import. Raises
    EnvironmentError_ if it is not installed, or if the system lacks Pango.
    """
    with extra("report"):
        try:
            # Without Pango it prints advice on stdout, which is for data.
            with redirect_stdout(None):
                import weasyprint
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            raise EnvironmentError_(f"PDF reports need Pango: {reason}", PANGO_HINT) from error
    return weasyprint


class Deferred:
    """Stands for a package of an extra, and imports it when one of its names is first used.

        alt = Deferred("altair", "report")

    Using a name raises EnvironmentError_ if the package is not installed. `prepare` is called with
    the package once, after its import.
    """

    def __init__(self, package: str, extra_name: str, prepare: Callable[[Any], None] = lambda module: None) -> None:
        self._package, self._extra_name, self._prepare = package, extra_name, prepare

    def __getattr__(self, name: str) -> Any:
        with extra(self._extra_name):
            module = importlib.import_module(self._package)
        self._prepare(module)
        # Found in the instance from now on, so this method is not called again.
        self.__dict__.update(vars(module))
        return getattr(module, name)
