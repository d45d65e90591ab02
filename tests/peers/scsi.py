"""SCSI commands of the caller's choice over iSCSI, by libiscsi."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_ubyte, c_void_p
from dataclasses import dataclass

import pytest

NORMAL_SESSION = 2
NO_LUN = -1
"""Connect without commands to an LU."""
CHECK_CONDITION = 2


class _Buffer(Structure):
    """`struct iscsi_data`, which is `struct scsi_data` as well in its first fields."""

    _fields_ = (("size", c_size_t), ("data", POINTER(c_ubyte)))


class _DataIn(Structure):
    _fields_ = (("size", c_int), ("data", POINTER(c_ubyte)))


class _Sense(Structure):
    _fields_ = (
        ("error_type", c_ubyte),
        ("key", c_int),
        ("ascq", c_int),
        ("bits", c_ubyte),
        ("bit_pointer", c_ubyte),
        ("field_pointer", ctypes.c_uint16),
    )


class _Task(Structure):
    """The first fields of `struct scsi_task`."""

    _fields_ = (
        ("status", c_int),
        ("cdb_size", c_int),
        ("xfer_dir", c_int),
        ("expxferlen", c_int),
        ("cdb", c_ubyte * 16),
        ("residual_status", c_int),
        ("residual", c_size_t),
        ("sense", _Sense),
        ("datain", _DataIn),
    )


@dataclass(frozen=True)
class Answer:
    """Status, sense data in its fixed format (empty if there is none), and data."""

    status: int
    sense: bytes = b""
    data: bytes = b""

    @property
    def text(self) -> str:
        """`GOOD`, or sense key, ASC and ASCQ, the bits FILEMARK, EOM and ILI, and INFORMATION."""
        if self.status != CHECK_CONDITION:
            return "GOOD" if self.status == 0 else f"status {self.status:#04x}"
        key, flags = self.sense[2] & 0x0F, self.sense[2]
        names = [name for name, bit in (("FILEMARK", 0x80), ("EOM", 0x40), ("ILI", 0x20)) if flags & bit]
        information = int.from_bytes(self.sense[3:7], "big", signed=True)
        known = [str(information)] if self.sense[0] & 0x80 else []
        return " ".join([f"{key:X}/{self.sense[12]:02X}/{self.sense[13]:02X}", *names, *known])


class Initiator:
    """A session with a target."""

    def __init__(self, library: ctypes.CDLL, context: int, lun: int) -> None:
        self._library, self._context, self._lun = library, context, lun

    def run(self, cdb: bytes, *, read: int = 0, data: bytes = b"") -> Answer:
        """Execute a command that returns up to `read` bytes, or sends `data`."""
        direction = 1 if read else 2 if data else 0
        task = self._library.scsi_create_task(len(cdb), cdb, direction, read or len(data))
        assert task, "no memory for a task"
        raw = ctypes.create_string_buffer(data, max(len(data), 1))
        out = _Buffer(len(data), ctypes.cast(raw, POINTER(c_ubyte)))
        sent = ctypes.byref(out) if data else None
        done = self._library.iscsi_scsi_command_sync(self._context, self._lun, task, sent)
        assert done, self._library.iscsi_get_error(self._context)
        contents = ctypes.cast(done, POINTER(_Task)).contents
        received = bytes(contents.datain.data[: contents.datain.size])
        status = contents.status
        self._library.scsi_free_scsi_task(done)
        if status == CHECK_CONDITION:
            # The sense data follows its length (RFC 7143 section 11.4.7.2).
            return Answer(status, sense=received[2:])
        return Answer(status, data=received)


@contextmanager
def session(portal: str, target_name: str, lun: int) -> Iterator[Initiator]:
    """A session for the commands to one LU. Skip the test without libiscsi."""
    try:
        library = ctypes.CDLL("libiscsi.so.7")
    except OSError:
        pytest.skip("libiscsi is not installed (Debian package libiscsi7)")
    library.iscsi_create_context.restype = c_void_p
    library.iscsi_get_error.restype = c_char_p
    library.scsi_create_task.restype = c_void_p
    library.iscsi_scsi_command_sync.restype = c_void_p
    library.iscsi_scsi_command_sync.argtypes = [c_void_p, c_int, c_void_p, c_void_p]
    library.scsi_free_scsi_task.argtypes = [c_void_p]
    for name in ("iscsi_get_error", "iscsi_logout_sync", "iscsi_destroy_context"):
        getattr(library, name).argtypes = [c_void_p]
    context = library.iscsi_create_context(b"iqn.2026-01.org.hakaru:trace")
    assert context, "no memory for a session"
    try:
        library.iscsi_set_targetname(c_void_p(context), target_name.encode())
        library.iscsi_set_session_type(c_void_p(context), NORMAL_SESSION)
        connected = library.iscsi_full_connect_sync(c_void_p(context), portal.encode(), NO_LUN)
        assert connected == 0, library.iscsi_get_error(context)
        yield Initiator(library, context, lun)
        library.iscsi_logout_sync(context)
    finally:
        library.iscsi_destroy_context(context)
