"""The image: impossible images are refused with a reason, and the archive suits the kernel."""

from __future__ import annotations

import errno
import io
import lzma
import os
import struct
import time
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest import cpio, image, kernel, packages
from hakaru.guest.recipe import RECIPES


def test_archive_is_newc_byte_for_byte(tmp_path: Path) -> None:
    """The layout is that of the kernel's
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

    # The folder precedes its content, although it was not added explicitly.
    expected = entry(1, 0o040755, b"d", b"")
    expected += entry(2, 0o100755, b"d/file", b"12345") + entry(3, 0o120777, b"d/link", b"file")
    assert stream.getvalue() == expected + entry(0, 0, b"TRAILER!!!", b"")


def test_duplicate_name_in_an_archive_is_an_assertion_error() -> None:
    archive = cpio.Writer(io.BytesIO())
    archive.add_file("a", b"", executable=False)
    with pytest.raises(AssertionError):
        archive.add_file("a", b"", executable=False)


def bz_image(payload: bytes) -> bytes:
    """Return a kernel with this payload behind two sectors, which begin with the boot code."""
    head = bytearray(1024)
    head[0x1F1] = 1
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    return bytes(head) + payload + b"signature"


ENTRY = struct.pack("<III4sQ", 4, 8, 18, b"Xen\0", 0x1000000)


def test_kernel_is_unpacked_once(tmp_path: Path) -> None:
    packed, content = tmp_path / "kernel", b"\x7fELF" + ENTRY + b"code" * 1000
    # The boot code finds the length of the content at the end.
    packed.write_bytes(bz_image(lzma.compress(content) + struct.pack("<I", len(content))))
    found = kernel.unpacked(packed)
    assert found.read_bytes() == content
    packed.unlink()
    assert kernel.unpacked(packed) == found and list(tmp_path.iterdir()) == [found]


def test_cache_without_space_for_the_unpacked_kernel_is_named_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    packed = tmp_path / "kernel"
    packed.write_bytes(bz_image(lzma.compress(b"\x7fELF" + ENTRY) + bytes(4)))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EnvironmentError_, match=r"cannot be kept in .*: No space left on device") as raised:
        kernel.unpacked(packed)
    assert "XDG_CACHE_HOME" in raised.value.hint and list(tmp_path.iterdir()) == [packed]


@pytest.mark.parametrize("payload", [lzma.compress(b"\x7fELF"), b"\x02\x21\x4c\x18" + ENTRY], ids=["no entry", "lz4"])
def test_kernel_that_cannot_be_unpacked_is_used_as_it_is(tmp_path: Path, payload: bytes) -> None:
    packed = tmp_path / "kernel"
    packed.write_bytes(bz_image(payload))
    assert kernel.unpacked(packed) == packed and list(tmp_path.iterdir()) == [packed]


def test_unknown_package_is_refused_with_the_message_of_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        packages.architecture()
    except EnvironmentError_ as error:
        pytest.skip(error.message)
    # With an empty list of sources, apt knows no package and uses no network.
    empty = tmp_path / "sources"
    empty.mkdir()
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{empty}";\n')
    with pytest.raises(EnvironmentError_, match="hakaru-has-no-such-package"):
        packages.fetch(["hakaru-has-no-such-package"], tmp_path / "apt")


def test_version_of_a_package_lacks_its_epoch() -> None:
    names = ("libc6_2.36-9+deb12u13_amd64", "samba_2%3a4.17.12+dfsg-0+deb12u1_amd64", "adduser_3.134_all")
    made = image.Image(Path("kernel"), Path("initramfs"), RECIPES["file-server"], "6.1.0", names)
    assert made.version("samba") == "4.17.12+dfsg-0+deb12u1" and made.version("adduser") == "3.134"
    with pytest.raises(KeyError):
        made.version("nano")


def test_machine_without_apt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentError_, match="apt-get is not installed"):
        packages.architecture()


def test_unused_images_are_deleted(tmp_path: Path) -> None:
    for name, used in (("old", 1.0), ("new", time.time())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel").touch()
        os.utime(tmp_path / name, (used, used))
    image._delete_unused(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["new"]


def test_failed_build_of_an_image_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "architecture", lambda: "m68k")
    with pytest.raises(EnvironmentError_, match="m68k"):
        image.find_image()
    assert list((tmp_path / "hakaru" / "guest").iterdir()) == []
