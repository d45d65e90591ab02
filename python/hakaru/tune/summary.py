"""Summary of a tuning: its search, the contribution of each knob, the advice, and configuration
text.

The advice follows from the trials by the rules of `hakaru.tune.tuning`, which also chose the
trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from hakaru.analysis.findings import Finding
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import RunData
from hakaru.tune import advice, kind
from hakaru.tune.knobs import Settings, changed, defaults_of, settle
from hakaru.tune.measure import trials_of
from hakaru.tune.setup import Setup
from hakaru.tune.tuning import Kept, Phase, Trial, counted_rate
from hakaru.wording import LANGUAGES, number, say

Json = dict[str, Any]
LATER: tuple[Phase, ...] = ("contribution", "advice")
"""Phases that measure the settings that the search found."""
KEPT: Mapping[Kept, str] = {"slower": "kept", "memory": "kept.memory", "unmeasured": "kept.unmeasured"}
"""Reason to keep a knob changed → the end of its message."""


def analyse(run: RunData) -> tuple[list[Point], list[Finding], Json, bool]:
    """Return the points, the findings, the part `tuning` of the summary, and whether the advice
    rests on valid trials.
    """
    setup = Setup.of_json(run.run["tuning"])
    trials = trials_of(run.directory, setup)
    # A point without a finished trial is left out.
    measured_points = {t.point for t in trials}
    analysed = kind.of_run(run).points(run, [raw for raw in run.points if raw["point"] in measured_points])
    tuning = describe(setup, trials, run.run)
    return analysed, findings(tuning, setup.tuning.kept(trials)), tuning, _valid(tuning)


def describe(setup: Setup, trials: list[Trial], run: Json) -> Json:
    """Return the part `tuning` of the summary."""
    tuning, space = setup.tuning, setup.space
    default = settle(space, defaults_of(space))
    best = tuning.best(trials)
    advised, measured = tuning.advised(trials)
    by_name = {knob.name: knob for knob in space}
    # Defaults that are also the best or the advice have the same rate as these.
    of_default: tuple[str, ...] = LATER if default in (best, advised) else ("search",)
    contributions = []
    for contribution in tuning.contributions(trials):
        assert best is not None, "contributions are measured for a best setting only"
        knob = by_name[contribution.knob]
        steps = {"from": knob.shown(knob.default), "to": knob.shown(best[contribution.knob])}
        contributions.append(contribution.to_json() | steps)
    changed_knobs = [] if advised is None else [knob.name for knob in changed(space, advised)]
    text = (
        [] if advised is None else advice.blocks(setup.conditions, advised, changed_knobs, setup.machine, _names(run))
    )
    return {
        "conditions": setup.conditions.describe(),
        "goal": setup.goal,
        "start": setup.start,
        "reachable_mb_per_s": setup.reachable_mb_per_s,
        "knobs": [
            {"knob": k.name, "default": k.shown(k.default), "levels": list(map(k.shown, k.levels))} for k in space
        ],
        "ended": tuning.search_ended(trials),
        "finished": bool(trials) and tuning.next(trials) is None,
        "seconds": sum(t.seconds for t in trials),
        "trials": _trials(setup, trials),
        "default": _setting(setup, trials, default, of_default),
        "best": None if best is None else _setting(setup, trials, best, ("contribution",)),
        "contributions": contributions,
        "peer": _peer(setup, trials, best),
        "advised": None if advised is None else _setting(setup, trials, advised, LATER) | {"confirmed": measured},
        "text": [{"name": b.name, "file": b.file, "text": b.text} for b in text],
    }


def _trials(setup: Setup, trials: list[Trial]) -> list[Json]:
    described, best = [], 0.0
    for order, t in enumerate(trials, start=1):
        best = max(best, (counted_rate(t, trials) or 0.0) if t.phase == "search" else 0.0)
        described.append(
            {
                "trial": order,
                "phase": t.phase,
                "knob": t.knob,
                "point": t.point,
                "repetition": t.repetition,
                "settings": _shown(setup, t.settings),
                "mb_per_s": t.mb_per_s,
                "best_mb_per_s": best,
                "memory_bytes": setup.tuning.search.memory(t.settings),
                "seconds": t.seconds,
                "error": t.error,
                "valid": t.valid,
                "caveats": [c["caveat"] for c in t.caveats],
            }
        )
    return described


def _shown(setup: Setup, settings: Settings) -> dict[str, str]:
    return {knob.name: knob.shown(settings[knob.name]) for knob in changed(setup.space, settings)}


def _setting(setup: Setup, trials: list[Trial], settings: Settings, phases: tuple[str, ...]) -> Json:
    """Return a setting with its throughput in `phases`, or in all phases if it was not measured in
    these. `valid` is false if all of these trials are invalid; they count only if none is valid.

    The search chose a setting by the luckiest of many trials; later measurements have no such bias.
    They are few, and the machine may have disturbed one, so their median represents them, with
    minimum and maximum.
    """
    alike = [t for t in trials if t.settings == settings and t.mb_per_s is not None]
    used = [t for t in alike if t.phase in phases] or alike
    valid = [t for t in used if t.valid]
    rate = _rate([t.mb_per_s for t in (valid or used) if t.mb_per_s is not None])
    reachable = setup.reachable_mb_per_s
    share = None if reachable is None or rate["median"] is None else 100 * rate["median"] / reachable
    return {
        "settings": _shown(setup, settings),
        "mb_per_s": rate,
        "reachable_percent": share,
        "memory_bytes": setup.tuning.search.memory(settings),
        "valid": bool(valid) or not used,
    }


def _rate(values: list[float]) -> Json:
    if not values:
        return {"median": None, "least": None, "most": None, "n": 0, "unit": "MB/s"}
    return {"median": median(values), "least": min(values), "most": max(values), "n": len(values), "unit": "MB/s"}


def _peer(setup: Setup, trials: list[Trial], best: Settings | None) -> Json | None:
    """Return the peer, and the best in percent of it with a 95 % confidence interval; None without
    a peer or a measurement of it.
    """
    peer, against = setup.peer, setup.tuning.against_peer(trials)
    if peer is None or best is None or against is None:
        return None
    setting = _setting(setup, trials, setup.tuning.of_peer(best), ("peer",))

    def of_peer(loss: float | None) -> float | None:
        return None if loss is None else 100 / (1 - loss / 100)

    shares = {"best_percent": of_peer(against.loss_percent), "low": of_peer(against.low), "high": of_peer(against.high)}
    return {"name": peer.name} | setting | shares


def _names(run: Json) -> advice.Names | None:
    """Return name and portal of a real target; None for a lab or several LUs."""
    site = run.get("site")
    if not site or len(site["lus"]) != 1:
        return None
    (lu,) = site["lus"]
    return advice.Names(target=lu["target_name"], portal=lu["portal"])


def _valid(tuning: Json) -> bool:
    """Return whether the rates of the defaults and of the advised setting rest on valid trials.
    Defaults whose trial failed have no rate that could mislead.
    """
    return all(setting is not None and setting["valid"] for setting in (tuning["advised"], tuning["default"]))


def findings(tuning: Json, kept: Mapping[Kept, list[str]]) -> list[Finding]:
    """Return the findings of the tuning, in sentences. `kept`: the result of `Tuning.kept`."""
    findings: list[Finding] = []

    def add(kind: str, message: str, values: Json, evidence: Json | None = None) -> None:
        texts = {language: say(language, f"tuning.{message}", _named(values, language)) for language in LANGUAGES}
        findings.append(Finding(kind, {}, texts, None, evidence or {}))

    default, best, advised = tuning["default"], tuning["best"], tuning["advised"]
    if best is None:
        add("tuning_failed", "none", {})
        return findings
    rate, default_rate = best["mb_per_s"], default["mb_per_s"]["median"]
    values = {
        "mb": rate["median"],
        "default": default_rate,
        "times": rate["median"] / default_rate if default_rate else None,
    }
    if best["settings"] == default["settings"]:
        once, often = "best.default", "best.default.of"
    elif default_rate:
        once, often = "best", "best.of"
    else:
        once, often = "best.alone", "best.alone.of"
    spread = {name: rate[name] for name in ("least", "most", "n")}
    message = once if rate["n"] == 1 else often
    add("tuning_best", message, values | spread, {"settings": best["settings"]} | spread)
    if best["reachable_percent"] is not None:
        add("tuning_reach", "reach", {"percent": best["reachable_percent"], "reachable": tuning["reachable_mb_per_s"]})
    if (peer := tuning["peer"]) is not None:
        values = {"name": peer["name"], "mb": peer["mb_per_s"]["median"], "percent": peer["best_percent"]}
        interval = {name: peer[name] for name in ("low", "high")}
        add("tuning_peer", "peer" if peer["low"] is None else "peer.interval", values | interval, values | interval)
    if tuning["ended"]:
        count = sum(t["phase"] == "search" for t in tuning["trials"])
        add("tuning_ended", f"ended.{tuning['ended']}", {"trials": count})
    for contribution in tuning["contributions"]:
        if contribution["contributes"]:
            values = {
                "knob": contribution["knob"],
                "to": contribution["to"],
                "back": contribution["from"],
                "loss": contribution["loss_percent"],
            }
            interval = {"low": contribution["low"], "high": contribution["high"]}
            message = "knob" if contribution["low"] is None else "knob.interval"
            add("tuning_knob", message, values | interval, {"knob": contribution["knob"]} | interval)
    small = [c for c in tuning["contributions"] if c["measurable"] and not c["contributes"]]
    unseen = [c for c in tuning["contributions"] if not c["measurable"]]
    for message, group in (("small", small), ("unmeasurable", unseen)):
        if group:
            add(f"tuning_{message}", message, {"intervals": group}, {"knobs": [c["knob"] for c in group]})
    idle = [k for k in best["settings"] if advised and k not in advised["settings"]]
    if idle:
        add("tuning_idle", "idle", {"knobs": idle})
    for reason, knobs in kept.items():
        add("tuning_kept", KEPT[reason], {"knobs": knobs})
    if advised and advised["confirmed"] and idle:
        add("tuning_advised", "advised", {"mb": advised["mb_per_s"]["median"]})
    return findings


def _named(values: Json, language: str) -> Json:
    """Return the values with the display names of knobs in place of their ids."""
    named = dict(values)
    if "knob" in named:
        named["knob"] = say(language, f"knob.{named['knob']}")
    if "knobs" in named:
        named["knobs"] = ", ".join(say(language, f"knob.{name}") for name in named["knobs"])
    if "intervals" in named:
        named["intervals"] = ", ".join(_interval(contribution, language) for contribution in named["intervals"])
    return named


def _interval(contribution: Json, language: str) -> str:
    """Return the display name of a knob with the interval of its loss."""
    name = say(language, f"knob.{contribution['knob']}")
    if contribution["low"] is None:
        return f"{name} ({number(contribution['loss_percent'], language)} %)"
    bounds = {"low": contribution["low"], "high": contribution["high"]}
    return f"{name} ({say(language, 'tuning.bounds', bounds)})"
