"""The guide's commands for writing a study work as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_new_study_has_a_schema_that_its_first_line_names(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "first-study.md").read_text()
    block = re.search(r"```sh\n(.*?)```", page[page.index("## Write your own") :], re.DOTALL)
    assert block
    (tmp_path / "hakaru").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hakaru.cli "$@"\n')
    (tmp_path / "hakaru").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", block.group(1)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    study = tmp_path / "my-study" / "study.yaml"
    first = study.read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    schema = study.parent / first.partition("$schema=")[2]
    assert schema.read_text() == (ROOT / "schema" / "study.schema.json").read_text()
