"""Terminals with a Japanese locale show texts of commands in Japanese. Every text is translated."""

from __future__ import annotations

import functools
import re
import string
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from hakaru.cli import app, main
from hakaru.cli.help import CATALOGUE as HELP
from hakaru.cli.help import texts
from hakaru.translation import CATALOGUE, FOREIGN, japanese, templates
from rich.cells import cell_len

from tests.shown_texts import all_texts, has_words, shown_texts

PYTHON = Path(__file__).parents[1] / "python"
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
FILES = sorted(PYTHON.rglob(f"locale/{CATALOGUE}"))


def fields(text: str) -> list[str]:
    return sorted(field for _, field, _, _ in string.Formatter().parse(text) if field is not None)


@functools.cache
def messages(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file, locale="ja") if message.id}


def catalogue() -> dict[str, str]:
    return {english: form for path in FILES for english, form in messages(path).items()}


def test_every_text_of_a_command_has_a_translation() -> None:
    known = catalogue()
    texts = shown_texts()
    assert len(texts) > 1000
    untranslated = [f"{places[0]}: {template}" for template, places in texts.items() if template not in known]
    assert not untranslated, f"add them to {CATALOGUE}"


def test_every_translation_belongs_to_a_text_of_the_source() -> None:
    known = shown_texts().keys() | all_texts()
    assert not [english for english in catalogue() if english not in known]


def test_no_message_is_translated_twice() -> None:
    counts = Counter(english for path in FILES for english in messages(path))
    assert not [english for english, count in counts.items() if count > 1]


@pytest.mark.parametrize("path", [*FILES, PYTHON / "hakaru" / "locale" / FOREIGN], ids=str)
def test_translations_keep_every_value_and_are_japanese(path: Path) -> None:
    for english, form in messages(path).items():
        assert fields(english) == fields(form), english
        words = re.sub(r"`[^`]*`|{\d}", "", english)
        assert JAPANESE.search(form) or english == form or not re.search("[a-z]{3,}", words), english


def test_a_text_is_translated_by_its_own_template() -> None:
    """Each template is filled with values that occur nowhere else. Values beside each other cannot
    be separated.
    """
    known = {english: form for english, form in catalogue().items() if "}{" not in english.replace("}}", "")}
    wrong = {}
    for english, form in known.items():
        values = [f"v{name}-x" for name in fields(english)]
        found = japanese(english.format(*values))
        if re.sub(r"\s", "", found) != re.sub(r"\s", "", form.format(*values)):
            wrong[english] = found
    assert not wrong


def test_templates_are_sorted_by_how_specific_they_are() -> None:
    sizes = [sum(map(len, each.literals)) for each in templates()]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("the lab has 3 arrays", "検証環境にストレージが 3 台ある"),
        (
            "a/study.yaml:3:5: lab.hosts: 99 hosts are more than 64",
            "a/study.yaml:3:5: lab.hosts：ホスト 99 台は上限の 64 台を超える",
        ),
        # Two lines, each with its place.
        (
            "s.yaml:1:1: vms: unknown field\ns.yaml:2:1: title: missing",
            "s.yaml:1:1: vms：知らない項目\ns.yaml:2:1: title：この項目がない",
        ),
        # A text from elsewhere stays as it is, the sentence around it does not.
        ("engine host-1 does not start: Exec format error", "engine host-1 が起動しない：Exec format error"),
        ("./x/study.yaml: No such file or directory", "./x/study.yaml：ファイルまたはディレクトリがない"),
        # A text in a text, and two texts behind each other.
        (
            "no guest with vhost-net: this machine has no /dev/vhost-net",
            "vhost-net のゲストを使えない：このマシンに /dev/vhost-net がない",
        ),
        (
            "leave it out; 3 of 9 repetitions are kept: `hakaru run x --resume y` continues it",
            "省く。9 回の繰り返しのうち 3 回の結果が残っている：`hakaru run x --resume y` で続ける",
        ),
        # The last value is short, the one before it contains the separator.
        ("load 1/6: random-32k, vms 7, 0:12 left", "負荷 1/6：random-32k, vms 7、残り 0:12"),
        # Code and quoted names are no texts, even if they read like one.
        ("no study named 'leave it out'", "'leave it out' という検証シナリオはない"),
        ("add `no message:` here", "ここに `no message:` を加える"),
        ("valid here: copy, files, packets, vms", "使える名前：copy, files, packets, vms"),
        ("s.yaml:1:1: factors: should be a list (found nothing)", "s.yaml:1:1: factors：リストを書く（指定：なし）"),
        # Unknown texts stay English.
        ("the moon is made of cheese", "the moon is made of cheese"),
        ("the moon exists", "the moon exists"),
        ("alice is not a planet", "alice is not a planet"),
        ("", ""),
    ],
)
def test_texts_are_translated(english: str, expected: str) -> None:
    assert japanese(english) == expected


def hakaru(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "hakaru.cli", *arguments],
        env=path | environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


ENGLISH = "error: no study named 'vm-sweeep'\nhint: did you mean 'vm-sweep'?\n"
JAPANESE_ERROR = "エラー：'vm-sweeep' という検証シナリオはない\nヒント：'vm-sweep' の間違いではないか\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "ja_JP.UTF-8"}, JAPANESE_ERROR),  # also where this locale is not installed
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ja_JP.UTF-8"}, JAPANESE_ERROR),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, ENGLISH),
        ({"LANG": "xx_YY.broken"}, ENGLISH),
        ({}, ENGLISH),
    ],
)
def test_errors_follow_the_locale(environment: dict[str, str], expected: str) -> None:
    assert hakaru("plan", "vm-sweeep", **environment).stderr == expected


def test_json_is_english_in_every_locale() -> None:
    english, in_japan = (hakaru("plan", "vm-sweep", "--quick", "--json", LANG=lang) for lang in ("C", "ja_JP.UTF-8"))
    assert english.returncode == 0
    assert english.stdout == in_japan.stdout


def test_plan_of_every_study_is_japanese(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines with prose are; those of names and levels are the same in both languages."""
    studies = sorted(path.parent.name for path in (PYTHON.parent / "studies").glob("*/study.yaml"))
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    for study in studies:
        assert main(["plan", study]) == 0
        _, *lines = capsys.readouterr().out.splitlines()
        names = re.compile(r"  p|  .* - \S+: ")
        english = [line for line in lines if not names.match(line) and not JAPANESE.search(line)]
        assert not english, study
        assert not re.search(r"\b(about|at most|points|repetitions|engines|order)\b", "\n".join(lines[:3])), study


def test_has_words_separates_prose_from_code() -> None:
    assert has_words("the lab has {0} arrays")
    assert has_words("{0} exists")
    assert not has_words("{0}: {1}")
    assert not has_words("`hakaru runs`")
    assert not has_words("sudo mkdir {0}")


def test_help_is_in_japanese(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["array", "create", "--help"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["array", "create", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "使い方：hakaru array create [OPTIONS] ARRAY VOLUME SIZE"
    assert "プールにボリュームを作り、シン LU として提供する。" in lines
    assert not [line for line in lines if cell_len(line) > 80]
    words = {word for line in lines for word in re.findall(r"[a-z]{4,}", line)}
    assert words <= {"hakaru", "array", "create", "block", "quota", "json", "yaml", "fast"}


def test_every_text_of_help_has_a_translation() -> None:
    """The catalogue has the texts of all commands and options, and no others."""
    translated = messages(HELP)
    assert set(translated) == set(texts(app))
    assert not [text for text, form in translated.items() if not JAPANESE.search(form)]
