"""Contents of a finished repetition, from the messages of its engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru import lost_packets
from hakaru.caveats import Caveat
from hakaru.engine.offset import ClockRecord
from hakaru.engine.session import EngineSession
from hakaru.errors import HakaruError
from hakaru.run import kind
from hakaru.run.dialogue import Dialogue
from hakaru.run.events import Events
from hakaru.run.gang import Gang, Messages
from hakaru.run.kind import Finished, Phases
from hakaru.run.meter import Rates
from hakaru.run.place import Place
from hakaru.run.warm_up import SteadyWarmUp, uneven_begin
from hakaru.store import Histograms, Samples
from hakaru.study import Expanded, Repetition
from hakaru.study.model import Study

TRIALS = "trials"
"""Name in the place of an engine for histograms of trials."""


@dataclass
class Outcome:
    """Contents of a finished repetition: its JSON, samples and histograms, and files of watches."""

    record: dict[str, Any]
    samples: Samples
    histograms: Histograms
    tcp: dict[str, Path]
    """Node → the file of its TCP series; empty if the study records none."""
    captures: dict[str, Path] = field(default_factory=dict)
    """Node → the configured file of its capture, which is written in parts; empty if the study
    records none.
    """
    rates: Rates | None = None
    """Result of the repetition for the display, or that it failed."""


def failed_outcome(place: Place, turn: Repetition, error: HakaruError, caveats: Sequence[Caveat] = ()) -> Outcome:
    """The outcome of a repetition that gave no result, for a run that continues."""
    record = {
        "point": turn.point.id,
        "repetition": turn.repetition,
        "order": turn.order,
        "factors": turn.point.factors,
        "status": "failed",
        "error": error.message,
        "hint": error.hint,
        "measure": {"start_ns": 0, "end_ns": 0},
        "origin": place.origin,
        "caveats": [caveat.to_json() for caveat in caveats],
        "engines": [],
    }
    shown = Rates(f"failed: {error.message} ({error.hint})", {"error": error.message})
    return Outcome(record, Samples(), Histograms(), {}, rates=shown)


def outcome_of(
    place: Place,
    expanded: Expanded,
    turn: Repetition,
    gang: Gang,
    messages: Messages,
    start_ns: int,
    link_caveats: list[Caveat],
    dialogue: Dialogue | None,
    warm_up: SteadyWarmUp | None,
    events: Events,
) -> Outcome:
    """The outcome of a repetition whose loads ended by themselves."""
    for engine in gang.all():
        result = messages.results[engine.name]
        messages.histograms.add(engine.node, engine.kind, None, [h.model_dump() for h in result.histograms])
    trials = dialogue.describe() if dialogue is not None else None
    for node, histograms in (dialogue.histograms() if dialogue is not None else {}).items():
        messages.histograms.add(node, TRIALS, None, [h.model_dump() for h in histograms])
    study = expanded.at(turn.point)
    phases = Phases(start_ns, messages.measure_ns, messages.drain_ns)
    window = dialogue.window() if dialogue is not None else None
    measure_start, measure_end = window or kind.of(study).window(expanded, turn, phases)
    guests, clocks = place.guests, {node: clock.describe() for node, clock in place.clocks.items()}
    caveats = [
        caveat.to_json()
        for caveat in (
            *link_caveats,
            *_guest_caveats(guests),
            *_clock_caveats(place.clocks, expanded.measure.intervals.hosts),
            *_caveats(study, gang, messages),
            *_warm_up_caveats(warm_up, messages, expanded.measure.time_ns),
            *_start_caveats(clocks, warm_up, messages, measure_end - measure_start),
            *events.caveats(expanded.measure.intervals.hosts),
        )
    ]
    engines = [
        {
            "node": engine.node,
            "engine": engine.kind,
            "version": engine.version,
            "found": messages.ready[engine.name],
            "values": messages.results[engine.name].values,
            "complaints": [f"{c.message} ({c.hint})" for c in engine.complaints],
        }
        for engine in gang.all()
    ]
    described = {node: samba.describe() for node, samba in gang.file_servers.items()}
    record = {
        "point": turn.point.id,
        "repetition": turn.repetition,
        "order": turn.order,
        "factors": turn.point.factors,
        "status": "done",
        "error": None,
        "measure": {"start_ns": measure_start, "end_ns": measure_end},
        "origin": place.origin,
        "caveats": caveats,
        "engines": engines,
        **({"events": events.describe()} if events.describe() else {}),
        **({"file_servers": described} if described else {}),
        **({} if warm_up is None else {"warm_up": warm_up.describe(measure_start)}),
        **({} if trials is None else {"trials": trials}),
        **({} if place.device is None else {"device": place.device}),
        **({"guests": guests} if guests else {}),
        **({"clocks": clocks} if clocks else {}),
        **({"chains": messages.chains} if messages.chains else {}),
    }
    results = [messages.results[engine.name].values for engine in gang.loads]
    finished = Finished((measure_start, measure_end), messages.samples, messages.histograms, results, trials)
    rates = kind.of(study).result(study, finished)
    return Outcome(record, messages.samples, messages.histograms, gang.tcp, gang.captures, rates)


def _warm_up_caveats(warm_up: SteadyWarmUp | None, messages: Messages, time_ns: int) -> Iterator[Caveat]:
    if warm_up is None:
        return
    found = (warm_up.caveat(), uneven_begin(messages.measure_ns, time_ns))
    yield from (caveat for caveat in found if caveat is not None)


def _start_caveats(
    clocks: Mapping[str, Any], warm_up: SteadyWarmUp | None, messages: Messages, time_ns: int
) -> Iterator[Caveat]:
    """The caveat of loads on several machines that did not begin together, because the order to
    start reached one late.
    """
    if clocks and warm_up is None and (caveat := uneven_begin(messages.measure_ns, time_ns)) is not None:
        yield caveat


def _guest_caveats(guests: Mapping[str, Any]) -> Iterator[Caveat]:
    """Caveats about initiator and clock of the guests that the load ran in, and about the
    processors of all guests. A guest that only serves files has no engine and no clock.
    """
    loaded = [guest for guest in guests.values() if guest["clock"]]
    if loaded:
        clocks = [guest["clock"] for guest in loaded]
        bounds_ns = [each["bound_ns"] for clock in clocks for each in (clock["start"], clock["end"]) if each]
        named = {name: loaded[0][name] for name in ("initiator", "kernel")} | {"nic": loaded[0]["nic"]["model"]}
        yield Caveat("load_in_guest", named | {"bound_us": round(max(bounds_ns, default=0) / 1000)})
    emulated = [guest["accelerator_reason"] for guest in guests.values() if guest["accelerator"] == "tcg"]
    if emulated:
        yield Caveat("cpu_emulated", {"reason": emulated[0]})


def _clock_caveats(clocks: Mapping[str, ClockRecord], interval_ns: int) -> Iterator[Caveat]:
    """The caveat of the clock that is known worst, if its instants may be off by more than a sample
    interval. None without clocks of other machines.
    """
    errors_ns = {node: clock.error_max_ns for node, clock in clocks.items()}
    worst = max(errors_ns, key=lambda node: errors_ns[node], default="")
    if worst and errors_ns[worst] > interval_ns:
        values = {"host": worst, "error_ms": errors_ns[worst] / 1e6, "interval_ms": interval_ns / 1e6}
        yield Caveat("clock_uncertain", values)


def _caveats(study: Study, gang: Gang, messages: Messages) -> list[Caveat]:
    """Reasons why the repetition is invalid, from the final messages of the engines."""

    def total(engines: list[EngineSession], *names: str) -> int:
        return int(sum(messages.results[e.name].values.get(name, 0) for e in engines for name in names))

    caveats = []
    if errors := total(gang.loads, "errors"):
        caveats.append(Caveat("io_errors", {"errors": errors}))
    caveats += kind.of(study).caveats(study, [messages.results[e.name].values for e in gang.loads])
    if study.lab.device is None:
        # A switch under test may lose frames; a network between hosts and arrays may not.
        caveats += lost_packets.of_totals(
            total(gang.fabrics, *lost_packets.LOST), total(gang.fabrics, *lost_packets.DROPPED)
        )
    events, records = total(gang.watches, "tcp_events_lost"), total(gang.watches, "tcp_records_dropped")
    if events or records:
        caveats.append(Caveat("tcp_series_incomplete", {"events": events, "records": records}))
    packets, ended = total(gang.watches, "capture_dropped"), total(gang.watches, "capture_cut_short")
    if packets or ended:
        caveats.append(Caveat("capture_incomplete", {"packets": packets, "nodes": ended}))
    # Every watch tries all CPUs of the machine, so the counts are not added up.
    cpus = max((int(messages.results[e.name].values.get("tcp_unheard_cpus", 0)) for e in gang.watches), default=0)
    if cpus:
        caveats.append(Caveat("tcp_trace_deaf", {"cpus": cpus}))
    return caveats
