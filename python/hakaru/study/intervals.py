"""Intervals between samples, of all engines alike or by the kind of node that they run on.

    sample_interval: 1 s
    sample_interval: {hosts: 10 s, arrays: 60 s, drives: 200 ms}

An engine samples all of its counters at the interval of its node. Only the use of modelled drives
may be sampled more often than the other counters of their array.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration

_SHOWN = {"type": "string", "examples": ["1 s", "200 ms"]}
Interval = Annotated[Duration, Field(ge=SECOND_NS // 10, le=60 * SECOND_NS), WithJsonSchema(_SHOWN)]


class Intervals(NamedTuple):
    """The interval of each kind of node, nanoseconds."""

    hosts: int
    """Loads, the machines that they run on, and guests."""
    arrays: int
    """Nodes of arrays, also of those in which file servers run."""
    switches: int
    """The emulated network."""
    drives: int
    """Use and queues of modelled drives."""

    @property
    def drives_alone(self) -> int | None:
        """The interval of the drives, if they are sampled more often than their array."""
        return self.drives if self.drives < self.arrays else None


class SampleIntervals(Part):
    """Intervals by kind of node. A plain duration is that of all of them."""

    hosts: Interval = Field(
        default=SECOND_NS, description="loads, and the processors, memory and interfaces of their nodes"
    )
    arrays: Interval | None = Field(default=None, description="nodes of arrays; default: as hosts")
    switches: Interval | None = Field(default=None, description="the emulated network; default: as hosts")
    drives: Interval | None = Field(
        default=None,
        description="use and queues of the modelled drives of arrays, of which `arrays` is a multiple; default: as "
        "arrays",
    )

    @property
    def by_node(self) -> Intervals:
        """The interval of each kind of node, with the defaults."""
        arrays = self.arrays or self.hosts
        return Intervals(self.hosts, arrays, self.switches or self.hosts, self.drives or arrays)

    @model_validator(mode="before")
    @classmethod
    def _from_duration(cls, written: Any) -> Any:
        return written if isinstance(written, dict | SampleIntervals) else {"hosts": written}

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        fields = {name: value for name, value in handler(self).items() if value is not None}
        return fields["hosts"] if len(fields) == 1 else fields

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler.resolve_ref_schema(handler(core_schema))
        return {"anyOf": [_SHOWN, described]}
