"""Unpacks a kernel for QEMU's emulated processors, which would take five seconds for it.

unpacked(image.kernel) -> Path     from the cache, or newly written
"""

from __future__ import annotations

import lzma
import struct
import tempfile
from pathlib import Path

from hakaru.guest.image import cache_errors

# Kernel: Documentation/arch/x86/boot.rst.
_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_SECTOR_BYTES = 512
_XZ = b"\xfd7zXZ\0"
# Note of an ELF file: lengths of name and content, type XEN_ELFNOTE_PHYS32_ENTRY, name. It has the
# address at which QEMU enters an unpacked kernel (PVH).
_ENTRY = struct.pack("<III4s", 4, 8, 18, b"Xen\0")


@cache_errors()
def unpacked(kernel: Path) -> Path:
    """Return the unpacked form of a `bzImage`, a file beside it. A kernel that is packed otherwise
    than by xz, or that has no entry for QEMU, is returned as it is.

    Raises EnvironmentError_ if there is no space for it.
    """
    file = kernel.with_name("vmlinux")
    if file.exists():
        return file
    image = kernel.read_bytes()
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    begin = (image[_SETUP_SECTORS] + 1) * _SECTOR_BYTES + offset
    payload = image[begin : begin + length]
    if not payload.startswith(_XZ):
        return kernel
    # The length behind the data is left over.
    content = lzma.LZMADecompressor().decompress(payload)
    if _ENTRY not in content:
        return kernel
    with tempfile.TemporaryDirectory(dir=kernel.parent, prefix="making-") as scratch:
        made = Path(scratch) / file.name
        made.write_bytes(content)
        made.replace(file)
    return file
