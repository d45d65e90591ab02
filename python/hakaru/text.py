"""Text of a given form in files and requests: a pattern, and the words that an error says instead
of it.

Name = Annotated[str, Form(r"[a-z]+", "a name of lower-case letters", max_length=64)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Form:
    """The whole text must match `pattern` and have at most `max_length` characters; `what`: the
    form in words.
    """

    pattern: str
    what: str
    max_length: int | None = None

    def check(self, text: str) -> str:
        """Return `text`. Raises ValueError in words."""
        if self.max_length is not None and len(text) > self.max_length:
            raise ValueError(f"write {self.what}, of at most {self.max_length} characters")
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"write {self.what}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema["pattern"] = f"^{self.pattern}$"
        if self.max_length is not None:
            json_schema["maxLength"] = self.max_length
        return json_schema
