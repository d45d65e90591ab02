"""System calls that Python 3.11 lacks, one function each. Only this module uses `ctypes`.

Each function takes the arguments of its manual page, in the same order, and raises OSError with the
errno. Python 3.12 adds `os.unshare` and `os.setns`, but no counterpart of the other calls.
Requiring 3.12 would therefore not replace this module (see docs/reference/dependencies.md). It
imports only the standard library, because the supervisor of a sandbox loads it before any other
module of hakaru.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

# linux/sched.h
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
# linux/mount.h
MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
MNT_DETACH = 0x2
# linux/capability.h
CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN = 12, 13, 21
_CAPABILITY_VERSION_3 = 0x2008_0522
# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
# linux/falloc.h
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2
# The same number on x86-64 and on every architecture added to Linux after 2011.
_SYS_IO_URING_SETUP = 425
_IO_URING_PARAMS_BYTES = 120
# By machine, because bpf(2) is older than the common numbers.
_SYS_BPF = {"x86_64": 321, "aarch64": 280}

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def unshare(flags: int) -> None:
    """Move the calling thread into new namespaces (unshare(2)); CLONE_NEWUSER needs a process of
    one thread.
    """
    _check(_libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, namespace_type: int) -> None:
    """Move the calling thread into the namespace that a descriptor refers to (setns(2))."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(namespace_type)))


def mount(source: str | None, target: str, file_system: str | None, flags: int, options: str | None = None) -> None:
    """Mount a file system, or change the propagation of a mount (mount(2)). `options`: those of the
    file system, separated by commas.
    """
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, file_system)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


def umount2(target: str, flags: int) -> None:
    """Unmount a file system (umount2(2))."""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)))


def set_capabilities(capabilities: int) -> None:
    """Set the effective, permitted and inheritable sets of this thread to a mask (capset(2))."""
    # Version 3 has two words of 32 bits; all capabilities used here are in the first.
    data = (_CapabilityData * 2)()
    data[0] = _CapabilityData(capabilities, capabilities, capabilities)
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)))


def raise_ambient_capability(capability: int) -> None:
    """Let a capability survive exec by a user who is not root (PR_CAP_AMBIENT of prctl(2))."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def set_parent_death_signal(signal: int) -> None:
    """Ask for a signal when the parent of this process dies (PR_SET_PDEATHSIG of prctl(2))."""
    _prctl(_PR_SET_PDEATHSIG, signal, 0)


def punch_hole(descriptor: int, offset: int, length: int) -> None:
    """Deallocate the space of a range of a file and keep the file size (FALLOC_FL_PUNCH_HOLE of
    fallocate(2)).
    """
    mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    _check(_libc.fallocate(ctypes.c_int(descriptor), mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def syncfs(descriptor: int) -> None:
    """Write all data of the file system of an open file to its storage (syncfs(2))."""
    _check(_libc.syncfs(ctypes.c_int(descriptor)))


def io_uring_setup(entries: int) -> int:
    """Create an io_uring with default parameters and return its descriptor (io_uring_setup(2))."""
    parameters = ctypes.create_string_buffer(_IO_URING_PARAMS_BYTES)
    descriptor: int = _libc.syscall(ctypes.c_long(_SYS_IO_URING_SETUP), ctypes.c_uint(entries), parameters)
    _check(min(descriptor, 0))
    return descriptor


def bpf(command: int, layout: str, *values: int | bytes) -> int:
    """Call bpf(2) with attributes laid out as by `struct.pack`. The value of a `Q` may be bytes,
    which are passed by a pointer. Returns a descriptor or 0.
    """
    number = _SYS_BPF.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    buffers = [ctypes.create_string_buffer(value, len(value)) for value in values if isinstance(value, bytes)]
    addresses = iter(buffers)
    packed = struct.pack(layout, *(ctypes.addressof(next(addresses)) if isinstance(v, bytes) else v for v in values))
    attributes = ctypes.create_string_buffer(packed, len(packed))
    result: int = _libc.syscall(ctypes.c_long(number), ctypes.c_int(command), attributes, ctypes.c_uint(len(packed)))
    _check(min(result, 0))
    return result


def _prctl(option: int, second: int, third: int) -> None:
    arguments = (ctypes.c_ulong(second), ctypes.c_ulong(third), ctypes.c_ulong(0), ctypes.c_ulong(0))
    _check(_libc.prctl(ctypes.c_int(option), *arguments))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
