"""The optional packages of the views: hakaru works without them, and names the extra to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A module that is None in sys.modules cannot be imported, as if it were not installed.
SCRIPT = """\
import sys
for name in ("textual", "starlette", "uvicorn"):
    sys.modules[name] = None
{body}
"""


def python(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body)],
        cwd=ROOT / "python",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("call", "package", "extra"),
    [
        ("from hakaru.cli import main; sys.exit(main(['web']))", "uvicorn", "hakaru[web]"),
        ("from hakaru.cli.live import full_screen; full_screen()", "textual", "hakaru[live]"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(call: str, package: str, extra: str) -> None:
    body = f"""
from hakaru.errors import HakaruError
try:
    {call}
except HakaruError as error:
    print(error.message, file=sys.stderr); print(error.hint, file=sys.stderr); sys.exit(error.exit_code)
"""
    result = python(body)
    assert result.returncode == 3, result.stderr
    assert package in result.stderr and f"pip install '{extra}'" in result.stderr


def test_everything_else_works_without_them(tmp_path: Path) -> None:
    result = python(f"from hakaru.cli import main; sys.exit(main(['attach', '--plain', '--out', {str(tmp_path)!r}]))")
    assert result.returncode == 2 and "no run is in progress" in result.stderr
    assert python("from hakaru.cli import main; sys.exit(main(['studies']))").returncode == 0
