"""`hakaru completion` and `hakaru man`: both know every command and option."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hakaru.cli import app, main
from hakaru.cli.shells import NEGATED, commands, manual

COMMANDS = dict(commands(app))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return str(capsys.readouterr().out)


def options(path: tuple[str, ...]) -> set[str]:
    command = COMMANDS[path]
    if command.default_command is None:
        return set()
    shown = [argument for argument in command.assemble_argument_collection() if argument.show]
    names = {name for argument in shown for name in argument.names if name.startswith("--")}
    return {name for name in names if not name.startswith(NEGATED)}


def test_all_commands_are_found() -> None:
    assert {("run",), ("compare",), ("array", "create"), ("runs", "prune")} <= set(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", shell)
    for path in COMMANDS:
        assert path[-1] in script, path
        for option in options(path):
            assert (option if shell != "fish" else option.removeprefix("--")) in script, (path, option)


def completed(script: Path, *words: str) -> set[str]:
    """Words that bash offers after `hakaru WORDS`."""
    line = " ".join(["hakaru", *words])
    listing = f"""
        source '{script}'
        COMP_WORDS=({line} ''); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        COMP_LINE='{line} '; COMP_POINT=${{#COMP_LINE}}
        eval "$(complete -p hakaru | sed 's/.*-F \\([^ ]*\\).*/\\1/')" hakaru '' '' 2>/dev/null
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", listing], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return {word.strip() for word in done.stdout.splitlines()}


def test_bash_offers_commands_and_subcommands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "hakaru"
    script.write_text(printed(capsys, "completion", "bash"))
    assert {"run", "compare", "init", "runs"} <= completed(script)
    assert {"note", "prune"} <= completed(script, "runs")


def test_manual_describes_every_command_option_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "man").replace("\\-", "-")
    sections = re.split(r"^\.SS ", page, flags=re.MULTILINE)[1:]
    by_command = {tuple(section.splitlines()[0].split()[1:]): section for section in sections}
    assert set(by_command) == set(COMMANDS)
    for path, section in by_command.items():
        for option in options(path):
            assert option in section, (path, option)
    status = page.partition(".SH EXIT STATUS")[2].partition(".SH ENVIRONMENT")[0]
    for code in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "130/143"):
        assert f".B {code}\n" in status


def decoded(page: str) -> str:
    """A page with the letters that roff has as code points, without its places to break lines."""
    page = page.replace("\\-", "-").replace("\\:", "")
    return re.sub(r"\\\[u([0-9A-F]{4,5})\]", lambda code: chr(int(code[1], 16)), page)


def test_manual_is_in_the_language_of_the_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    english = printed(capsys, "man")
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    page = printed(capsys, "man")
    japanese = decoded(page)
    assert page.isascii() and page.count("\n.SS ") == english.count("\n.SS ") == len(COMMANDS)
    assert ".SH 終了ステータス\n" in japanese and ".SH EXIT STATUS" not in japanese
    (run,) = re.findall(r"^\.SS hakaru run\n(.*?)^\.SS ", japanese, flags=re.MULTILINE | re.DOTALL)
    assert "--quick" in run and run.count("例：") == 1
    assert "判定できない" in japanese.partition(".SH 終了ステータス")[2]
    assert str(COMMANDS[("run",)].help).split(".")[0] not in run
    # Every meaning of a command, an option or an exit code is translated.
    plain = [line for line in japanese.splitlines() if re.match(r"[A-Z][a-z]+ [a-z]+ [a-z]+", line)]
    assert plain == []
    status = japanese.partition(".SH 終了ステータス")[2].partition(".SH 環境変数")[0]
    assert re.findall(r"^\.B (.*)$", status, re.MULTILINE) == re.findall(
        r"^\.B (.*)$", english.partition(".SH EXIT STATUS")[2].partition(".SH ENVIRONMENT")[0], re.MULTILINE
    )


@pytest.mark.parametrize("language", ["en", "ja"])
def test_manual_is_valid_roff(tmp_path: Path, language: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    page = tmp_path / "hakaru.1"
    page.write_text("\n".join(manual(app, language)) + "\n")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(page)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_with_options_of_its_own_has_an_example(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    needed = command.default_command is not None and path not in {("man",)} and path[0] != "array"
    if needed:
        words = f"hakaru {' '.join(path)}"
        assert words in str(command.help_epilogue), f"{words}: no example in its help"
