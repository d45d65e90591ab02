"""Fixture that runs `scenario.py` as root and as an ordinary user."""

from __future__ import annotations

import functools
import os
import shutil
import site
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = Path(__file__).with_name("scenario.py")
NOBODY = 65534
MARK = "HAKARU_TEST_MARK"
# setpriv keeps its capabilities until it executes a program. The shell between it and the program
# has none left.
DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]


@dataclass
class User:
    """A user who runs scenarios. `mark` is in the environment of every process of this user's
    tests.
    """

    name: str
    prefix: list[str]
    python: str
    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def command(self, *arguments: str) -> list[str]:
        return [*self.prefix, self.python, str(SCENARIO), *arguments]

    def environment(self, **extra: str) -> dict[str, str]:
        packages = [str(ROOT / "python"), *site.getsitepackages()]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder),
            MARK: self.mark,
            **extra,
        }

    def run(self, *arguments: str, timeout: float = 240, **options: Any) -> subprocess.CompletedProcess[str]:
        options.setdefault("env", self.environment())
        options.setdefault("cwd", self.folder)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=timeout, check=False, **options
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("env", self.environment())
        return subprocess.Popen(self.command(*arguments), text=True, cwd=self.folder, **options)


@functools.cache
def _python_of_ordinary_user() -> str | None:
    """Return an interpreter of this version that any user may run: the one of the tests may be in
    the home directory of root.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}", shutil.which(version) or ""]
    for candidate in filter(None, candidates):
        probe = [*DROP, candidate, "-c", "import pydantic, hakaru.lab.sandbox"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *site.getsitepackages()])}
        if subprocess.run(probe, capture_output=True, check=False, cwd="/", env=environment).returncode == 0:
            return candidate
    return None


# For tests of what both users have in common, beside others in the same file that run as both.
ORDINARY = pytest.mark.parametrize("user", ["ordinary user"], indirect=True)


@pytest.fixture(params=["root", "ordinary user"])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    """Return root, or a user without privileges."""
    with tempfile.TemporaryDirectory(prefix="hakaru-test-") as name:
        folder = Path(name)
        if request.param == "root":
            if os.geteuid() != 0:
                pytest.skip("not started as root")
            yield User("root", [], sys.executable, folder)
            return
        if os.geteuid() != 0:
            yield User("ordinary user", [], sys.executable, folder)
            return
        python = _python_of_ordinary_user()
        if python is None:
            pytest.skip("no Python that an ordinary user may run finds hakaru and its dependencies")
        os.chown(folder, NOBODY, NOBODY)
        yield User("ordinary user", DROP, python, folder)
