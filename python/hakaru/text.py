"""Text of a given form in files and requests: a pattern, and its description for error messages.

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
    """A constraint on text: all of it matches `pattern`, and it has at most `max_length`
    characters. `description` is the form in words, for error messages.
    """

    pattern: str
    description: str
    max_length: int | None = None

    def check(self, text: str) -> str:
        """Return `text`. Raises ValueError with the description if the text has another form."""
        if self.max_length is not None and len(text) > self.max_length:
            raise ValueError(f"write {self.description}, of at most {self.max_length} characters")
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"write {self.description}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema["pattern"] = f"^{self.pattern}$"
        if self.max_length is not None:
            json_schema["maxLength"] = self.max_length
        return json_schema
