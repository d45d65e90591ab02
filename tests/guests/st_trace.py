"""Operations on a tape through the kernel's `st` driver, and the same on the tape drive of tgt."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.guests.tape_library import Library
from tests.peers.tgt import TARGET_NAME, Tgt

BLOCK = 10_240
CAPACITY = 64 << 20

OPERATIONS = (
    ("status of an empty tape", "mt -f $TAPE status"),
    ("write 3 blocks", "put a 10240 3"),
    ("status after 3 blocks", "mt -f $TAPE status"),
    ("write 2 blocks", "put b 10240 2"),
    ("weof 1", "mt -f $TAPE weof 1"),
    ("status at the end", "mt -f $TAPE status"),
    ("tell at the end", "mt -f $TAPE tell"),
    ("rewind", "mt -f $TAPE rewind"),
    ("status at the beginning", "mt -f $TAPE status"),
    ("read a block", "get 10240 1"),
    ("read a block into more memory", "get 16384 1"),
    ("read a block into less memory", "get 4096 1"),
    ("read to the filemark", "get 10240 9"),
    ("fsf 1", "mt -f $TAPE rewind && mt -f $TAPE fsf 1"),
    ("read the second file", "get 10240 9"),
    ("read between two filemarks", "get 10240 9"),
    ("read at the end of data", "get 10240 9"),
    ("bsf 1", "mt -f $TAPE bsf 1"),
    ("status after bsf", "mt -f $TAPE status"),
    ("bsfm 2", "mt -f $TAPE bsfm 2"),
    ("fsr 1", "mt -f $TAPE fsr 1"),
    ("bsr 1", "mt -f $TAPE bsr 1"),
    ("fsr 9 over a filemark", "mt -f $TAPE fsr 9"),
    ("asf 1", "mt -f $TAPE asf 1"),
    ("fsf 9 past the end of data", "mt -f $TAPE fsf 9"),
    ("eod", "mt -f $TAPE eod"),
    ("status at the end of data", "mt -f $TAPE status"),
    ("seek 1", "mt -f $TAPE seek 1"),
    ("tell after seek", "mt -f $TAPE tell"),
    ("read after seek", "get 10240 1"),
    ("setblk 1024", "mt -f $TAPE rewind && mt -f $TAPE setblk 1024"),
    ("write fixed blocks", "put c 8192 2"),
    ("read fixed blocks", "mt -f $TAPE rewind && get 8192 9"),
    ("setblk 0", "mt -f $TAPE rewind && mt -f $TAPE setblk 0"),
    ("erase", "mt -f $TAPE erase"),
    ("offline", "mt -f $TAPE offline"),
    ("status without a cartridge", "mt -f $TAPE status"),
    ("load", "mt -f $TAPE load"),
)
"""Name and script of each operation. They include the ends of the tape, wrong lengths, and orders
that a drive may refuse. The driver writes a filemark after each file.
"""

FUNCTIONS = f"""
put() {{ tr '\\0' "$1" </dev/zero | head -c $(($2 * $3)) | dd of=$TAPE bs=$2 iflag=fullblock; }}
get() {{ dd if=$TAPE bs=$1 count=$2 of=/tmp/read && head -c {BLOCK} /tmp/read | sha256sum | head -c 8; }}
"""


KNOWN = {
    hashlib.sha256(data).hexdigest()[:8]: name
    for name, data in {
        "nothing": b"",
        "block a": b"a" * BLOCK,
        "block b": b"b" * BLOCK,
        "blocks c": b"c" * BLOCK,
    }.items()
}
"""Beginning of the SHA-256 of what was read → name. Other data are what the memory of the guest's
kernel held: the driver believes a drive that reports neither an end nor a residual.
"""


async def outcomes(library: Library, tape: str) -> list[str]:
    """The outcome of each operation on the tape, whose cartridge is empty and at its beginning."""
    found = []
    for _, script in OPERATIONS:
        shown = await library.run(
            f"TAPE={tape}\n{FUNCTIONS}\nset +e\n({script}) >/tmp/out 2>&1; echo exit $? >>/tmp/out; cat /tmp/out"
        )
        found.append(_outcome(shown))
    return found


def _outcome(shown: str) -> str:
    """The parts of a program's output that the drive decides: errors, numbers of records, and the
    position and flags of `mt status`.
    """
    code = shown.rsplit("exit ", 1)[1].strip()
    parts = [] if code == "0" else ["fails"]
    parts += re.findall(r": ([A-Z][\w /]+)$", shown, re.MULTILINE)[:1]
    parts += [f"{count} records" for count in re.findall(r"^(\d+\+\d+) records out", shown, re.MULTILINE)]
    parts += [KNOWN.get(found, "other data") for found in re.findall(r"^([0-9a-f]{8})(?:exit|$)", shown, re.MULTILINE)]
    parts += re.findall(r"(At block \d+)", shown)
    if position := re.search(r"File number=(-?\d+), block number=(-?\d+)", shown):
        flags = shown[shown.index("General status bits on") :].split("\n")[1].split()
        parts.append(f"file {position[1]}, block {position[2]}, {' '.join(flags)}")
    return "; ".join(parts) or "done"


@asynccontextmanager
async def tape_of_tgt(library: Library, peer: Tgt) -> AsyncIterator[str]:
    """Attach the tape drive of tgt to the guest of the library, which has two drives.

    QEMU's network leads to 127.0.0.1 alone, where tgt cannot choose a free port.
    """
    host, port = peer.portal.split(":")

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_tgt, to_tgt = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_copy(reader, to_tgt), _copy(from_tgt, writer))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        portal = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        session = await library.initiator.log_in(portal, TARGET_NAME)
        await library.run("for i in $(seq 100); do [ -c /dev/nst2 ] && exit 0; usleep 200000; done; exit 1")
        yield "/dev/nst2"
        await session.log_out()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while received := await reader.read(1 << 16):
        writer.write(received)
        await writer.drain()
    writer.close()
