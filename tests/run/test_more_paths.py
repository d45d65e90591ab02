"""The study more-paths in a real lab, with links that no machine is too slow for: two and four
paths carry as many times what one does.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.report import render
from hakaru.store import RunReader

from tests.run.conftest import ROOT, Hakaru

CHANGES = {"1 Gbit/s": "100 Mbit/s", "size: 1 MiB": "size: 64 KiB"}
"""Text of the study → what the test puts in its place.

With 1 MiB, all commands in flight are a third of what one link carries in 4 s: commands that begin
before the measurement and end in it then move the rate by more than the tolerance below.
"""
AT_LEAST = {"2": 1.9, "4": 3.7}
"""Number of paths → sequential reads from memory, as a multiple of those over one path."""


@pytest.mark.alone
def test_further_paths_multiply_sequential_reads_from_memory(hakaru: Hakaru, tmp_path: Path) -> None:
    study = tmp_path / "more-paths" / "study.yaml"
    study.parent.mkdir()
    text = (ROOT / "studies" / "more-paths" / "study.yaml").read_text()
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    study.write_text(text)
    result = hakaru.run("run", str(study), "--quick", "--only", "array=memory", "--report", "none")
    assert result.returncode == 0, result.stdout + result.stderr
    summary = RunReader(hakaru.only_run()).read("summary.json")
    (gain,) = [finding["evidence"] for finding in summary["findings"] if finding["kind"] == "paths"]
    assert gain["ratio"].keys() == AT_LEAST.keys()
    assert all(gain["ratio"][paths]["mean"] >= least for paths, least in AT_LEAST.items()), gain
    assert gain["limiter"] == {"1": "link", "2": "link", "4": "link"}
    # The expectations about drives have no points here.
    judged = [expectation["held"] for expectation in summary["expectations"]]
    assert judged == [True, True, None, True, None, None]
    (page,) = render(hakaru.only_run(), ["html"], ["en"])
    report = page.read_text()
    assert "Throughput with further paths" in report
