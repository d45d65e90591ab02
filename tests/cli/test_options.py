"""Options with a special syntax: their values and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from cyclopts import Token
from hakaru.cli import main
from hakaru.cli.options import parse_only
from hakaru.cli.tune import PathAndLoad, conditions_of
from hakaru.errors import UsageError

from tests.fixtures.make_run import make_run


def only(*values: str) -> object:
    return parse_only(None, [Token(keyword="--only", value=value) for value in values])


def test_only_takes_levels_of_several_factors() -> None:
    assert only("vms=1, 7", "pattern=random-32k") == (("vms", ("1", "7")), ("pattern", ("random-32k",)))


def test_two_factors_in_one_only_option_are_refused_with_the_correct_form() -> None:
    with pytest.raises(UsageError) as error:
        only("pattern=random-32k,vms=1")
    assert error.value.hint == "repeat the option for each factor: --only pattern=random-32k --only vms=1"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["plan", "vm-sweep", "--only", "vms"], "--only vms: write it as FACTOR=LEVEL,…", "for example --only vms=1,7"),
        (["plan", "vm-sweep", "--only", "vms=3"], "--only vms=3: no point has this level", "1, 4, 6, 7"),
        (["plan", "vm-sweep", "--only", "vm=1"], "--only vm: the study has no such factor", "did you mean 'vms'?"),
        (["plan", "vm-sweep", "--only", "vms=1", "--only", "vms=7"], "--only names a factor twice", "vms=1,7"),
        (["plan", "vm-sweep", "--repetitions", "0"], "Must be >= 1", "`hakaru plan --help` lists"),
        (["plan", "vm-sweep", "--repetitions", "101"], "Must be <= 100", "`hakaru plan --help` lists"),
        (["tune", "--depth", "x"], "--depth: 'x' is not a number of requests", "write a whole number from 1 to"),
        (["tune", "--depth", "1.5"], "--depth: '1.5' is not a number of requests", "or `any`"),
        (["report", "x", "--format", "docx"], "--format: unknown value 'docx'", "choose from html, pdf, json;"),
        (["report", "x", "--lang", "fr"], "--lang: unknown value 'fr'", "choose from en, ja;"),
        (
            ["run", "vm-sweep", "--report", "doc"],
            "--report: unknown value 'doc'",
            "html, pdf, json, or none",
        ),
        (["tune", "--rtt", "20"], "--rtt: a duration", "example"),
        (["tune", "--rtt", "20 min"], "--rtt: 20 min is too large", "choose at most 10 s"),
        (["tune", "--loss", "100"], "--loss", "`hakaru tune --help` lists"),
        (["array", "create", "a", "p/v", "64"], "a size is a number and a unit", "example"),
    ],
)
def test_wrong_values_are_refused_with_the_option_and_a_remedy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert message in shown.partition("\nhint: ")[0]
    assert hint in shown.partition("\nhint: ")[2]


@pytest.mark.parametrize(
    "arguments",
    [["analyse", "./none.pcap"], ["plan", "./none.yaml"], ["array", "status", "./none.yaml"], ["report", "./none"]],
    ids=lambda arguments: str(arguments[0]),
)
def test_a_missing_file_is_a_usage_error_of_every_command(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert "none" in capsys.readouterr().err


def test_a_mistyped_run_gets_the_closest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make_run(tmp_path).name
    monkeypatch.setenv("HAKARU_RUNS", str(tmp_path))
    assert main(["report", name.replace("sweep", "swep")]) == 2
    assert f"did you mean {name!r}?" in capsys.readouterr().err


def test_conditions_of_a_tuning_in_a_lab_default_to_20_ms_and_1_gbit_per_s() -> None:
    conditions = conditions_of(PathAndLoad(depth="any"), None)
    assert (conditions.rtt_ns, conditions.rate_bits_per_s, conditions.depth) == (20_000_000, 10**9, None)


def test_tune_has_defaults_for_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--resume", "nosuch", "--out", str(tmp_path)]) == 2
    assert "no run named 'nosuch'" in capsys.readouterr().err
