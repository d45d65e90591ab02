"""`load:` of a study: the union of the loads of all installed kinds.

Kinds are looked up when a study is validated, not when this module is imported, because their loads
are made of this package's parts. Of these, only the kind that the study names is imported.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from hakaru import kind
from hakaru.study.part import Part
from hakaru.suggest import did_you_mean


class Load(Part):
    """The load of a study on its lab: `load:`. Each kind derives its own class, in which `kind` is
    a Literal of its name.
    """

    kind: str

    @property
    def loads_program(self) -> bool:
        """Whether its engine loads a program into the kernel, which only root may."""
        return False


def load_models() -> dict[str, type[Load]]:
    """Kind → the model of its load, of every kind that a study may name. Imports all of them."""
    return {name: study_kind.study.load for name, study_kind in kind.of_studies().items()}


class _ByKind:
    """Validates `load:` as the model of the kind that it names, and describes it as the union of
    all of them.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(_serialize, info_arg=True),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"oneOf": [handler(model.__pydantic_core_schema__) for model in load_models().values()]}


def _validate(written: Any) -> Load:
    kinds = kind.of_studies()
    if isinstance(written, Load) and written.kind in kinds and type(written) is kinds[written.kind].study.load:
        return written
    name = written.get("kind") if isinstance(written, dict) else None
    if not isinstance(written, dict):
        raise PydanticCustomError("load", "a load needs a kind", {"hint": f"write `kind:`, {_one_of(kinds)}"})
    if "kind" not in written:
        raise _kind_error("missing", written)
    if name not in kinds:
        hint = did_you_mean(str(name), kinds, f"installed kinds are {', '.join(sorted(kinds))}")
        error = PydanticCustomError("load_kind", "no kind of study named {name}", {"name": repr(name), "hint": hint})
        raise _kind_error(error, name)
    model: type[Load] = kinds[str(name)].study.load
    return model.model_validate(written)


def _one_of(kinds: Collection[str]) -> str:
    return f"one of {', '.join(sorted(kinds))}"


def _kind_error(error: PydanticCustomError | str, given: Any) -> ValidationError:
    return ValidationError.from_exception_data("load", [InitErrorDetails(type=error, loc=("kind",), input=given)])


def _serialize(load: Load, info: SerializationInfo) -> dict[str, Any]:
    return load.model_dump(mode=info.mode, by_alias=bool(info.by_alias))


AnyLoad = Annotated[Load, _ByKind()]
