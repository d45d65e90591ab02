"""Scenarios of an engine between real interfaces, each a program in a network namespace of its own,
mostly in a user namespace, too, without root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
ALONE_AS_ROOT = ["unshare", "--net", "--mount"]


def report_of(scenario: str, timeout_s: float, *, as_root: bool = False) -> dict[str, Any]:
    """Run a module of `tests.engine` and return the JSON object that it prints. Skips where user
    namespaces are forbidden. `as_root`: as root of the machine; skips without root.
    """
    alone = ALONE_AS_ROOT if as_root else ALONE
    if as_root and os.geteuid() != 0:
        pytest.skip("only root may load programs into the kernel")
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("namespaces are forbidden here")
    done = subprocess.run(
        [*alone, sys.executable, "-m", f"tests.engine.{scenario}", find_engine()],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])},
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report
