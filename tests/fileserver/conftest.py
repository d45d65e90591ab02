"""Runs `scenario.py` as root and as an ordinary user."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import User, user

__all__ = ["user"]

SCENARIO = Path(__file__).with_name("scenario.py")


def need_samba() -> None:
    """Skip the test if a program of Samba is missing."""
    for program, package in (("smbd", "samba"), ("pdbedit", "samba-common-bin"), ("smbclient", "smbclient")):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian package {package})")


def start(user: User, *arguments: str) -> subprocess.Popen[str]:
    """Start a scenario."""
    return subprocess.Popen(
        [*user.prefix, user.python, str(SCENARIO), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=user.folder,
        env=user.environment(),
    )


def lines_of(user: User, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    """Run a scenario to its end and return its lines."""
    process = start(user, *arguments)
    output, errors = process.communicate(timeout=240)
    assert process.returncode == status, errors + output
    return [json.loads(line) for line in output.splitlines()]
