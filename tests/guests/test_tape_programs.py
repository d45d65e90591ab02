"""Backup programs and the tests that they bring along, on a tape library: Bacula and its btape, and
Amanda's amtapetype.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image

from tests.guests import amanda, bacula
from tests.guests.tape_library import LONG_S, Library, library_in
from tests.long_form import IS_LONG, only_long
from tests.peers.array import MIB

# btape fill reads 10,000 records of 32 KiB from the first cartridge before it looks for the last
# one.
CAPACITY, EARLY = 352 * MIB, 4 * MIB
BLOCK = 64_512
"""Bacula's default length of a block."""
AMANDA_CAPACITY, AMANDA_BLOCK = 48 * MIB, 32 * 1024
"""A cartridge that amtapetype fills twice, and Amanda's default length of a block."""
LIBRARY: dict[str, Any] = {
    "lun": 0,
    "drives": [{"lun": lun, "generation": "lto5"} for lun in (1, 2)],
    "slots": 4,
    "cartridges": [{"barcode": f"HAK00{slot}L5", "slot": slot} for slot in (1, 2, 3, 4)],
    "capacity_bytes": CAPACITY,
    "early_warning_bytes": EARLY,
}
OBJECTS = 107
"""Files, folders and links of the tree that is backed up."""
TROUBLE = re.compile(r"ERR=|FAILED|[Ff]ailed|[Bb]ad data|You must correct")


@pytest.fixture(scope="module")
def image() -> Image:
    """The image with the programs. Skips if it cannot be built here."""
    try:
        return find_image("tape-programs")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")


@pytest.mark.timeout(3 * LONG_S)
def test_backup_programs_accept_the_library_and_restore_a_tree(image: Image) -> None:
    """All steps in one guest, because booting takes long. Each uses cartridges of its own."""

    async def work() -> None:
        async with library_in(image, LIBRARY) as library:
            await bacula.install(library)
            # btape takes minutes on an emulated processor.
            if IS_LONG:
                await examine_drive_and_changer(library)
                await fill_two_cartridges(library)
            await back_up_and_restore(library)
            await check_kernel_log(library)

    asyncio.run(work())


# Bacula is the backup program of the gate.
@only_long
def test_amtapetype_finds_capacity_filemarks_and_early_warning(image: Image) -> None:
    """It seeks across filemarks, fills the cartridge with one file, and again with many."""

    async def work() -> None:
        async with library_in(image, LIBRARY | {"capacity_bytes": AMANDA_CAPACITY}) as library:
            await amanda.install(library)
            await library.mtx("load 1 0")
            text = await amanda.amtapetype(library)
            await check_kernel_log(library)
        assert not re.search("[Ee]rror|[Ff]ailed", text), text
        found = dict(re.findall(r"^ +(length|filemark|blocksize) (\d+) kbytes$", text, re.MULTILINE))
        # It counts neither the headers of tape and file, a block each, nor the space after the
        # early warning, of which it uses two blocks.
        assert abs(int(found["length"]) * 1024 - (AMANDA_CAPACITY - EARLY)) <= 2 * AMANDA_BLOCK, text
        # Filemarks occupy nothing: this is the header of each file.
        assert (found["filemark"], found["blocksize"]) == ("32", "32"), text
        assert "# for this drive and kernel, LEOM is supported" in text, text

    asyncio.run(work())


async def check_kernel_log(library: Library) -> None:
    """Check that the kernel has logged no error of a drive or the changer."""
    log = await library.guest.run("dmesg")
    assert not re.search(r"\b(st|ch) \d+:.*(error|failed|timed out|Sense Key)|Call Trace|BUG:", log), log


async def examine_drive_and_changer(library: Library) -> None:
    """btape test: re-reads, positions, appends, steps back and forward, and changes a cartridge."""
    await library.mtx("load 1 0")
    text = await bacula.btape(library, "short-blocks", "test", "y")
    assert not TROUBLE.search(text), text
    assert text.count("10000 blocks re-read correctly.") == 2, text
    # The test of positions ends with the line of the test before it.
    assert text.count("=== Test Succeeded. End Write, rewind, and re-read test ===") == 2, text
    assert re.findall(r"Block (\d+) re-read correctly", text) == ["5", "201", "10000", "10001", "10601", "20000"], text
    files = re.findall(r"We should be in file (\d+)\. I am at file (\d+)\.", text)
    assert files == [(file, file) for file in ("3", "4", "1", "3", "4", "5")], text
    found, _, sample = text.partition("=== Sample correct output ===")
    sample = sample.partition("=== End sample correct output ===")[0].strip()
    # The sample is that of blocks of the default length.
    length = int(re.findall(r"^1 block of (\d+) bytes", found, re.MULTILINE)[0])
    correct = sample.replace("64448", str(length)).replace("451,136", f"{7 * length:,}")
    assert "Total files=4, blocks=7" in correct and correct in found, text
    assert "Block re-read correct. Test succeeded!" in text, text
    assert "The test autochanger worked!!" in text, text


async def fill_two_cartridges(library: Library) -> None:
    """btape fill: writes a cartridge full, continues on the next one, and re-reads both."""
    text = await bacula.btape(library, "bacula-sd", "fill", "m")
    assert not TROUBLE.search(text), text
    assert "Re-read of last block succeeded." in text, text
    (written,) = re.findall(r"End of tape .*Volume Bytes=([\d,]+)", text)
    assert 0 <= CAPACITY - EARLY - int(written.replace(",", "")) < BLOCK, text
    loads = re.findall(r'Autochanger "load Volume (\w+), Slot (\d), Drive 0", status is OK', text)
    assert loads == [(f"TestVolume{slot}", slot) for slot in ("2", "1", "2")], text
    assert "10000 records read now" in text, text
    assert "The last block of the first tape matches." in text, text
    assert "The first block on the second tape matches." in text, text
    assert "The last block on the second tape matches. Test succeeded." in text, text
    await library.mtx("unload 2 0")


async def back_up_and_restore(library: Library) -> None:
    """A tree goes to two cartridges. Restored to another folder, it is the same byte for byte."""
    await library.run(
        f"mkdir -p {bacula.TREE}/many/empty; cd {bacula.TREE}\n"
        "head -c 30000000 /dev/urandom >large; : >nothing\n"
        "for i in $(seq 100); do head -c $((i * 400)) /dev/urandom >many/$i; done\n"
        "ln many/1 hard; ln -s many/2 soft; chmod 640 many/3; touch -d '2001-02-03 04:05:06' many/4"
    )
    await bacula.start(library)
    text = await bacula.console(library, "label storage=library pool=tapes barcodes slots=3-4 drive=0", "yes")
    for barcode in ("HAK003L5", "HAK004L5"):
        assert f'Catalog record for Volume "{barcode}"' in text, text
    text = await bacula.console(library, "run job=backup yes", "wait", "llist jobid=1", "list jobmedia jobid=1")
    await check_job(library, text)
    assert set(re.findall(r"HAK\d{3}L5", text)) == {"HAK003L5", "HAK004L5"}, text
    text = await bacula.console(library, "restore client=fd select all done yes", "wait", "llist jobid=2")
    await check_job(library, text)
    await bacula.stop(library)
    describe = "find . -exec stat -c '%n %F %A %h %s %Y' {} + | sort"
    await library.run(
        f"diff -r {bacula.TREE} {bacula.RESTORED}{bacula.TREE}\n"
        f"cd {bacula.TREE}; {describe} >/tmp/before; cd {bacula.RESTORED}{bacula.TREE}; {describe} >/tmp/after\n"
        f"diff /tmp/before /tmp/after; [ $(wc -l </tmp/after) = {OBJECTS} ]; [ $(readlink soft) = many/2 ]"
    )


async def check_job(library: Library, text: str) -> None:
    """Check a job by the catalogue's record of it."""
    record = dict(re.findall(r"^ *(\w+): (.*?) *$", text, re.MULTILINE))
    found = {name.lower(): value for name, value in record.items()}
    log = await library.run(f"cat {bacula.FOLDER}/log")
    assert (found["jobstatus"], found["joberrors"], found["jobfiles"]) == ("T", "0", str(OBJECTS)), text + log
