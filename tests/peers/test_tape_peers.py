"""Our tape drive and that of tgt, another maker, given the same commands."""

from __future__ import annotations

from pathlib import Path

from tests.peers.array import MIB, TARGET_NAME, Engine
from tests.peers.scsi import session
from tests.peers.tape_trace import TRACE, answers
from tests.peers.tgt import LUN as TGT_LUN
from tests.peers.tgt import TARGET_NAME as TGT_NAME
from tests.peers.tgt import tgt

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "array.md"
HEADING = "### Answers that differ from those of tgt\n"
CAPACITY = 64 * MIB
CHANGER, DRIVE = 0, 1
MOVE_FROM_THE_SLOT = bytes([0xA5, 0, 0, 1, 0x04, 0, 0x01, 0, 0, 0, 0, 0])


def of_our_drive() -> list[str]:
    config = {
        "engine": "array",
        "target_name": TARGET_NAME,
        "portals": ["127.0.0.1:0"],
        "lus": [],
        "model": {"kind": "none"},
        "tape_library": {
            "lun": CHANGER,
            "drives": [{"lun": DRIVE, "generation": "lto5"}],
            "slots": 1,
            "cartridges": [{"barcode": "HAK001L5", "slot": 1}],
            "capacity_bytes": CAPACITY,
            "early_warning_bytes": MIB,
        },
    }
    engine = Engine(config)
    try:
        portal = engine.found["portals"][0]
        with session(portal, TARGET_NAME, CHANGER) as changer:
            while (moved := changer.run(MOVE_FROM_THE_SLOT)).text.startswith("6/"):
                pass
            assert moved.text == "GOOD"
        with session(portal, TARGET_NAME, DRIVE) as drive:
            return answers(drive)
    finally:
        engine.process.kill()
        engine.process.wait()


def test_the_reference_lists_every_answer_that_differs_from_tgt(tmp_path: Path) -> None:
    with tgt(tmp_path, CAPACITY, tape=True) as peer, session(peer.portal, TGT_NAME, TGT_LUN) as drive:
        theirs = answers(drive)
    both = list(zip(TRACE, of_our_drive(), theirs, strict=True))
    differing = [f"| {step.name} | {our} | {their} |" for step, our, their in both if our != their]
    section = REFERENCE.read_text().split(HEADING)[1].split("\n#")[0]
    assert f"{len(differing)} of {len(TRACE)} answers differ" in section.replace("\n", " ")
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == differing, "\n".join(["the table should have these rows:", *differing])
