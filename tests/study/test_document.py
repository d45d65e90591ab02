"""Reading of untrusted YAML."""

from __future__ import annotations

import time

import pytest
from hakaru.errors import UsageError
from hakaru.study.document import DEPTH_MAX, SIZE_MAX, Place, parse_document
from hypothesis import given, settings
from hypothesis import strategies as st


def refusal(raw: bytes) -> str:
    with pytest.raises(UsageError) as e:
        parse_document(raw, "s.yaml")
    return e.value.message


def test_yaml_1_2_leaves_words_and_times_as_text() -> None:
    read = parse_document(b"a: no\nb: 12:30:45\nc: 2026-01-01\nd: 0o17\ne: 1e3\nf:\ng: 1_000\nh: 0x1F\n", "s.yaml").data
    assert read == {
        "a": "no",
        "b": "12:30:45",
        "c": "2026-01-01",
        "d": 15,
        "e": 1000.0,
        "f": None,
        "g": "1_000",
        "h": 31,
    }


def test_every_part_has_its_place() -> None:
    document = parse_document(b"a:\n  - b: 1\n    c: [x, yy]\n", "s.yaml")
    assert document.place_of(("a", 0, "c", 1)) == Place(3, 12)
    assert document.place_of(("a", 0, "c"), key=True) == Place(3, 5)
    assert document.place_of(("a", 0, "missing")) == Place(2, 5)


def test_duplicate_key_is_refused_with_both_places() -> None:
    with pytest.raises(UsageError) as e:
        parse_document(b"a: 1\nb:\n  c: 1\n  c: 2\n", "s.yaml")
    assert e.value.message == "s.yaml:4:3: b.c: duplicate key"
    assert "line 3" in e.value.hint


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "s.yaml:1:1: the file is empty"),
        (b"a: !!python/object/apply:os.system [id]\n", "s.yaml:1:4: tags are not allowed"),
        (b"a: !x 1\n", "s.yaml:1:4: tags are not allowed"),
        (b"a: &x [*x]\n", "s.yaml:1:8: alias *x has no anchor before it"),
        (b"a: b: c\n", "s.yaml:1:5: not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "s.yaml:2:1: not valid YAML"),
        (b"a: 1\nb: \x00\n", "s.yaml:2:4: not valid YAML"),
        (b"a: 1\nb: \xff\n", "s.yaml:2:4: the file is not UTF-8"),
        (b"? [1]\n: 2\n", "s.yaml:1:3: a key must be text"),
        (b"a: " + b"9" * 5000, "s.yaml:1:4: a: not a number"),
        (b"#" * (SIZE_MAX + 1), "s.yaml:1:1: the file is larger than 1024 KiB"),
        (b"[" * (DEPTH_MAX + 1), f"s.yaml:1:{DEPTH_MAX + 1}: nested deeper than {DEPTH_MAX}"),
    ],
)
def test_bad_document_is_refused_with_its_place(raw: bytes, expected: str) -> None:
    assert refusal(raw).startswith(expected)


def test_alias_bomb_is_refused_before_anything_is_built() -> None:
    bomb = b"a0: &a0 [1, 1]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 27))
    began = time.monotonic()
    assert "including those that aliases refer to" in refusal(bomb)
    assert time.monotonic() - began < 1


def test_a_few_aliases_are_allowed() -> None:
    assert parse_document(b"a: &x {b: 1}\nc: *x\n", "s.yaml").data == {"a": {"b": 1}, "c": {"b": 1}}


@settings(max_examples=settings().max_examples * 3)
@given(st.binary(max_size=300) | st.text("{}[]&*!:-,#'\"ab1 \n?|>%@`", max_size=120).map(str.encode))
def test_any_bytes_give_data_or_a_usage_error_with_a_place(raw: bytes) -> None:
    try:
        parse_document(raw, "s.yaml")
    except UsageError as e:
        assert e.message.startswith("s.yaml:")
