"""A tape library under the kernel's drivers (st, sg, ch) and the programs that use them: mt, mtx
with its companions, tar and sg3-utils.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image
from hakaru.guest.machine import GuestCommandError

from tests.guests.tape_library import Library, library_in
from tests.peers.array import MIB

CHANGER, DRIVES = 0, (1, 2)
CAPACITY = 24 * MIB
LIBRARY: dict[str, Any] = {
    "lun": CHANGER,
    "drives": [
        {"lun": DRIVES[0], "generation": "lto5"},
        {"lun": DRIVES[1], "generation": "lto5", "vendor": "IBM", "product": "ULT3580-TD5"},
    ],
    "slots": 6,
    "import_export": 1,
    "cartridges": [
        *({"barcode": f"HAK00{slot}L5", "slot": slot} for slot in (1, 2)),
        {"barcode": "HAK003L3", "slot": 5, "generation": "lto3"},
        {"barcode": "HAK004L6", "slot": 6, "generation": "lto6"},
    ],
    "capacity_bytes": CAPACITY,
    "early_warning_bytes": 4 * MIB,
}


@pytest.fixture(scope="module")
def image() -> Image:
    """The image whose kernel has tape drivers. Skips if it cannot be built here."""
    try:
        return find_image("generic")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")


def test_programs_of_a_backup_work_with_the_library(image: Image) -> None:
    """All steps in one guest, because booting takes the longest."""

    async def work() -> None:
        async with library_in(image, LIBRARY) as library:
            await identify(library)
            await load(library)
            await archive(library)
            await move_to_marks(library)
            await use_fixed_blocks(library)
            await fill(library)
            await rearrange(library)
            await exchange(library)
            await describe(library)
            await reserve(library)
            await label(library)
            log = await library.guest.run("dmesg")
            assert not re.search(r"\b(st|ch) \d+:.*(error|failed|timed out|Sense Key)|Call Trace|BUG:", log), log
            # The kernel logs what the drive refuses.
            await use_other_generations(library)

    asyncio.run(work())


async def identify(library: Library) -> None:
    """Kernel and programs recognise changer and drives."""
    log = await library.run("dmesg; sg_inq $CHANGER; sg_inq /dev/nst0")
    assert "Attached scsi changer ch0" in log and log.count("Attached scsi tape") == 2, log
    assert "TAPE LIBRARY" in log and "TAPE LTO-5" in log, log
    product = await library.run("sg_inq /dev/nst1")
    assert re.search(r"identification: IBM\b", product) and "ULT3580-TD5" in product, product
    status = await library.run("mtx -f $CHANGER status")
    assert "2 Drives, 7 Slots ( 1 Import/Export )" in status, status
    assert "Data Transfer Element 0:Empty" in status, status
    assert re.search(r"Storage Element 1:Full :VolumeTag=HAK001L5", status), status
    assert re.search(r"Storage Element 7 IMPORT/EXPORT:Empty", status), status
    # Only status opens the drive without waiting two minutes for a cartridge.
    assert "DR_OPEN" in await library.status(0)


async def load(library: Library) -> None:
    """mtx loads a cartridge into each drive, and mt finds it at the beginning."""
    await library.mtx("load 1 0")
    status = await library.mtx("load 2 1")
    assert re.search(r"Element 0:Full \(Storage Element 1 Loaded\):VolumeTag = HAK001L5", status), status
    assert re.search(r"Element 1:Full \(Storage Element 2 Loaded\):VolumeTag = HAK002L5", status), status
    file, block, flags = await library.state(0)
    assert (file, block) == (0, 0) and {"BOT", "ONLINE"} <= flags, flags
    limits = await library.run("sg_read_block_limits /dev/nst0; mt -f /dev/nst0 status")
    assert "16777215" in limits and "LTO-5" in limits, limits
    memory = await library.run("sg_read_attr /dev/nst0")
    assert re.search(r"Barcode: HAK001L5", memory) and re.search(r"Load count: 1\b", memory), memory


async def archive(library: Library) -> None:
    """Three archives of different block lengths, separated by filemarks, are read back and
    compared.
    """
    await library.run(
        "for i in 1 2 3; do\n"
        "mkdir -p /tmp/$i; seq -f %0127.0f ${i}00001 ${i}08000 >/tmp/$i/a; echo $i >/tmp/$i/b\n"
        "done\n"
        "tar -b 20 -cf /dev/nst0 -C /tmp/1 .; tar -b 128 -cf /dev/nst0 -C /tmp/2 .; tar -b 1 -cf /dev/nst0 -C /tmp/3 b"
    )
    file, block, flags = await library.state(0)
    assert (file, block) == (3, 0) and "EOF" in flags, flags
    await library.run("mt -f /dev/nst0 rewind; tar -b 20 -df /dev/nst0 -C /tmp/1")
    # tar reads the archive's blocks and leaves the filemark to the next one.
    await library.run("mt -f /dev/nst0 rewind; mt -f /dev/nst0 fsf 1; tar -b 128 -df /dev/nst0 -C /tmp/2")
    await library.run("mt -f /dev/nst0 asf 2; tar -b 1 -df /dev/nst0 -C /tmp/3")
    with pytest.raises(GuestCommandError, match="differ"):
        await library.run("echo other >/tmp/3/b; mt -f /dev/nst0 asf 2; tar -b 1 -df /dev/nst0 -C /tmp/3")


async def move_to_marks(library: Library) -> None:
    """Positions by filemarks, blocks, the end of data and block addresses."""
    await library.run("mt -f /dev/nst0 eod")
    file, _, flags = await library.state(0)
    assert file == 3 and "EOD" in flags, flags
    await library.run("mt -f /dev/nst0 bsfm 2; mt -f /dev/nst0 fsr 3")
    assert (await library.state(0))[:2] == (2, 3)
    address = await library.run("mt -f /dev/nst0 tell")
    block = int(re.findall(r"At block (\d+)", address)[0])
    await library.run(f"mt -f /dev/nst0 rewind; mt -f /dev/nst0 seek {block}")
    assert f"At block {block}." in await library.run("mt -f /dev/nst0 tell")
    with pytest.raises(GuestCommandError, match="Input/output error"):
        await library.run("mt -f /dev/nst0 fsf 100")
    # A write loses everything after it.
    await library.run("mt -f /dev/nst0 asf 1; tar -b 20 -cf /dev/nst0 -C /tmp/1 .; mt -f /dev/nst0 eod")
    assert (await library.state(0))[0] == 2


async def use_fixed_blocks(library: Library) -> None:
    """Fixed blocks: many in one command, and the block length is kept."""
    await library.run(
        "mt -f /dev/nst0 rewind; mt -f /dev/nst0 setblk 1024\n"
        "dd if=/tmp/1/a of=/dev/nst0 bs=64k count=8 2>/dev/null; mt -f /dev/nst0 rewind\n"
        "mt -f /dev/nst0 status | grep 'block size 1024 bytes'\n"
        "dd if=/tmp/1/a bs=64k count=8 2>/dev/null | sha256sum >/tmp/written\n"
        "dd if=/dev/nst0 bs=32k 2>/dev/null | sha256sum | cmp - /tmp/written\n"
        "mt -f /dev/nst0 setblk 0"
    )


async def fill(library: Library) -> None:
    """The end of a cartridge: ENOSPC at early warning, and everything acknowledged is read back."""
    block = 256 << 10
    text = await library.run(
        f"seq -f %0511.0f 1 100000 | dd of=/dev/nst1 bs={block} iflag=fullblock 2>/tmp/dd && exit 1\n"
        "cat /tmp/dd; mt -f /dev/nst1 weof; mt -f /dev/nst1 rewind"
    )
    assert "No space left on device" in text, text
    written = int(re.findall(r"^(\d+)\+0 records out", text, re.MULTILINE)[0])
    early = (CAPACITY - LIBRARY["early_warning_bytes"]) // block
    assert early - 1 <= written <= early + 1, text
    await library.run(
        f"dd if=/dev/nst1 bs={block} count={written} 2>/dev/null | sha256sum >/tmp/read\n"
        f"seq -f %0511.0f 1 100000 | head -c {written * block} | sha256sum | cmp - /tmp/read"
    )
    log = await library.run(
        "sg_logs --page=0x31 /dev/nst1; sg_logs --page=0x2e /dev/nst1; sg_logs --page=0xc /dev/nst1"
    )
    left = int(re.findall(r"Main partition remaining capacity \(in MiB\): (\d+)", log)[0])
    assert left in (3, 4), log


async def rearrange(library: Library) -> None:
    """Cartridges are unloaded, moved and loaded into another drive with their contents."""
    with pytest.raises(GuestCommandError, match=r"Destination|Source|full|MOVE MEDIUM"):
        await library.mtx("transfer 3 4")
    await library.run("mt -f /dev/nst0 offline")
    assert "DR_OPEN" in await library.status(0)
    await library.mtx("unload 1 0")
    await library.mtx("unload 3 1")
    status = await library.mtx("transfer 1 7")
    assert "Storage Element 7 IMPORT/EXPORT:Full :VolumeTag=HAK001L5" in status, status
    status = await library.mtx("load 7 1")
    assert re.search(r"Element 1:Full .*VolumeTag = HAK001L5", status), status
    await library.run("mt -f /dev/nst1 rewind; dd if=/dev/nst1 bs=1024 2>/dev/null | sha256sum | cmp - /tmp/written")


async def exchange(library: Library) -> None:
    """Cartridges change places: slots with mtx, a slot and a drive with sg_raw. One is searched."""
    await library.mtx("unload 1 1")
    await library.run("mtx -f $CHANGER inventory")
    status = await library.mtx("exchange 1 3")
    assert "Storage Element 1:Full :VolumeTag=HAK002L5" in status, status
    assert "Storage Element 3:Full :VolumeTag=HAK001L5" in status, status
    status = await library.mtx("exchange 3 1 2")
    assert "Storage Element 1:Full :VolumeTag=HAK001L5" in status, status
    assert "Storage Element 2:Full :VolumeTag=HAK002L5" in status, status
    with pytest.raises(GuestCommandError, match="is Empty"):
        await library.mtx("exchange 3 1")
    # From slot 2 into the drive, whose cartridge goes to slot 1.
    await library.mtx("load 1 0")
    await library.run("sg_raw $CHANGER a6 00 00 01 04 01 01 00 04 00 00 00")
    status = await library.run("mtx -f $CHANGER status")
    assert re.search(r"Element 0:Full \(Storage Element 2 Loaded\):VolumeTag = HAK002L5", status), status
    assert "Storage Element 1:Full :VolumeTag=HAK001L5" in status, status
    file, block, flags = await library.state(0)
    assert (file, block) == (0, 0) and {"BOT", "ONLINE"} <= flags, flags
    found = await library.run(
        "printf '%-32s' 'HAK00?L5' >/tmp/template; dd if=/dev/zero bs=8 count=1 >>/tmp/template 2>/dev/null\n"
        "sg_raw -s 40 -i /tmp/template $CHANGER b6 02 00 00 00 05 00 00 00 28 00 00\n"
        "sg_raw -r 255 -o /tmp/found $CHANGER b5 10 00 00 00 09 00 00 00 ff 00 00\n"
        "grep -o 'HAK00.L5' /tmp/found"
    )
    assert found.split()[-1] == "HAK001L5" and "HAK002L5" not in found, found


async def describe(library: Library) -> None:
    """Programs describe changer and drives."""
    loader = await library.run("loaderinfo -f $CHANGER")
    for name, count in (("Medium Transport", 1), ("Storage", 6), ("Import/Export", 1), ("Data Transfer", 2)):
        assert re.search(rf"Number of {name} Elements: {count}\b", loader), loader
    await library.run("scsitape -f /dev/nst0 eod; scsitape -f /dev/nst0 rewind")
    drive = await library.run("tapeinfo -f /dev/nst0")
    for line in ("Product ID: 'TAPE LTO-5", "MaxBlock: 16777215", "Ready: yes", "Density Code: 0x58", "BOP: yes"):
        assert line in drive, drive
    commands = await library.run("sg_opcodes $CHANGER")
    for name in ("Exchange medium", "Move medium", "Read element status", "Send volume tag", "Mode select(10)"):
        assert name in commands, commands
    assert "Locate(10)" in await library.run("sg_opcodes /dev/nst0")
    # The medium has a descriptor of 52 bytes: LTO-5 is written, and is the default. The drive has
    # three: LTO-3, which is only read, comes first.
    density = await library.run("sg_raw -r 56 /dev/nst0 44 01 00 00 00 00 00 00 38 00")
    assert re.search(r"00 36 00 00 58 58 a0", density), density
    density = await library.run("sg_raw -r 160 /dev/nst0 44 00 00 00 00 00 00 00 a0 00")
    assert re.search(r"00 9e 00 00 44 44 00", density), density
    temperature = await library.run("sg_logs --page=0xd /dev/nst0")
    assert "not available" in temperature, temperature
    identity = await library.run("sg_vpd --page=di /dev/nst0; sg_vpd --page=di $CHANGER")
    assert identity.count("designator type: NAA") == 2, identity
    # 64 flags of 5 bytes, the first one not set. sg_logs decodes the page of tape drives alone.
    alerts = await library.run("sg_logs --page=0x2e $CHANGER")
    assert re.search(r"2e 00 01 40 00 01 03 01 +00", alerts), alerts


async def reserve(library: Library) -> None:
    """A persistent reservation of a drive is registered, held, and released."""
    out = "sg_persist --out --no-inquiry"
    text = await library.run(
        f"{out} --register --param-sark=0xabc /dev/nst0\n"
        f"{out} --reserve --param-rk=0xabc --prout-type=3 /dev/nst0\n"
        "sg_persist --no-inquiry --read-keys /dev/nst0; sg_persist --no-inquiry --read-reservation /dev/nst0"
    )
    assert "1 registered reservation key" in text and "Key=0xabc" in text, text
    assert "type: Exclusive Access" in text, text
    text = await library.run(
        f"{out} --release --param-rk=0xabc --prout-type=3 /dev/nst0\n"
        f"{out} --register --param-rk=0xabc --param-sark=0 /dev/nst0\n"
        "sg_persist --no-inquiry --read-keys /dev/nst0"
    )
    assert "there are NO registered reservation keys" in text, text


async def label(library: Library) -> None:
    """Drive and changer get identifying information, which is theirs alone."""

    async def set_(device: str, kind: int, text: str) -> None:
        await library.run(
            f"printf '{text}' >/tmp/label; size=$(wc -c </tmp/label)\n"
            f"sg_raw -s $size -i /tmp/label {device} a4 06 00 00 00 00 00 00 00 $(printf %02x $size) {2 * kind:02x} 00"
        )

    async def get(device: str, kind: int) -> str:
        report = f"sg_raw -r 64 -o /tmp/label {device} a3 05 00 00 00 00 00 00 00 40 {2 * kind:02x} 00"
        return await library.run(f"{report} >&2\ntail -c +5 /tmp/label | tr '\\0' '.'")

    await set_("/dev/nst0", 0, "rack 7")
    await set_("$CHANGER", 0, "robot")
    await set_("/dev/nst0", 2, "tape drive\\0")
    assert "rack 7" in await get("/dev/nst0", 0) and "tape drive." in await get("/dev/nst0", 2)
    assert "robot" in await get("$CHANGER", 0) and "rack" not in await get("/dev/nst1", 0)
    with pytest.raises(GuestCommandError, match="Invalid field in parameter list"):
        await set_("/dev/nst0", 2, "no null byte")
    # Nothing removes it. The types, each with its longest information.
    await library.run("sg_raw /dev/nst0 a4 06 00 00 00 00 00 00 00 00 00 00")
    assert "rack" not in await get("/dev/nst0", 0)
    supported = await library.run("sg_raw -r 12 /dev/nst0 a3 05 00 00 00 00 00 00 00 0c fe 00")
    assert re.search(r"00 00 00 08 00 00 02 00 +04 00 01 00", supported), supported


async def use_other_generations(library: Library) -> None:
    """An LTO-5 drive only reads an LTO-3 cartridge, and does not mount an LTO-6 cartridge."""
    await library.mtx("load 5 1")
    status = await library.status(1)
    assert "LTO-3" in status and "WR_PROT" in status, status
    with pytest.raises(GuestCommandError, match="Read-only file system"):
        await library.run("tar -cf /dev/nst1 -C /tmp/1 .")
    await library.mtx("unload 5 1")
    status = await library.mtx("load 6 1")
    assert re.search(r"Element 1:Full \(Storage Element 6 Loaded\):VolumeTag = HAK004L6", status), status
    with pytest.raises(GuestCommandError, match="Input/output error"):
        await library.run("dd if=/dev/nst1 of=/dev/null bs=64k count=1")
    with pytest.raises(GuestCommandError, match=r"[Uu]nknown format"):
        # The tape device cannot be opened; its generic one can.
        await library.run("sg_raw /dev/$(ls /sys/class/scsi_tape/nst1/device/scsi_generic) 00 00 00 00 00 00")
    status = await library.mtx("unload 6 1")
    assert "Storage Element 6:Full :VolumeTag=HAK004L6" in status, status
