"""What every part of a study file is made of: strictness, names, texts. Knows no field.

class Placement(Part): …          nothing unknown, nothing coerced, nothing changed afterwards
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, StringConstraints, model_serializer

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
FactorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
# A comma or `=` in a level could not be told apart on the command line (`--only case=a,b`).
LevelText = Annotated[str, StringConstraints(pattern=r"^[^,=\n]+$", max_length=64)]
Level = bool | int | float | LevelText
"""A level of a factor as it is written: `7`, `64 KiB`, `throttled`, `true`."""

SECOND_NS = 1_000_000_000


def level_text(level: Level) -> str:
    """A level as text: `true`, `7`, `64 KiB`."""
    return str(level).lower() if isinstance(level, bool) else str(level)


class Part(BaseModel):
    """Every part of a study: nothing unknown, nothing coerced, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    _later: ClassVar[frozenset[str]] = frozenset()
    """Fields that records of runs leave out where the study does not use them: they came after the record's format."""

    @model_serializer(mode="wrap")
    def _without_unused(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        for name in self._later:
            field = type(self).model_fields[name]
            if getattr(self, name) == field.get_default(call_default_factory=True):
                written.pop(field.alias or name, None)
        return written


class Text(Part):
    """A text in both languages."""

    en: Line
    ja: Line
