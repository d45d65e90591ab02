"""Points that differ in one setting, which show the effect of that setting.

A setting is a place in the study that a level of some variable changes. A level may change several
places at once (ECN changes the hosts and the switch). Two points are neighbours if all places in
which they differ belong to one variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.analysis.network import places_of
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.study import Study
from hakaru.study.variables import value_at
from hakaru.units import parse_rate, parse_size

STACK = "lab.tcp.stack"
AGE = {STACK, "lab.tcp.sack", "lab.tcp.congestion_control"}
"""Places that may differ between the ages of TCP."""
INITIATOR = "load.initiator"
AMOUNT = {"load.image", "load.warmup", "load.time_limit"}
"""Places that say how much is measured. Points may differ in them and be compared all the same,
because a rate that is slow needs more data, or more time, until it lasts.
"""
# Settings that can end a collapse, the cheapest first: of the sender, of the switch, of all nodes
# on the path, a new switch.
KINDS = (
    "rate_limit",
    "send_rate",
    "nic_rate",
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
    """A changed setting: its kind, place, old and new value, and the point that has the new
    value.
    """

    kind: str
    place: str
    before: Any
    after: Any
    point: CopyPoint
    links: tuple[str, ...] = ()
    """Links on which the setting was changed."""

    def to_json(self) -> dict[str, Any]:
        """Return the evidence of a finding."""
        rates = {n: self.point.mean(n) for n in ("mib_per_s", "path_percent", "dropped_frames")}
        changed = {"kind": self.kind, "place": self.place, "before": self.before, "after": self.after}
        return changed | {"point": self.point.id, **rates}


def variables_places(study: Study) -> list[set[str]]:
    """The places that each variable changes."""
    return [set(places_of(variable)) for variable in study.variables.values()]


def differing(a: CopyPoint, b: CopyPoint) -> set[str]:
    """Places in which two points differ, without those of `AMOUNT`."""
    a_settings, b_settings = a.setup.settings, b.setup.settings
    places = (a_settings.keys() | b_settings.keys()) - AMOUNT
    return {p for p in places if a_settings.get(p) != b_settings.get(p)}


def change(study: Study, a: CopyPoint, b: CopyPoint) -> Change | None:
    """Return the one setting that differs between `a` and `b`, or None if several differ."""
    places = differing(a, b)
    if not places or not any(places <= variable for variable in variables_places(study)):
        return None
    place = min(sorted(places), key=lambda p: KINDS.index(kind_of(p)) if kind_of(p) in KINDS else len(KINDS))
    kind = kind_of(place)
    links = [
        p.split(".")[2] for p in b.setup.settings if p in places and p.startswith("lab.links.") and kind_of(p) == kind
    ]
    return Change(kind, place, a.setup.settings.get(place), b.setup.settings.get(place), b, tuple(dict.fromkeys(links)))


def kind_of(place: str) -> str:
    """The kind of a setting: `queue` for `lab.links.vtl.queue`."""
    return place.rpartition(".")[2]


def same_path(a: CopyPoint, b: CopyPoint) -> bool:
    """Whether both paths to the destination have the same payload rate."""
    return a.setup.payload_bytes_per_s == b.setup.payload_bytes_per_s


def tcp_age_pairs(points: list[CopyPoint]) -> list[tuple[CopyPoint, CopyPoint]]:
    """Pairs that differ only in the age of TCP and its related settings, each with the older first.
    The younger one is `today`.
    """
    pairs = []
    for old in points:
        for new in points:
            places = differing(old, new)
            if STACK in places and places <= AGE and str(new.setup.settings[STACK]) == "today":
                pairs.append((old, new))
    return [(old, new) for old, new in pairs if old.mean("mib_per_s") is not None]


def initiator_pairs(points: list[CopyPoint]) -> list[tuple[CopyPoint, CopyPoint]]:
    """Pairs that differ only in the initiator: hakaru's first, and that of Linux."""
    return [
        (ours, linux)
        for ours in points
        for linux in points
        if differing(ours, linux) == {INITIATOR} and linux.setup.settings[INITIATOR] == "kernel"
    ]


def remedies(study: Study, slow: CopyPoint, points: list[CopyPoint]) -> list[Change]:
    """The smallest change of each kind that raises `slow` to 90 % of the best of `points` on the
    same path, the cheapest first.

    A change affects only places that `slow` leaves at the base value of the study. Reverting a
    level of `slow` and setting another place would be two changes.
    """
    # Tapes in place of disks are another destination and no setting.
    same_end = [p for p in points if (p.setup.tape is None) == (slow.setup.tape is None)]
    comparable = [p for p in same_end if same_path(slow, p) and _age(p) == _age(slow) and p.valid]
    best = max((p.mean("path_percent") or 0.0 for p in comparable), default=0.0)
    good = [p for p in comparable if (p.mean("path_percent") or 0.0) >= GOOD_SHARE * best]
    least: dict[str, Change] = {}
    for candidate in (change(study, slow, p) for p in good):
        if candidate is None or any(
            slow.setup.settings.get(p) != value_at(study.written, p) for p in differing(slow, candidate.point)
        ):
            continue
        if candidate.kind not in least or _size(candidate) < _size(least[candidate.kind]):
            least[candidate.kind] = candidate
    return sorted(least.values(), key=lambda c: KINDS.index(c.kind) if c.kind in KINDS else len(KINDS))


def _age(point: CopyPoint) -> tuple[str, str]:
    return str(point.setup.settings.get(STACK)), str(point.setup.settings.get("lab.tcp.sack"))


def _size(change: Change) -> float:
    """Return a number that orders the values of a setting by the size of the change: smaller
    buffers and fewer streams come first, and so do higher rate limits.
    """
    value = change.after
    try:
        if change.kind in ("rate_limit", "send_rate", "nic_rate"):
            return -float(parse_rate(value))
        return float(parse_size(value)) if change.kind == "queue" else float(value)
    except (TypeError, ValueError):
        return 0.0
