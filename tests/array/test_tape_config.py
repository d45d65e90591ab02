"""The tape library of an array file, as the engine gets it."""

from __future__ import annotations

from pathlib import Path

from hakaru.array.configure import array_config
from hakaru.array.load import load_array
from hakaru.array.state import Online
from hakaru.engine import contract

FILE = """\
format: 1
target_name: iqn.2026-01.org.example:tapes
portals: ["127.0.0.1:3260"]
lus: []
tape_library:
  lun: 20
  vendor: IBM
  product: 03584L32
  drives: [{lun: 21, vendor: HP, product: Ultrium 5-SCSI}, {lun: 22, generation: lto6}]
  slots: 3
  cartridges:
    - {barcode: HAK001L4, generation: lto4, write_protected: true}
    - {barcode: HAK002L6, generation: lto6, slot: 3}
    - {barcode: HAK003L5}
  capacity: 1 GiB
  times: {compression: 2.5}
"""


def test_names_generations_and_compression_reach_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "array.yaml"
    path.write_text(FILE)
    library = array_config(load_array(path), Online()).tape_library
    assert library is not None
    assert (library.vendor, library.product) == ("IBM", "03584L32")
    assert library.drives == [
        contract.TapeDriveConfig(lun=21, generation="lto5", vendor="HP", product="Ultrium 5-SCSI"),
        contract.TapeDriveConfig(lun=22, generation="lto6"),
    ]
    assert library.cartridges == [
        contract.CartridgeConfig(barcode="HAK001L4", slot=1, write_protected=True, generation="lto4"),
        contract.CartridgeConfig(barcode="HAK002L6", slot=3, generation="lto6"),
        contract.CartridgeConfig(barcode="HAK003L5", slot=2),
    ]
    # The capacity is that of the tape.
    assert (library.capacity_bytes, library.early_warning_bytes) == (1 << 30, 32 << 20)
    assert library.times == contract.TapeTimesConfig(compression=2.5)
