"""The messages: commands to an engine, and events from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from hakaru.engine.contract.array import ArrayConfig
from hakaru.engine.contract.backup import BackupConfig
from hakaru.engine.contract.fabric import FabricEngineConfig
from hakaru.engine.contract.files import FilesBuild, FilesLoad, FilesRemove, FilesVerify
from hakaru.engine.contract.initiator import InitiatorConfig
from hakaru.engine.contract.manage import ManageAction
from hakaru.engine.contract.packets import PacketsConfig, PortOutcome, ProcessorStops, StreamOutcome, TesterFault
from hakaru.engine.contract.part import Message
from hakaru.engine.contract.probe import ProbeClient, ProbeServer, ProbeStream
from hakaru.engine.contract.watch import WatchConfig

CONTRACT_VERSION = 1
EngineConfig = (
    ArrayConfig
    | InitiatorConfig
    | WatchConfig
    | ProbeServer
    | ProbeClient
    | ProbeStream
    | FabricEngineConfig
    | BackupConfig
    | PacketsConfig
    | FilesBuild
    | FilesVerify
    | FilesRemove
    | FilesLoad
)


class Command(Message):
    """A command to an engine."""

    def line(self) -> bytes:
        """Return the command as one line of JSON."""
        return self.model_dump_json().encode() + b"\n"


class Configure(Command):
    """Configure the process as one of the engines."""

    type: Literal["configure"] = "configure"
    contract: int
    config: EngineConfig


class Start(Command):
    """Start the work at an instant of `CLOCK_MONOTONIC`, in nanoseconds."""

    type: Literal["start"] = "start"
    at_ns: int


class Measure(Command):
    """End the warm-up at an instant of `CLOCK_MONOTONIC`, in nanoseconds."""

    type: Literal["measure"] = "measure"
    at_ns: int


class Manage(Command):
    """Carry out an action while serving."""

    type: Literal["manage"] = "manage"
    id: int
    action: ManageAction


class Count(Command):
    """Report the counters as they are now."""

    type: Literal["count"] = "count"
    id: int


class SetLink(Command):
    """Take a link of a fabric down or up."""

    type: Literal["set_link"] = "set_link"
    id: int
    link: str
    up: bool


class Trial(Command):
    """Carry out a trial: frames at `rates` per second and stream for `duration_ns`. A rate of None
    is the highest possible.
    """

    type: Literal["trial"] = "trial"
    id: int
    duration_ns: int
    rates: list[float | None]
    settle_ns: int = 100_000_000
    late_limit_ns: int = 5_000_000


class Stop(Command):
    """End cleanly."""

    type: Literal["stop"] = "stop"


class NamedHistogram(Message):
    """A mergeable histogram: HdrHistogram V2, deflated, base64."""

    entity: str
    name: str
    hdr: str


class Hello(Message):
    """The first event of an engine."""

    type: Literal["hello"] = "hello"
    contract: int
    version: str


class Ready(Message):
    """The engine is configured and waits for `start`."""

    type: Literal["ready"] = "ready"
    found: dict[str, Any]


class Phase(Message):
    """A phase began: `warmup`, `measure`, `drain`."""

    type: Literal["phase"] = "phase"
    phase: str
    at_ns: int


class Sample(Message):
    """Cumulative counters at an instant, and histograms of the interval before it."""

    type: Literal["sample"] = "sample"
    at_ns: int
    counters: dict[str, dict[str, float]]
    histograms: list[NamedHistogram] = []


class Result(Message):
    """The end of the work."""

    type: Literal["result"] = "result"
    at_ns: int
    values: dict[str, float]
    histograms: list[NamedHistogram]


class TrialOutcome(Message):
    """The end of a trial. It is invalid if `tester_faults` has any."""

    type: Literal["trial"] = "trial"
    id: int
    start_ns: int
    end_ns: int
    tester_faults: list[TesterFault]
    streams: list[StreamOutcome]
    ports: list[PortOutcome]
    stops: ProcessorStops | None = None
    histograms: list[NamedHistogram]


ErrorClass = Literal["usage", "environment", "verification", "peer", "unanswered", "internal"]


class ReplyError(Message):
    """The reason why an order was not carried out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    class_: ErrorClass = Field(alias="class")
    message: str
    hint: str


class Reply(Message):
    """The result of a `manage` or `count`: `value` or `error`."""

    type: Literal["reply"] = "reply"
    id: int
    value: dict[str, Any] | None = None
    error: ReplyError | None = None


class Error(Message):
    """The engine cannot do or continue what was asked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    type: Literal["error"] = "error"
    class_: ErrorClass = Field(alias="class")
    message: str
    hint: str
    fatal: bool


AnyEvent = Hello | Ready | Phase | Sample | Result | TrialOutcome | Reply | Error
Event = Annotated[AnyEvent, Field(discriminator="type")]
_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(Event)


def parse_event(line: bytes) -> AnyEvent:
    """Parse the event on a line of an engine's stdout. Raises ValueError with the fault."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}" if place else str(first["msg"])) from None
