"""Plan of a run before it starts: points, order, minutes, disk, memory, engines. Changes nothing
and prompts for nothing.

Estimates of memory and disk are upper bounds; those of time are expected values.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.guest.refusal import Refusal
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.lab.plan.rounds import pairs_of, rounds_of
from hakaru.run import kind
from hakaru.run.kind import Cost
from hakaru.run.plan_place import equipment, topology
from hakaru.run.schedule import Searches, schedule_of
from hakaru.run.site_file import Site
from hakaru.study import Expanded, Point
from hakaru.study.intervals import Intervals
from hakaru.study.model import Study
from hakaru.study.part import level_text
from hakaru.units import format_rate, format_size

# Measured on two cores, in seconds: starting hakaru and building the lab; checking one host's link,
# and the limit for all of them; a repetition besides its load (start, login, drain, stop, write);
# and, below, analysis with reports in two languages.
LAB_S = 2.0
LINK_CHECK_S, LINK_CHECKS_S_MAX = 1.1, 8.0
REPETITION_S = 0.8
# Checking the links that a point changes, when they are first used.
VARIANT_S = 1.5
# Measuring plain TCP in a lab link by link, for each pair of nodes, in both directions.
BASELINE_S = 4.5
REPORT_S = 12.0
# Bytes a sampled counter takes in a Parquet file, and an interval's histogram.
SAMPLE_BYTES = 6
HISTOGRAM_BYTES = 3000
# Counters of a VM or tool, of a node with its TCP, of both directions of a link of a fabric, of a
# drive, and those of a drive that may have an interval of their own.
COUNTERS_OF_ACTOR, COUNTERS_OF_NODE, COUNTERS_OF_LINK = 20, 60, 34
COUNTERS_OF_DRIVE, COUNTERS_OF_DRIVE_ALONE = 8, 2
# Drives of an array whose model is not looked at.
DRIVES = 12
ENGINE_BYTES = 24 << 20
# Kernel memory for each interface of a fabric: the ring of frames
# (crates/runtime/src/packet/ring.rs).
FABRIC_RING_BYTES = 16 << 20
# Booting a guest on an emulated processor and logging in; with KVM it takes a few seconds.
GUEST_BOOT_S, GUEST_LOGIN_S = 12.0, 8.0
LOOPBACK_BYTES_PER_S = 4_000_000_000


@dataclass(frozen=True)
class Estimate:
    """Time, disk and memory that a run needs.

    `memory_bytes`: engines, a fabric's rings, and what one repetition holds (`Cost.held_bytes`).
    `files_bytes`: files of a load that builds some, in `RunKind.files_folder`.
    """

    seconds: float
    seconds_most: float
    """The same if every repetition takes as long as it may; of copies, the time limit."""
    disk_bytes: int
    memory_bytes: int
    engines: int
    files_bytes: int


def cost_of(expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
    """Time, disk and memory that a repetition of a point needs."""
    study = expanded.at(point)
    return kind.of(study).cost(expanded, point, lab_of(study, lab))


def estimate(
    expanded: Expanded, lab: LabPlan | None, impossible: Collection[str] = (), done: Collection[str] = ()
) -> Estimate:
    """Upper bounds for memory and disk, and the expected time. `lab` is None for a site.
    `impossible`: points that this machine cannot measure, which take no time, memory or disk.
    `done`: finished repetitions, which take no time or disk.
    """
    measure = expanded.measure
    hosts = len(lab.loading_names) if lab else 1
    by_point = {point.id: cost_of(expanded, point, lab) for point in expanded.points}
    points = [turn.point for turn in schedule_of(expanded).left(done) if turn.point.id not in impossible]
    studies = [expanded.at(point) for point in points]
    costs = [by_point[point.id] for point in points]
    seconds = sum(cost.seconds for cost in costs) + len(costs) * REPETITION_S + REPORT_S
    if lab:
        seconds += LAB_S + min(LINK_CHECKS_S_MAX, hosts * len(lab.array_names) * LINK_CHECK_S)
        seconds += 0 if lab.is_star else len(pairs_of(lab)) * BASELINE_S
        seconds += VARIANT_S * len(_variants(studies, lab))
    measured = [point for point in expanded.points if point.id not in impossible]
    guests = [_guest_memory(expanded.at(point), lab, by_point[point.id]) for point in measured]
    by_guests = {point.id: len(memory) for point, memory in zip(measured, guests, strict=True)}
    seconds += sum(by_guests[point.id] for point in points) * (GUEST_BOOT_S + GUEST_LOGIN_S)
    seconds += sum(_forwarding_guests(study) for study in studies) * GUEST_BOOT_S
    nodes = len(lab.namespaces) if lab else 1
    arrays = len(lab.array_names) if lab else 0
    disk = sum(_sampled_bytes(measure.intervals, cost, lab) for cost in costs)
    disk += len(studies) * _captured_bytes(expanded.study, hosts, arrays)
    engines = 2 * hosts + (nodes - hosts if lab else 0) + arrays + (1 if lab and lab.fabric_node else 0)
    possible = [cost for name, cost in by_point.items() if name not in impossible]
    # On a site, only a guest that is the device holds memory of this machine.
    has_guest = any(_forwarding_guests(expanded.at(point)) for point in measured)
    held = max((cost.held_bytes for cost in possible), default=0) if lab or has_guest else 0
    files = max((cost.files_bytes for cost in possible), default=0)
    rings = len(lab.links) * FABRIC_RING_BYTES if lab and lab.fabric_node else 0
    held += max((sum(memory) for memory in guests), default=0)
    seconds_most = seconds + sum(cost.seconds_max - cost.seconds for cost in costs)
    return Estimate(seconds, seconds_most, int(disk), engines * ENGINE_BYTES + rings + held, engines, files)


def _sampled_bytes(intervals: Intervals, cost: Cost, lab: LabPlan | None) -> float:
    """Largest size of the samples of one repetition."""
    nodes, arrays = (len(lab.namespaces), len(lab.array_names)) if lab else (1, 0)
    at_hosts = min(cost.actors, 256) * COUNTERS_OF_ACTOR + max(0, nodes - arrays) * COUNTERS_OF_NODE
    drives = arrays * DRIVES
    links = len(lab.links) + len(lab.trunks) if lab and lab.fabric_node else 0
    bytes_per_ns = [
        (at_hosts * SAMPLE_BYTES + nodes * 2 * HISTOGRAM_BYTES) / intervals.hosts,
        (arrays * COUNTERS_OF_NODE + drives * COUNTERS_OF_DRIVE) * SAMPLE_BYTES / intervals.arrays,
        links * COUNTERS_OF_LINK * SAMPLE_BYTES / intervals.switches,
        drives * COUNTERS_OF_DRIVE_ALONE * SAMPLE_BYTES / intervals.drives if intervals.drives_alone else 0.0,
    ]
    return cost.seconds_max * 1e9 * sum(bytes_per_ns)


def _guest_memory(study: Study, lab: LabPlan | None, cost: Cost) -> list[int]:
    """Memory of each guest that takes the place of a node with load at a point, bytes."""
    if lab is None or study.lab.load_guest is None:
        return []
    return [study.lab.load_guest.memory] * min(len(lab.loading_names), cost.guests or cost.actors)


def _forwarding_guests(study: Study) -> int:
    """Number of the guests that are the device of a point."""
    device = study.lab.device
    return device.guest.count if device is not None and device.forwards == "guest" else 0


def _variants(studies: Iterable[Study], lab: LabPlan) -> set[tuple[Hashable, ...]]:
    """States of the links at the points, other than the first. Each is checked once."""
    plans = {plan_lab(study.lab) for study in studies}
    states = {tuple(round_.key for round_ in rounds_of(plan)) for plan in plans}
    return states - {tuple(round_.key for round_ in rounds_of(lab))}


def _captured_bytes(study: Study, hosts: int, arrays: int) -> int:
    """Largest size of the captures of one repetition."""
    capture = study.watch.capture if study.watch else None
    if capture is None:
        return 0
    return capture.keep * {"hosts": hosts, "arrays": arrays, "both": hosts + arrays}[capture.at]


def lab_of(study: Study, lab: LabPlan | None) -> LabPlan | None:
    """The lab of one point; None if the run uses a site."""
    return plan_lab(study.lab) if lab else None


def describe(
    expanded: Expanded, lab: LabPlan | None, refused: Mapping[str, Refusal], site: Site | None = None
) -> dict[str, Any]:
    """The plan as `hakaru plan --json` prints it. `refused`: point → the reason why this machine
    cannot measure it. `site`: equipment instead of a lab.
    """
    needed = estimate(expanded, lab, refused)
    return {
        "study": expanded.study.id,
        "quick": expanded.quick,
        "seed": expanded.seed,
        "measure": expanded.measure.model_dump(mode="json"),
        "points": [{"point": p.id, "factors": p.factors} for p in expanded.points],
        "impossible_here": [{"point": name, "reason": r.reason, "hint": r.hint} for name, r in refused.items()],
        "order": [r.name for r in expanded.repetitions],
        "searches": _searches(expanded),
        "repetitions_most": schedule_of(expanded).most,
        "lab": lab.describe() if lab else None,
        "site": site.model_dump(mode="json") if site else None,
        "expectations": [expectation.model_dump(mode="json") for expectation in expanded.study.expect],
        "portals": [p for name in lab.array_names for p in lab.portals(name)] if lab else None,
        "estimate": {
            "seconds": round(needed.seconds),
            "seconds_most": round(needed.seconds_most),
            "disk_bytes": needed.disk_bytes,
            "files_bytes": needed.files_bytes,
            "memory_bytes": needed.memory_bytes,
            "engines": needed.engines,
        },
    }


def lines(
    expanded: Expanded,
    lab: LabPlan | None,
    refused: Mapping[str, Refusal],
    language: str = "en",
    site: Site | None = None,
) -> list[str]:
    """The plan as lines of text. `refused`, `site`: as in `describe`. `language`: that of the
    title.
    """
    needed, measure = estimate(expanded, lab, refused), expanded.measure
    form = "quick form" if expanded.quick else "full form"
    each = kind.of(expanded.study).each(expanded)
    schedule, searches = schedule_of(expanded), _searches(expanded)
    size = f"{len(expanded.points)} points x {measure.repetitions} repetitions"
    if searches:
        levels, repetitions = (sum(s[f"{name}_most"] for s in searches) for name in ("points", "repetitions"))
        count = "1 search" if len(searches) == 1 else f"{len(searches)} searches"
        size = f"{count} for the goal, at most {levels} points and {repetitions} repetitions"
    elif measure.precision is not None:
        size = f"{len(expanded.points)} points x {measure.repetitions} to {measure.most} repetitions"
    most = f" for at most {schedule.most} repetitions"
    minutes = f"about {needed.seconds / 60:.1f} minutes"
    if measure.steady is not None:
        minutes = f"about {needed.seconds / 60:.1f} to {needed.seconds_most / 60:.1f} minutes"
    text = [
        f"{expanded.study.id}: {getattr(expanded.study.title, language)}",
        f"{size} ({form}), {each}",
        f"{minutes}{'' if schedule.is_fixed else most}, "
        f"at most {_rounded_up(needed.disk_bytes)} of disk and {_rounded_up(needed.memory_bytes)} of memory",
    ]
    if needed.files_bytes:
        folder = kind.of(expanded.study).files_folder()
        text.append(f"about {_rounded_up(needed.files_bytes)} of files in {folder}")
    if lab:
        arrays = "; ".join(f"{name} at {', '.join(lab.portals(name))}" for name in lab.array_names)
        at = f": {arrays}" if arrays else ""
        text.append(f"lab: {lab_parts(lab)}{at}; {lab.backend} backend; {needed.engines} engines")
        for rates in all_link_rates(expanded):
            text.append(f"links: {rates}")
        if lab.device is None:
            text += ["topology:", *topology(lab)]
    if site:
        text += equipment(site)
    if searches:
        text.append(f"seed {expanded.seed}; order: follows from the results")
        text += [_search_line(search) for search in searches]
    else:
        further = "" if schedule.is_fixed else " and further rounds of points that are not precise enough"
        text.append(f"seed {expanded.seed}; order: {' '.join(r.name for r in expanded.repetitions)}{further}")
        text.append("points:")
        text += [
            f"  {p.id}  " + "  ".join(f"{k} {level_text(v)}" for k, v in p.factors.items()) for p in expanded.points
        ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, refusal in refused.items():
        reasons.setdefault((refusal.reason, refusal.hint), []).append(name)
    for (reason, hint), names in reasons.items():
        text.append(f"not possible here: {' '.join(names)}: {reason} ({hint})")
    return text


def _searches(expanded: Expanded) -> list[dict[str, Any]]:
    """Every search with its limits: the most points and repetitions that it can take."""
    schedule = schedule_of(expanded)
    if not isinstance(schedule, Searches):
        return []
    described = []
    for search in schedule.searches:
        levels, first = schedule.goal.over(len(search.points)), search.points[0]
        described.append(
            {
                "over": search.over,
                "where": {name: level for name, level in first.factors.items() if name != search.over},
                "levels": [point.factors[search.over] for point in search.points],
                "find": schedule.goal.find,
                "limits": [vars(limit) for limit in schedule.goal.limits],
                "points_most": levels.levels_most,
                "repetitions_most": levels.repetitions_most,
            }
        )
    return described


def _search_line(search: Mapping[str, Any]) -> str:
    """`  search: random-32k: highest of 32 levels of vms from 1 to 32 with latency_ms_p99 at most
    20`.
    """
    where = ", ".join(f"{name} {level_text(level)}" for name, level in search["where"].items())
    limits = " and ".join(f"{limit['metric']} at {limit['side']} {limit['value']:g}" for limit in search["limits"])
    levels = search["levels"]
    text = (
        f"{search['find']} of {len(levels)} levels of {search['over']} from {levels[0]} to {levels[-1]} with {limits}"
    )
    return f"  {where}: {text}" if where else f"  {text}"


def all_link_rates(expanded: Expanded) -> list[str]:
    """The rates of links at the points, each state of the links once."""
    return list(dict.fromkeys(rates for point in expanded.points if (rates := link_rates(expanded.at(point)))))


def link_rates(study: Study) -> str:
    """`1 Gbit/s: host_link; 8 Gbit/s: array_link`: links by rate, as bits per second, whatever the
    unit in the study. Empty for a lab without links of its own.
    """
    lab = study.lab
    if lab.device is not None:
        return ""
    links = lab.links if lab.links is not None else {"host_link": lab.host_link, "array_link": lab.array_link}
    by_rate: dict[str, list[str]] = {}
    for name, link in links.items():
        by_rate.setdefault(format_rate(link.rate) if link.rate else "as fast as the machine", []).append(name)
    return "; ".join(f"{rate}: {', '.join(names)}" for rate, names in by_rate.items())


def lab_parts(lab: LabPlan) -> str:
    """`4 hosts, 1 switch, 1 array`; `generator and device (bridge)`."""
    if lab.device is not None:
        return f"{lab.device.tester} and {lab.device.name} ({lab.device.forwards})"
    counts = {
        "host": len(lab.host_names),
        "switch": sum(not switch.is_nic for switch in lab.switches) or 1,
        "array": len(lab.array_names),
    }
    plural = {"switch": "switches"}
    return ", ".join(f"{n} {kind if n == 1 else plural.get(kind, kind + 's')}" for kind, n in counts.items())


def _rounded_up(size: int) -> str:
    unit = 1 << 30 if size >= 1 << 30 else 1 << 20
    return format_size(-(-size // unit) * unit)
