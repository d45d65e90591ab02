"""Errors of pydantic in the terms of a study file."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.study.explain import explain
from hakaru.units import Duration, Size
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator


class Loss(BaseModel):
    model_config = ConfigDict(extra="forbid")

    percent: float
    burst_frames: float | None = None


class File(BaseModel):
    size: Size = Field(default=512, ge=512, le=64 << 40)
    time: Duration = Field(default=10**9, ge=10**9)
    count: int = Field(default=1, ge=1)
    loss: Loss | None = None
    vms: int = 1

    @field_validator("vms")
    @classmethod
    def _vms(cls, vms: int) -> int:
        if vms > 1:
            raise ValueError("VMs load one array")
        return vms


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ({"size": "65 TiB"}, "size: should be at most 64 TiB (found '65 TiB')", ""),
        ({"time": "500 ms"}, "time: should be at least 1 s (found '500 ms')", ""),
        ({"time": 0}, "time: should be at least 1 s (found 0)", ""),
        ({"size": 0}, "size: should be at least 512 B (found 0)", ""),
        ({"count": 0}, "count: should be at least 1 (found 0)", ""),
        ({"loss": "1%"}, "loss: needs fields, for example {percent: 1} (found '1%')", "burst_frames, percent"),
        ({"vms": 2}, "vms: VMs load one array (found 2)", ""),
        ({"loss": {"percents": 1}}, "loss.percents: unknown field", "did you mean 'percent'?"),
    ],
    ids=lambda case: str(case)[:24],
)
def test_error_shows_bounds_in_units_and_the_form_of_fields(data: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(ValidationError) as error:
        File.model_validate(data)
    first = next(explain(data, File, error.value))
    assert first.message == message
    assert hint in first.hint
