"""Commands that follow from the one that started a run."""

from __future__ import annotations

import inspect

from hakaru.cli.study import run as run_command
from hakaru.kinds.vms.report import REPORT
from hakaru.report.first_page import next_steps
from hakaru.store import typed

NAME = "my-study-20261126-112616-7af7"
TYPED = {
    "study": "my-study",
    "seed": 1,
    "site": {"name": "here"},
    "command": ["hakaru", "run", "/tmp/x/my.yaml", "--out", "/tmp/y", "--site", "s.yaml"],
}
SUMMARY = {
    "run": {"run": NAME, "kind": "vms", "status": "interrupted"},
    "points": [],
    "expectations": [],
    "findings": [],
    "goals": [],
}


def test_commands_of_the_first_page_can_be_typed_where_the_run_was() -> None:
    resume = f"hakaru run /tmp/x/my.yaml --resume {NAME} --out /tmp/y --site s.yaml"
    assert typed.resume(TYPED, NAME) == resume
    commands = [step["command"] for step in next_steps(SUMMARY, TYPED, REPORT, "en")]
    assert commands[0] == resume
    assert commands[-1] == f"hakaru compare {NAME} latest --out /tmp/y"
    assert REPORT.redo(TYPED) == "hakaru run /tmp/x/my.yaml --seed 1 --site s.yaml --out /tmp/y"


def test_study_is_found_between_options() -> None:
    command = ["hakaru", "run", "--quick", "--note", "before", "--out=runs of today", "my.yaml", "--report", "none"]
    run = {"study": "my", "command": command}
    assert typed.study(run) == "my.yaml"
    assert typed.resume(run, NAME) == f"hakaru run my.yaml --resume {NAME} --out 'runs of today'"


def test_study_of_a_run_that_another_command_started_has_its_id() -> None:
    for command in (None, "hakaru run x", ["hakaru", "start", "--out", "y"], ["hakaru", "run"]):
        assert typed.study({"study": "my", "command": command}) == "my"


def test_tuning_is_resumed_without_its_options() -> None:
    command = ["hakaru", "tune", "--trials", "9", "--site", "s.yaml", "--out", "/tmp/y"]
    assert typed.resume({"command": command}, NAME) == f"hakaru tune --resume {NAME} --out /tmp/y"


def test_options_with_values_are_those_of_the_command() -> None:
    parameters = inspect.signature(run_command, eval_str=True).parameters.values()
    given = {p.name.removesuffix("_") for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not False}
    assert {f"--{name}" for name in given} == typed.VALUED
