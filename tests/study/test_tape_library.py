"""The tape library of a study: numbers or lists of drives and cartridges, and mistakes in it."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.run.configure import tape_library_config
from hakaru.study.explain import explain
from hakaru.study.tape import TapeLibrarySpec, slots_of
from pydantic import ValidationError


def library(**fields: Any) -> TapeLibrarySpec:
    return TapeLibrarySpec.model_validate({"capacity": "1 GiB"} | fields)


def test_numbers_stand_for_equal_drives_and_labelled_cartridges() -> None:
    config = tape_library_config(library(lun=3, drives=2, generation="lto6", cartridges=2))
    assert [(drive.lun, drive.generation) for drive in config.drives] == [(4, "lto6"), (5, "lto6")]
    assert [(c.slot, c.barcode, c.write_protected) for c in config.cartridges] == [
        (1, "HAK001L6", None),
        (2, "HAK002L6", None),
    ]
    assert (config.slots, config.import_export) == (2, 0)


def test_lists_describe_each_drive_and_each_cartridge() -> None:
    cartridges = [
        {"barcode": "A1", "slot": 2},
        {"barcode": "B2", "write_protected": True},
        {"barcode": "C3"},
    ]
    spec = library(
        drives=[{"generation": "lto6"}, {}], generation="lto4", slots=9, import_export=2, cartridges=cartridges
    )
    config = tape_library_config(spec)
    assert [(drive.lun, drive.generation) for drive in config.drives] == [(1, "lto6"), (2, "lto4")]
    assert [(c.slot, c.barcode, c.write_protected) for c in config.cartridges] == [
        (2, "A1", None),
        (1, "B2", True),
        (3, "C3", None),
    ]
    assert (config.slots, config.import_export) == (9, 2)
    assert spec.writable == ["A1", "C3"]
    assert spec.luns == [0, 1, 2]
    # Without a number of slots, there are as many as the cartridges need.
    assert library(cartridges=[{"barcode": "A1", "slot": 7}]).slot_count == 7
    assert slots_of([None, 1, None, 3]) == [2, 1, 4, 3]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"drives": 65}, "drives: should be at most 64 (found 65)"),
        ({"drives": "two"}, "drives: should be a whole number (found 'two')"),
        ({"drives": []}, "drives: list should have at least 1 item"),
        ({"drives": [{"generation": "lto2"}]}, "drives[0].generation: input should be"),
        ({"drives": [{"lun": 4}]}, "drives[0].lun: unknown field"),
        ({"lun": 253, "drives": [{}, {}, {}]}, "the largest LUN is 255"),
        ({"cartridges": [{"slot": 1}]}, "cartridges[0].barcode: missing"),
        ({"cartridges": [{"barcode": "hak"}]}, "cartridges[0].barcode: write a barcode"),
        ({"cartridges": [{"barcode": "A"}, {"barcode": "A"}]}, "the barcode 'A' is given twice"),
        ({"cartridges": [{"barcode": "A", "slot": 1}, {"barcode": "B", "slot": 1}]}, "slot 1 is given twice"),
        ({"slots": 2, "cartridges": 3}, "there is no slot for cartridge HAK003L5; the library has 2 slots"),
        ({"slots": 2, "cartridges": [{"barcode": "A", "slot": 3}]}, "there is no slot for cartridge A"),
        ({"folder": "tapes"}, "folder: unknown field"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_mistakes_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        library(**fields)
    data = {"capacity": "1 GiB"} | fields
    faults = [each.message for each in explain(data, TapeLibrarySpec, error.value)]
    assert len(faults) == 1 and message in faults[0], faults
