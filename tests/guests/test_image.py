"""The image: what cannot be made is refused with a reason; the archive is the one Linux reads."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_

from tests.guests import cpio, image, packages


def test_archive_is_newc_byte_for_byte(tmp_path: Path) -> None:
    """Against the layout in the kernel's
    `Documentation/driver-api/early-userspace/buffer-format.rst`.
    """
    content = tmp_path / "content"
    content.write_bytes(b"12345")
    stream = io.BytesIO()
    archive = cpio.Writer(stream)
    archive.add_file("d/file", content, executable=True)
    archive.add_link("d/link", "file")
    archive.close()
    zero = b"00000000"

    def entry(inode: int, mode: int, name: bytes, data: bytes) -> bytes:
        head = b"070701%08x%08x" % (inode, mode) + zero * 2 + b"00000001" + zero + b"%08x" % len(data)
        head += zero * 4 + b"%08x" % (len(name) + 1) + zero + name + b"\0"
        return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)

    # The folder comes before what is in it, though nobody added it.
    expected = entry(1, 0o040755, b"d", b"")
    expected += entry(2, 0o100755, b"d/file", b"12345") + entry(3, 0o120777, b"d/link", b"file")
    assert stream.getvalue() == expected + entry(0, 0, b"TRAILER!!!", b"")


def test_same_name_twice_is_a_defect() -> None:
    archive = cpio.Writer(io.BytesIO())
    archive.add_file("a", b"", executable=False)
    with pytest.raises(AssertionError):
        archive.add_file("a", b"", executable=False)


def test_unknown_package_is_refused_with_the_words_of_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        packages.architecture()
    except EnvironmentError_ as error:
        pytest.skip(error.message)
    # No source is asked: an empty list of sources knows no package.
    empty = tmp_path / "sources"
    empty.mkdir()
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{empty}";\n')
    with pytest.raises(EnvironmentError_, match="hakaru-has-no-such-package"):
        packages.fetch(["hakaru-has-no-such-package"], tmp_path / "apt")


def test_machine_without_apt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentError_, match="apt-get is not installed"):
        packages.architecture()


def test_images_that_nobody_uses_any_more_are_deleted(tmp_path: Path) -> None:
    for name, used in (("old", 1.0), ("new", time.time())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel").touch()
        os.utime(tmp_path / name, (used, used))
    image._delete_unused(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["new"]


def test_image_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "architecture", lambda: "m68k")
    with pytest.raises(EnvironmentError_, match="m68k"):
        image.find_image()
    assert list((tmp_path / "hakaru" / "guest").iterdir()) == []
