"""Points that differ in one thing: what a change of one setting did.

A setting is a place in the study that a level of some variable changes. Levels may change several
places at once (ECN takes the hosts and the switch): two points are neighbours if all places in
which they differ belong to one variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.analysis.network import at, places_of
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.study import Study
from hakaru.units import parse_rate, parse_size

STACK = "lab.tcp.stack"
AGE = {STACK, "lab.tcp.sack", "lab.tcp.congestion_control"}
"""What a level that is an age of TCP may change."""
# Ways out of the collapse, the cheapest first: a setting of the sender, of the switch, of all on
# the way, a new switch.
KINDS = (
    "rate_limit",
    "send_rate",
    "streams",
    "congestion_control",
    "pause",
    "ecn",
    "discipline",
    "mtu",
    "queue",
)
GOOD_SHARE = 0.9


@dataclass(frozen=True)
class Change:
    """One setting changed: what kind it is, where, from what to what, and the point that has it."""

    kind: str
    place: str
    before: Any
    after: Any
    point: CopyPoint
    links: tuple[str, ...] = ()
    """Links that it was changed on."""

    def to_json(self) -> dict[str, Any]:
        """Return the evidence of a finding."""
        rates = {n: self.point.mean(n) for n in ("mb_per_s", "path_percent", "dropped_frames")}
        changed = {"kind": self.kind, "place": self.place, "before": self.before, "after": self.after}
        return changed | {"point": self.point.id, **rates}


def variables_places(study: Study) -> list[set[str]]:
    """The places of each variable."""
    return [set(places_of(variable)) for variable in study.variables.values()]


def differing(a: CopyPoint, b: CopyPoint) -> set[str]:
    """Places in which two points differ."""
    before, other = a.setup.settings, b.setup.settings
    return {p for p in before.keys() | other.keys() if before.get(p) != other.get(p)}


def change(study: Study, a: CopyPoint, b: CopyPoint) -> Change | None:
    """Return the one setting that differs between `a` and `b`, or None if several differ."""
    places = differing(a, b)
    if not places or not any(places <= of_one for of_one in variables_places(study)):
        return None
    place = min(sorted(places), key=lambda p: KINDS.index(kind_of(p)) if kind_of(p) in KINDS else len(KINDS))
    kind = kind_of(place)
    links = [
        p.split(".")[2] for p in b.setup.settings if p in places and p.startswith("lab.links.") and kind_of(p) == kind
    ]
    return Change(kind, place, a.setup.settings.get(place), b.setup.settings.get(place), b, tuple(dict.fromkeys(links)))


def kind_of(place: str) -> str:
    """`queue` of `lab.links.vtl.queue`."""
    return place.rpartition(".")[2]


def same_path(a: CopyPoint, b: CopyPoint) -> bool:
    """Whether the path to the destination carries the same."""
    return a.setup.payload_bytes_per_s == b.setup.payload_bytes_per_s


def aged(points: list[CopyPoint]) -> list[tuple[CopyPoint, CopyPoint]]:
    """Pairs that differ in the age of TCP alone and what goes with it (SACK), the older first
    (`today`: younger).
    """
    found = []
    for old in points:
        for new in points:
            places = differing(old, new)
            if STACK in places and places <= AGE and str(new.setup.settings[STACK]) == "today":
                found.append((old, new))
    return [(old, new) for old, new in found if old.mean("mb_per_s") is not None]


def remedies(study: Study, slow: CopyPoint, points: list[CopyPoint]) -> list[Change]:
    """Of each kind the least change that brings `slow` to 90 % of the best on the same path,
    cheapest first.

    A change sets something that `slow` leaves as the study has it by itself: to take back what a
    level sets and to set something else as well would be two.
    """
    alike = [p for p in points if same_path(slow, p) and _age(p) == _age(slow) and p.valid]
    best = max((p.mean("path_percent") or 0.0 for p in alike), default=0.0)
    good = [p for p in alike if (p.mean("path_percent") or 0.0) >= GOOD_SHARE * best]
    least: dict[str, Change] = {}
    for one in (change(study, slow, p) for p in good):
        if one is None or any(slow.setup.settings.get(p) != at(study.written, p) for p in differing(slow, one.point)):
            continue
        if one.kind not in least or _size(one) < _size(least[one.kind]):
            least[one.kind] = one
    return sorted(least.values(), key=lambda c: KINDS.index(c.kind) if c.kind in KINDS else len(KINDS))


def _age(point: CopyPoint) -> tuple[str, str]:
    return str(point.setup.settings.get(STACK)), str(point.setup.settings.get("lab.tcp.sack"))


def _size(change: Change) -> float:
    """Return a number by which levels of a setting are ordered: a smaller buffer and fewer streams
    are less, and a higher rate limit is less of a limit.
    """
    value = change.after
    try:
        if change.kind in ("rate_limit", "send_rate"):
            return -float(parse_rate(value))
        return float(parse_size(value)) if change.kind == "queue" else float(value)
    except (TypeError, ValueError):
        return 0.0
