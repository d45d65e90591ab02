"""Comments and docstrings of the entire tree avoid the dialect that tests/dialect.py lists."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.dialect import dialect_in

ROOT = Path(__file__).resolve().parent.parent
RUST_COMMENT = re.compile(r"^\s*(//[/!]?)(?!/) ?(.*)$")


def rust_comments(source: str) -> Iterator[tuple[int, str]]:
    """Blocks of consecutive comment lines of one form, each with the number of its first line."""
    form, first, lines = "", 0, []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        match = RUST_COMMENT.match(line)
        if match and match[1] == form:
            lines.append(match[2])
            continue
        if lines:
            yield first, "\n".join(lines)
        form, first, lines = (match[1], number, [match[2]]) if match else ("", 0, [])


def python_comments(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, texts below attributes, and comments, each with the number of its first line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    first, last, lines = 0, 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text, number = token.string.lstrip("# "), token.start[0]
        if lines and number == last + 1:
            lines.append(text)
        else:
            if lines:
                yield first, "\n".join(lines)
            first, lines = number, [text]
        last = number
    if lines:
        yield first, "\n".join(lines)


COMMENTS = {".rs": rust_comments, ".py": python_comments}


def test_comments_are_free_of_dialect() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.rs", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    faults = []
    for name in listed:
        path = ROOT / name
        for number, text in COMMENTS[path.suffix](path.read_text()):
            # A comment may say since when; a text for users writes "because" or the moment.
            prose = re.sub(r"\bsince\b", "", " ".join(text.split()))
            faults += [f"{name}:{number}: {fault}" for fault in dialect_in(prose)]
    assert faults == []


def test_comments_are_found_in_both_languages() -> None:
    assert list(rust_comments("/// One.\n/// Two.\nlet a = 1;\n// Three.\n")) == [(1, "One.\nTwo."), (4, "Three.")]
    source = '"""One."""\na = 1  # two\n# three\n\ndef f():\n    """Four."""\n'
    assert [text for _, text in python_comments(source)] == ["One.", "Four.", "two\nthree"]
