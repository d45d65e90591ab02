"""docs/guide/add-a-kind.md works: its files are extracted and installed, and its study is planned
and run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "add-a-kind.md"
FILE = re.compile(r"^\*\*`([^`]+)`\*\*\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the page to a folder, which is an installed package on the path of the
    commands below.
    """
    folder = tmp_path_factory.mktemp("kind")
    for name, text in FILE.findall(PAGE.read_text()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_japanese_page_has_the_same_files() -> None:
    assert FILE.findall(PAGE.with_suffix(".ja.md").read_text()) == FILE.findall(PAGE.read_text())


def hakaru(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "HAKARU_RUNS": str(folder / "runs")}
    command = [sys.executable, "-m", "hakaru.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=800)


IN_ONE = """
import json, sys
from tests.cli.command import run_here
done = [run_here(*words.split()) for words in sys.argv[1:]]
print(json.dumps([(each.returncode, each.stdout, each.stderr) for each in done]))
"""


def in_one_process(folder: Path, *commands: str) -> list[subprocess.CompletedProcess[str]]:
    """Run commands that start no engine. One process for all, because most of the time of each
    would be its imports.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, "-c", IN_ONE, *commands]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=800)
    assert done.returncode == 0, done.stderr
    results = zip(commands, json.loads(done.stdout), strict=True)
    return [subprocess.CompletedProcess(words, *result) for words, result in results]


def test_plan_schema_and_errors_support_the_guides_kind(installed: Path) -> None:
    wrong = installed / "wrong.yaml"
    wrong.write_text((installed / "study.yaml").read_text().replace("server: right", "servers: right"))
    planned, schema, refused = in_one_process(installed, "plan ./study.yaml", "schema", "plan ./wrong.yaml")
    assert planned.returncode == 0, planned.stderr
    assert "200 messages each" in planned.stdout
    loads = json.loads(schema.stdout)["properties"]["load"]
    assert "ping-pong" in json.dumps(loads)
    assert refused.returncode == 2
    assert "wrong.yaml:15:" in refused.stderr and "did you mean 'server'?" in refused.stderr


def test_expectations_name_the_verdicts_of_the_kinds_own_rules(installed: Path) -> None:
    study = (installed / "study.yaml").read_text()
    hints = {"distanse": "did you mean 'distance'?", "drives": "valid here: distance, undetermined"}
    for verdict in hints:
        (installed / f"{verdict}.yaml").write_text(study.replace("resources: [distance]", f"resources: [{verdict}]"))
    done = in_one_process(installed, *(f"plan ./{verdict}.yaml" for verdict in hints))
    for (verdict, hint), refused in zip(hints.items(), done, strict=True):
        assert refused.returncode == 2, refused.stdout
        assert f"no bottleneck '{verdict}'" in refused.stderr and hint in refused.stderr


def farther(study: str) -> str:
    """Return the study with five times the distance and a fifth of the messages, on a machine that
    may carry less than the links: a busy one adds milliseconds, which are not the distance.
    """
    for old, new in ((" 5 ms", " 25 ms"), ("kind: ping-pong", "kind: ping-pong, messages: 40")):
        assert old in study
        study = study.replace(old, new)
    return study.replace("rate: 1 Gbit/s", "rate: 1 Gbit/s, sustained: 1 Mbit/s")


def test_run_gives_table_findings_and_reports(installed: Path) -> None:
    (installed / "farther.yaml").write_text(farther((installed / "study.yaml").read_text()))
    ran = hakaru(installed, "run", "./farther.yaml", "--report", "html,json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "messages/s" in ran.stdout and "expectations: 2 of 2" in ran.stdout
    assert "result: round trip" in ran.stderr
    (run,) = (installed / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    near, far = summary["points"]
    assert summary["run"]["kind"] == "ping-pong"
    assert far["metrics"]["rtt_ms_p50"]["mean"] > near["metrics"]["rtt_ms_p50"]["mean"] + 30
    assert far["limiter"] == "distance"
    for language, title in (("en", "Round-trip time"), ("ja", "往復時間")):
        page = (run / "report" / f"report.{language}.html").read_text()
        assert title in page and page.count("<svg") >= 2
