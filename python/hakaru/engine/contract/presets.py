"""Names of the models that the engine knows, and types that accept only these names.

The names are those of the crate hakaru-drive (`array_presets`, `drive_presets`); a test compares
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from hakaru.suggest import did_you_mean

ARRAY_PRESETS = ("jdsf-2011",)
DRIVE_PRESETS = ("sas-15k-146", "sas-15k-300", "sata-ssd-960", "nvme-ssd-2000")


def _one_of(names: tuple[str, ...], kind: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"there is no {kind} {name!r}; {did_you_mean(name, names)}")
        return name

    return check


ArrayPreset = Annotated[str, AfterValidator(_one_of(ARRAY_PRESETS, "preset"))]
DrivePreset = Annotated[str, AfterValidator(_one_of(DRIVE_PRESETS, "drive"))]
