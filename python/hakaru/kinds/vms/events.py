"""`events:` of a study of VMs: what happens to their paths while they are measured. Pure.

    load:
      paths_per_vm: 2
      events:
        - {at: 5 s, link_down: array.1}      # a link or trunk of the lab is cut
        - {at: 20 s, link_up: array.1}
        - {at: 30 s, portal_refused: 0}      # the array ends the portal's sessions and refuses more
        - {at: 40 s, portal_accepts: 0}
        - {at: 50 s, port_standby: 0}        # access state of the portal's port group (ALUA)
        - {at: 60 s, port_optimized: 0, transition: 2 s}

`at` counts from the beginning of the measuring phase. Portals are numbered from 0, as paths are.
Every repetition begins with all links up, and all portals accepting and optimized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from hakaru.engine import contract
from hakaru.kinds.vms.multipath import Multipath
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.cuts import cuttable
from hakaru.run.events import ArrayChange, LinkChange, TimedEvent
from hakaru.study.part import SECOND_NS, Part
from hakaru.study.port_groups import PortGroup, group_of
from hakaru.suggest import did_you_mean
from hakaru.units import Duration, format_duration

EVENTS_MAX = 100
RETURNS = {
    "link_down": "link_up",
    "portal_refused": "portal_accepts",
    "port_standby": "port_optimized",
    "port_unavailable": "port_optimized",
    "port_non_optimized": "port_optimized",
}
"""Failure → its end."""
FAILURES = {end: failure for failure, end in reversed(RETURNS.items())}
"""End → the first failure that it ends."""
NAMES = tuple(dict.fromkeys(name for pair in RETURNS.items() for name in pair))
"""Every change that an event may make."""
STATES: dict[str, Literal["optimized", "non_optimized", "standby", "unavailable"]] = {
    "port_optimized": "optimized",
    "port_non_optimized": "non_optimized",
    "port_standby": "standby",
    "port_unavailable": "unavailable",
}
"""Change → access state that a port group gets by it."""
TIMED = ("link_down", "portal_refused")
"""Failures whose timers have to expire before the commands of the path move."""
PROMPT_NS = SECOND_NS // 10
"""Tolerance of a time whose timers are short or none, for the scheduling of this machine."""
TOLERANCE = 0.2
"""Share of the timers' sum by which a time may differ from it."""
NEIGHBOUR_NS = 2 * SECOND_NS
"""Time after which Linux uses a mended link at the latest: it handles changes of carriers, and asks
for the addresses of neighbours that do not answer, once a second.
"""


class PathEvent(Part):
    """One event: its time, and one change."""

    at: Duration = Field(ge=0, le=86_400 * SECOND_NS, description="time from the beginning of the measuring phase")
    link_down: str | None = Field(default=None, description="name of a link of the lab that is cut in both directions")
    link_up: str | None = Field(default=None, description="name of a link that was cut and is mended")
    portal_refused: int | None = Field(
        default=None,
        ge=0,
        le=255,
        description="number of a portal, from 0, whose sessions the array ends, and where it refuses connections",
    )
    portal_accepts: int | None = Field(
        default=None, ge=0, le=255, description="number of a portal that accepts connections again"
    )
    port_standby: int | None = Field(
        default=None, ge=0, le=255, description="number of a portal whose port group becomes standby (ALUA)"
    )
    port_unavailable: int | None = Field(
        default=None, ge=0, le=255, description="number of a portal whose port group becomes unavailable"
    )
    port_non_optimized: int | None = Field(
        default=None,
        ge=0,
        le=255,
        description="number of a portal whose port group becomes active/non-optimized: it is used only if no "
        "optimized one is left",
    )
    port_optimized: int | None = Field(
        default=None, ge=0, le=255, description="number of a portal whose port group becomes active/optimized again"
    )
    transition: Duration = Field(
        default=0,
        ge=0,
        le=255 * SECOND_NS,
        multiple_of=SECOND_NS // 1000,
        description="with the access state of a port: time in which the group refuses access before it has the state",
    )

    @property
    def changes(self) -> dict[str, str | int]:
        """Name → object of every change that is given; a valid event has one."""
        given = {name: getattr(self, name) for name in NAMES}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def name(self) -> str:
        """Name of the change: `link_down`."""
        return next(iter(self.changes))

    @property
    def object(self) -> str | int:
        """Link or portal that changes."""
        return self.changes[self.name]


Found = tuple[tuple[str | int, ...], str, str]
"""Place below `load`, message and hint."""


def problems(
    events: Sequence[PathEvent],
    *,
    paths_per_vm: int | None,
    measured_ns: int,
    lab: LabPlan,
    port_groups: Sequence[PortGroup],
) -> Iterator[Found]:
    """Problems of the events of a point with this measuring phase and these port groups."""
    if not events:
        return
    if (paths_per_vm or 1) < 2:
        message = "the load has events, and each VM has one path, whose loss would end the load"
        yield ("events",), message, "set `paths_per_vm` to 2 or more, or leave `events` out"
        return
    found = [*late(events, measured_ns)]
    for i, event in enumerate(events):
        found += [(("events", i, *place), message, hint) for place, message, hint in _one(event, lab)]
    yield from found or _order(events, port_groups)


def late(events: Sequence[PathEvent], measured_ns: int) -> Iterator[Found]:
    """Problems of events that are not within a measuring phase of this length."""
    for i, event in enumerate(events):
        if event.at >= measured_ns:
            message = f"{format_duration(event.at)} is not within the measuring phase of {format_duration(measured_ns)}"
            hint = "`at` counts from the beginning of the measuring phase; make it shorter, or `time` longer"
            yield ("events", i, "at"), message, hint


def _one(event: PathEvent, lab: LabPlan) -> Iterator[Found]:
    if len(event.changes) != 1:
        given = ", ".join(event.changes) or "none"
        hint = f"give one of {', '.join(f'`{name}`' for name in NAMES)} in each event"
        yield (), f"an event is one change, and this one has {given}", hint
        return
    name, target = event.name, event.object
    if isinstance(target, int):
        portals = len(lab.portals())
        if target >= portals:
            message, hint = f"no portal {target}", f"portals are numbered from 0 to {portals - 1}, as the lab's paths"
            yield (name,), message, hint
    elif target not in cuttable(lab):
        yield (name,), f"no link {target!r}", did_you_mean(target, cuttable(lab))
    if event.transition and name not in STATES:
        hint = f"leave it out; {', '.join(f'`{each}`' for each in STATES)} may have one"
        yield ("transition",), f"`{name}` has no transition", hint


def _order(events: Sequence[PathEvent], port_groups: Sequence[PortGroup]) -> Iterator[Found]:
    """Check that each event changes something."""
    # Last change of each thing. Things of one kind have the same end of their failures.
    last: dict[tuple[str, str | int], str] = {}
    for i, event in sorted(enumerate(events), key=lambda each: each[1].at):
        end = RETURNS.get(event.name, event.name)
        thing = (end, group_of(port_groups, int(event.object))[0] if event.name in STATES else event.object)
        if last.get(thing, end) == event.name:
            at = format_duration(event.at)
            if event.name == end:
                message = f"`{event.name}` of {event.object} at {at} changes nothing: it is in that state"
                hint = f"put `{FAILURES[end]}` before it, or leave it out"
            else:
                message = f"`{event.name}` of {event.object} at {at} repeats an earlier event"
                hint = f"put `{end}` before it, or leave it out"
            yield ("events", i, event.name), message, hint
        last[thing] = event.name


def timed(events: Sequence[PathEvent], array: str) -> list[TimedEvent]:
    """The events as a run carries them out, of the array on this node."""
    return [TimedEvent(event.at, event.name, str(event.object), _change(event, array)) for event in events]


def _change(event: PathEvent, array: str) -> LinkChange | ArrayChange:
    name, target = event.name, event.object
    if name in ("link_down", "link_up"):
        return LinkChange(str(target), up=name == "link_up")
    portal = int(target)
    if name in ("portal_refused", "portal_accepts"):
        return ArrayChange(array, contract.SetPortalAction(portal=portal, accepts=name == "portal_accepts"))
    transition_ms = event.transition * 1000 // SECOND_NS
    state = contract.SetPortStateAction(portal=portal, state=STATES[name], transition_ms=transition_ms)
    return ArrayChange(array, state)


@dataclass(frozen=True)
class Timers:
    """The timers behind an event: their sum, ns, and whether it is a maximum only."""

    sum_ns: int
    is_most: bool


def timers_of(name: str, multipath: Multipath, transition_ns: int = 0) -> Timers:
    """The timers after which the commands of a failed path move to others, or after which a path is
    used again at the latest.

    A cut link is noticed by pings. A refused portal ends its sessions at once, so only the recovery
    time passes. A port without access, also in a transition, refuses each command at once, and a
    non-optimized one serves it. A path over a mended link returns once the neighbour's address is
    known, with the connection attempt in progress or the next one; one over an accepting portal
    with the next one. A port's state is noticed by a check at the latest.
    """
    again = max(multipath.login_timeout, multipath.retry)
    sums = {
        "link_down": multipath.failover_ns,
        "portal_refused": multipath.recovery,
        "port_standby": 0,
        "port_unavailable": 0,
        "port_non_optimized": 0,
        "link_up": NEIGHBOUR_NS + again + multipath.failback,
        "portal_accepts": multipath.retry + multipath.failback,
        "port_optimized": transition_ns + multipath.check,
    }
    return Timers(int(sums[name]), is_most=name in FAILURES)


def tolerance_ms(timers_ms: float) -> float:
    """Difference up to which timers explain a time: 20 % of their sum, or 100 ms if more."""
    return max(TOLERANCE * timers_ms, PROMPT_NS / 1e6)
