"""Files are either complete or do not exist."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import IO

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.store import write_atomic, write_json


def test_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    write_json(path, {"b": "計"})
    assert path.read_text() == '{\n "b": "計"\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_failure_during_a_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fill(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(EnvironmentError_) as e:
        write_atomic(path, fill)
    assert "No space left on device" in e.value.message
    assert "--resume" in e.value.hint
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_vanished_folder_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_) as e:
        write_atomic(tmp_path / "gone" / "x", lambda file: file.write(b"x"))
    assert str(tmp_path / "gone" / "x") in e.value.message


def test_numbers_that_are_not_json_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []
