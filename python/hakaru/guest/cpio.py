"""Archive in cpio's `newc` format, which Linux unpacks as its first root (kernel:
driver-api/early-userspace).

The host's `cpio` may be missing and would store its own users, times and inode numbers. This writer
gives the same bytes for the same content. It writes no devices, because the guest mounts devtmpfs.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_DIRECTORY, _FILE, _LINK = 0o040755, 0o100000, 0o120777
_ALIGNMENT = 4


class Writer:
    """Adds entries in order, and parent directories as needed. `close` ends the archive, not the
    stream.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._inode = 0
        self._names: set[str] = set()

    def add_directory(self, name: str) -> None:
        """Add a directory with its parents, unless it exists."""
        if not name or name in self._names:
            return
        self._add(name, _DIRECTORY, b"")

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(name, _LINK, target.encode())

    def add_file(self, name: str, content: bytes | Path, *, executable: bool) -> None:
        """Add a regular file of mode 0644, or 0755 if executable."""
        data = content.read_bytes() if isinstance(content, Path) else content
        self._add(name, _FILE | (0o755 if executable else 0o644), data)

    def close(self) -> None:
        """Add the entry that ends the archive."""
        self._emit(0, "TRAILER!!!", 0, b"")

    def _add(self, name: str, mode: int, data: bytes) -> None:
        assert not name.startswith("/") and name not in self._names, f"{name} is not a new relative name"
        self.add_directory(name.rpartition("/")[0])
        self._names.add(name)
        self._inode += 1
        self._emit(self._inode, name, mode, data)

    def _emit(self, inode: int, name: str, mode: int, data: bytes) -> None:
        path = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device (2), represented device (2), length
        # of the name, checksum
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + path
        self._stream.write(header + bytes(-len(header) % _ALIGNMENT))
        self._stream.write(data)
        self._stream.write(bytes(-len(data) % _ALIGNMENT))
