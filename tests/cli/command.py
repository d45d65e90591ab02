"""`hakaru …` and its reports within the process of the tests. A command takes a hundredth of the
time of a process of its own, which imports everything first, and a report a tenth.
"""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from hakaru.cli import main
from hakaru.lab import sandbox
from hakaru.report import render
from hakaru.wording import LANGUAGES


def run_here(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that builds no lab; return its exit code and output."""
    words = [str(argument) for argument in arguments]
    stdout, stderr = io.StringIO(), io.StringIO()
    # A lab would replace this process by its own.
    no_lab = patch.object(sandbox, "enter", side_effect=AssertionError("this command builds a lab"))
    with patch.dict(os.environ, environment), no_lab, redirect_stdout(stdout), redirect_stderr(stderr):
        code = main(words)
    return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())


def pages_of(run: Path) -> dict[str, str]:
    """Write the report of a run as HTML; return language → page."""
    pages = render(run, ["html"], LANGUAGES)
    return {language: page.read_text() for language, page in zip(LANGUAGES, pages, strict=True)}
