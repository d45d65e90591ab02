"""Commands that the `st` driver sends to a tape drive, in an order that meets every condition."""

from __future__ import annotations

from dataclasses import dataclass

from tests.peers.scsi import Answer, Initiator

BLOCK = 10_240


@dataclass(frozen=True)
class Step:
    """A command; the bytes `shown` of its data, from and to, are compared."""

    name: str
    cdb: bytes
    read: int = 0
    data: bytes = b""
    shown: tuple[int, int] = (0, 0)


def _six(opcode: int, byte_1: int = 0, count: int = 0) -> bytes:
    return bytes([opcode, byte_1]) + (count & 0xFFFFFF).to_bytes(3, "big") + b"\0"


def _block(number: int, length: int = BLOCK) -> bytes:
    return bytes([number]) * length


def _write(number: int) -> Step:
    return Step(f"WRITE block {number}", _six(0x0A, 0, BLOCK), data=_block(number))


def _read(name: str, length: int = BLOCK) -> Step:
    return Step(f"READ {name}", _six(0x08, 0, length), read=length, shown=(0, 4))


def _space(name: str, code: int, count: int) -> Step:
    return Step(f"SPACE {name}", _six(0x11, code, count))


def _marks(count: int) -> Step:
    return Step(f"WRITE FILEMARKS {count}", _six(0x10, 0, count))


def _position(name: str) -> Step:
    return Step(f"READ POSITION {name}", bytes([0x34]) + bytes(9), read=20, shown=(4, 8))


def _locate(name: str, block: int) -> Step:
    return Step(f"LOCATE {name}", bytes([0x2B, 0, 0]) + block.to_bytes(4, "big") + bytes(3))


_REWIND = Step("REWIND", _six(0x01))

TRACE = (
    Step("TEST UNIT READY", _six(0x00)),
    Step("INQUIRY", bytes([0x12, 0, 0, 0, 36, 0]), read=36, shown=(0, 2)),
    Step("READ BLOCK LIMITS", _six(0x05), read=6, shown=(0, 6)),
    Step("MODE SENSE", bytes([0x1A, 0, 0, 0, 12, 0]), read=12, shown=(9, 12)),
    Step("MODE SELECT variable blocks", bytes([0x15, 0x10, 0, 0, 12, 0]), data=bytes([0, 0, 0x10, 8, *bytes(8)])),
    Step("REWIND of an empty tape", _six(0x01)),
    _read("of an empty tape"),
    _write(1),
    _write(2),
    _marks(1),
    _write(3),
    _marks(2),
    _position("at the end"),
    _REWIND,
    _position("at the beginning"),
    _read("block 1"),
    _read("of more than block 2 has", BLOCK + 512),
    _read("of a filemark"),
    _read("of less than block 3 has", BLOCK - 512),
    _read("of the first of two filemarks"),
    _read("of the second of two filemarks"),
    _read("at the end of data"),
    _space("blocks -1 over a filemark", 0, -1),
    _space("filemarks -1", 1, -1),
    _space("filemarks -9 to the beginning", 1, -9),
    _space("blocks 1", 0, 1),
    _space("blocks 9 to a filemark", 0, 9),
    _space("filemarks 8388607 to the end of data", 1, 8_388_607),
    _space("end of data", 3, 0),
    _position("after the end of data"),
    _locate("block 1", 1),
    _position("after LOCATE"),
    _read("after LOCATE"),
    _locate("behind the end of data", 1000),
    _REWIND,
    Step("WRITE FILEMARKS 0", _six(0x10)),
    Step("MODE SELECT of a WORM medium", bytes([0x15, 0x10, 0, 0, 12, 0]), data=bytes([0, 1, 0x10, 8, *bytes(8)])),
    Step("SECURITY PROTOCOL IN, encryption", bytes([0xA2, 0x20, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]), read=64),
    Step("LOG SENSE", bytes([0x4D, 0, 0x40, 0, 0, 0, 0, 0, 64, 0]), read=64),
    Step("ERASE", _six(0x19)),
    Step("unload", bytes([0x1B, 0, 0, 0, 0, 0])),
    Step("TEST UNIT READY after unload", _six(0x00)),
)


def answers(initiator: Initiator) -> list[str]:
    """The answer to each step, after the unit attention conditions of a new session."""
    while initiator.run(TRACE[0].cdb).text.startswith("6/"):
        pass
    return [_text(step, initiator.run(step.cdb, read=step.read, data=step.data)) for step in TRACE]


def _text(step: Step, answer: Answer) -> str:
    shown = answer.data[slice(*step.shown)].hex()
    return f"{answer.text} {shown}".rstrip()
