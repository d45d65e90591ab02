"""Base types of every part of a study file: strictness, names, texts. No fields.

class Placement(Part): …          refuses unknown fields, coerces nothing, immutable
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, StringConstraints, model_validator
from pydantic_core import CoreSchema

from hakaru.wording import JAPANESE

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
FactorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
# A comma or `=` in a level would be ambiguous on the command line (`--only case=a,b`).
LevelText = Annotated[str, StringConstraints(pattern=r"^[^,=\n]+$", max_length=64)]
Level = bool | int | float | LevelText
"""A level of a factor as written in the study: `7`, `64 KiB`, `throttled`, `true`."""

SECOND_NS = 1_000_000_000

# A folded line of a study file ends with a space, which Japanese has neither beside its punctuation
# and brackets nor between its letters.
_FOLD = re.compile(f" *(?<=[。、：・）」（「]) +| +(?=[。、：・）」（「])|(?<={JAPANESE}) +(?={JAPANESE})")


def level_text(level: Level) -> str:
    """Return a level as text: `true`, `7`, `64 KiB`."""
    return str(level).lower() if isinstance(level, bool) else str(level)


class Part(BaseModel):
    """Base of every part of a study: refuses unknown fields, coerces nothing, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Text(Part):
    """A text in English and Japanese. A plain string is the English text, and is used for both.
    Japanese text loses the spaces of folded lines.
    """

    en: Line
    ja: Line = Field(description="default: the English text")

    @model_validator(mode="before")
    @classmethod
    def _from_english_text(cls, written: Any) -> Any:
        if isinstance(written, str):
            return {"en": written, "ja": written}
        if isinstance(written, dict) and "en" in written and "ja" not in written:
            return written | {"ja": written["en"]}
        if isinstance(written, dict) and isinstance(written.get("ja"), str):
            return written | {"ja": _FOLD.sub("", written["ja"])}
        return written

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler.resolve_ref_schema(handler(core_schema))
        described["required"] = ["en"]
        return {"anyOf": [described, {"type": "string", "minLength": 1, "maxLength": 4000}]}
