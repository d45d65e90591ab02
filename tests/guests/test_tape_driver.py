"""Our tape drive and that of tgt, another maker, under the kernel's `st` driver."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import find_image

from tests.guests.st_trace import CAPACITY, OPERATIONS, outcomes, tape_of_tgt
from tests.guests.tape_library import library_in
from tests.peers.array import MIB
from tests.peers.tgt import Tgt, tgt

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "array.md"
HEADING = "### Outcomes under Linux that differ from those of tgt\n"
LIBRARY: dict[str, Any] = {
    "lun": 0,
    "drives": [{"lun": lun, "generation": "lto5"} for lun in (1, 2)],
    "slots": 1,
    "cartridges": [{"barcode": "HAK001L5", "slot": 1}],
    "capacity_bytes": CAPACITY,
    "early_warning_bytes": MIB,
}


def test_the_reference_lists_every_outcome_that_differs_from_tgt(tmp_path: Path) -> None:
    try:
        image = find_image("generic")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")

    async def work(peer: Tgt) -> tuple[list[str], list[str]]:
        async with library_in(image, LIBRARY) as library:
            await library.mtx("load 1 0")
            ours = await outcomes(library, "/dev/nst0")
            async with tape_of_tgt(library, peer) as tape:
                return ours, await outcomes(library, tape)

    with tgt(tmp_path, CAPACITY, tape=True) as peer:
        ours, theirs = asyncio.run(work(peer))
    both = [(name, our, their) for (name, _), our, their in zip(OPERATIONS, ours, theirs, strict=True)]
    differing = [f"| {name} | {our} | {their} |" for name, our, their in both if our != their]
    section = REFERENCE.read_text().split(HEADING)[1].split("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == differing, "\n".join(["the table should have these rows:", *differing, f"all: {both}"])
    assert f"{len(differing)} of {len(OPERATIONS)} outcomes differ" in section.replace("\n", " ")
