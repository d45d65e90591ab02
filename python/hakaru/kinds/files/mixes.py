"""Users of file servers: weighted operations, and the times between them.

    users: {mix: home_folders, think: 2 s}
    users: {mix: {list: 1, read: 3}, rate: 200}

A named mix is in the manner of a known benchmark and does not repeat it: weights, files and users
are those of hakaru, so its figures must not be compared with published ones of that benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hakaru.engine import contract
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration

MS_NS = 1_000_000
RATE_MAX = 1e6
Operation = contract.UserOperation
Weight = Annotated[float, Field(gt=0, le=1e6)]
MixName = Literal["home_folders", "software_build"]


@dataclass(frozen=True)
class Mix:
    """Weights of operations, and where they come from."""

    weights: Mapping[Operation, float]
    source: str
    """The benchmark in whose manner it is, and the origin of its weights."""


MIXES: Mapping[MixName, Mix] = {
    "home_folders": Mix(
        {"list": 20, "stat": 30, "open": 15, "read": 17, "write": 8, "create": 4, "rename": 3, "delete": 3},
        "In the manner of the workload HomeFolders of Microsoft's File Server Capacity Tool 1.0 (2009). Its "
        "description names the scenarios: browsing and copying with the Explorer and the command line, and documents "
        "that Word opens and saves. Their weights are in its kit. These weights are assumed.",
    ),
    "software_build": Mix(
        {"stat": 70, "open": 10, "read": 7, "write": 7, "list": 2, "create": 2, "delete": 2},
        "In the manner of the workload SWBUILD of SPECstorage Solution 2020. Its description says that a build checks "
        "the attributes of tens of thousands of files, and reads, compiles and writes those that need it. Its table of "
        "operations is in its licensed kit. These weights are assumed.",
    ),
}


class UsersSpec(Part):
    """Operations of users, one tree and one session each, and the times between them."""

    mix: MixName | dict[Operation, Weight] = Field(
        default="home_folders", description="a named mix, or weights of operations, such as `{list: 1, read: 3}`"
    )
    think: Duration = Field(
        default=0,
        ge=0,
        le=3600 * SECOND_NS,
        description="mean time between the end of an operation and the begin of the next, exponentially distributed",
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        le=RATE_MAX,
        description="operations per second requested from each file server, instead of `think`; each user begins at "
        "equal intervals, or later if it still has an operation",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.mix:
            raise ValueError("`mix` has no operation; write at least one, such as `{read: 1}`")
        if self.rate is not None and self.think:
            raise ValueError("write either `think` or `rate`")
        return self

    @property
    def weights(self) -> Mapping[Operation, float]:
        """Operation → weight."""
        return self.mix if isinstance(self.mix, dict) else MIXES[self.mix].weights

    def config(self, clients: int) -> contract.FilesMix:
        """The users of one of several clients of a file server, for the engine."""
        operations = [
            contract.WeightedOperation(operation=name, weight=float(weight)) for name, weight in self.weights.items()
        ]
        rate = None if self.rate is None else self.rate / clients
        return contract.FilesMix(operations=operations, think_ms=self.think / MS_NS, rate_per_s=rate)
