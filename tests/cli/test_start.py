"""`hakaru init` and `hakaru validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru import kind
from hakaru.cli import main
from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.study import expand, load

KINDS = [name for name, each in sorted(kind.of_studies().items()) if each.template("en")]
LANGUAGES = ("en", "ja")
MINUTE_S = 60
TEXTS = {"title", "question", "expectation"}


def test_kinds_of_hakaru_have_templates() -> None:
    assert {"vms", "copy", "packets", "files"} <= set(KINDS)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", KINDS)
def test_template_is_a_short_study_that_runs_in_a_minute(
    name: str, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name, "try-it", "--lang", language]) == 0
    assert capsys.readouterr().out == "try-it/study.yaml\n"
    assert main(["validate", "./try-it"]) == 0
    loaded = load("./try-it")
    assert (loaded.study.id, loaded.study.kind) == ("try-it", name)
    text = loaded.path.read_text()
    lines = text.splitlines()
    assert lines[0] == "# yaml-language-server: $schema=study.schema.json"
    assert 15 <= len(lines) <= 36
    assert sum("#" in line for line in lines) >= 8
    assert max(map(len, lines)) <= 130
    expanded = expand(loaded.study)
    assert estimate(expanded, plan_lab(loaded.study.lab)).seconds <= MINUTE_S
    assert expanded.measure.repetitions >= 2  # enough for intervals, and for `hakaru compare`


def test_study_without_a_quick_form_is_not_run_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "vms", "try-it"]) == 0
    assert main(["plan", "./try-it", "--quick"]) == 2
    assert "error: --quick: try-it has no quick form" in capsys.readouterr().err


@pytest.mark.parametrize("name", KINDS)
def test_templates_of_both_languages_are_the_same_study(name: str) -> None:
    paths = [kind.named(name).template(language) for language in LANGUAGES]
    english, japanese = (load(str(path)).study for path in paths)
    assert english.model_dump(exclude=TEXTS) == japanese.model_dump(exclude=TEXTS)
    for text in sorted(TEXTS):
        assert getattr(english, text).en == getattr(japanese, text).en
        assert getattr(japanese, text).ja != getattr(japanese, text).en


def test_comments_follow_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert main(["init"]) == 0
    assert "ストレージ" in Path("my-study/study.yaml").read_text()
    assert load("./my-study").study.kind == "vms"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["vmz"], "no kind of study named 'vmz' has a template", "did you mean 'vms'?"),
        (["tuning"], "no kind of study named 'tuning' has a template", "vms"),
        (["vms", "My Study"], "'My Study' cannot be the ID of a study", "lower-case letters"),
        (["vms", "there"], "there/study.yaml exists", "hakaru init vms FOLDER"),
    ],
)
def test_init_refuses_and_overwrites_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("there/study.yaml").write_text("mine\n")
    assert main(["init", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err and hint in shown.err.partition("hint:")[2]
    assert Path("there/study.yaml").read_text() == "mine\n"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def broken(tmp_path: Path, *edits: tuple[str, str]) -> str:
    template = kind.named("vms").template("en")
    assert template is not None
    text = template.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return str(path)


def test_validate_prints_every_error_with_its_own_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = (("  hosts: 2", "  host: 2"), ("read_percent: 70", "read_percent: 170"), ("64 GiB", "64 GB1"))
    path = broken(tmp_path, *edits)
    assert main(["validate", path]) == 2
    shown = capsys.readouterr()
    errors = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert shown.out == ""
    texts = [new for _, new in edits]
    lines = [n for n, line in enumerate(Path(path).read_text().splitlines(), 1) if any(text in line for text in texts)]
    assert [int(error.partition(f"{path}:")[2].split(":")[0]) for error in errors] == lines
    assert "hint: did you mean 'hosts'?" in shown.err


def test_validate_prints_every_fault_between_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broken(tmp_path, ("pattern: [oltp-8k]", "pattern: [oltp]"), ("columns: [[0]]", "columns: [[3]]"))
    assert main(["validate", path, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    (line,) = (n for n, line in enumerate(Path(path).read_text().splitlines(), 1) if "columns: [[3]]" in line)
    assert line in {error["line"] for error in found["errors"]}
    assert all(error["message"] and error["column"] for error in found["errors"])


def test_validate_checks_the_preset_and_the_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", broken(tmp_path, ("name: jdsf-2011", "name: jdsf2011"))]) == 2
    assert "did you mean 'jdsf-2011'?" in capsys.readouterr().err
    assert main(["validate", broken(tmp_path, ("vms: [1, 4, 8]", "vms: [1, 4, 80]"))]) == 2
    assert "there is room for 16" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vm-sweep", "backup-mismatch", "long-distance", "forwarding"])
def test_shipped_studies_are_valid(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", name]) == 0
    assert "(quick form)" in capsys.readouterr().out
