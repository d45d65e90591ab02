"""The summary of a tuning: the course of its search, what each knob is worth, the advice, and ready
text.

What is advised follows from the trials by the same pure rules by which they were chosen
(`hakaru.tune.tuning`).
"""

from __future__ import annotations

from statistics import median
from typing import Any

from hakaru.analysis.findings import Finding
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import RunData
from hakaru.tune import advice, kind
from hakaru.tune.knobs import Settings, changed, defaults_of, settle
from hakaru.tune.measure import trials_of
from hakaru.tune.setup import Setup
from hakaru.tune.tuning import Trial
from hakaru.wording import LANGUAGES, number, say

Json = dict[str, Any]


def analyse(run: RunData) -> tuple[list[Point], list[Finding], Json, bool]:
    """Points, findings, the part `tuning` of the summary, and whether what is advised rests on
    valid trials.
    """
    setup = Setup.of_json(run.run["tuning"])
    trials = trials_of(run.directory, setup)
    # Points of a tuning are what its trials made of it; one that was begun and never finished is
    # none.
    made = {t.point for t in trials}
    analysed = kind.of_run(run).points(run, [raw for raw in run.points if raw["point"] in made])
    tuning = describe(setup, trials, run.run)
    return analysed, findings(setup, tuning), tuning, _valid(setup, trials)


def describe(setup: Setup, trials: list[Trial], run: Json) -> Json:
    """The part `tuning` of the summary."""
    tuning, space = setup.tuning, setup.space
    default = settle(space, defaults_of(space))
    best = tuning.best(trials)
    advised, measured = tuning.advised(trials)
    by_name = {knob.name: knob for knob in space}
    contributions = []
    for one in tuning.contributions(trials):
        assert best is not None, "what was switched back was the best"
        knob = by_name[one.knob]
        steps = {"from": knob.shown(knob.default), "to": knob.shown(best[one.knob])}
        contributions.append(one.to_json() | steps)
    turned = [] if advised is None else [knob.name for knob in changed(space, advised)]
    text = [] if advised is None else advice.blocks(setup.conditions, advised, turned, setup.machine, _names(run))
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
        "default": _setting(setup, trials, default, ("search",)),
        "best": None if best is None else _setting(setup, trials, best, ("contribution",)),
        "contributions": contributions,
        "peer": _peer(setup, trials, best),
        "advised": None
        if advised is None
        else _setting(setup, trials, advised, ("contribution", "advice")) | {"confirmed": measured},
        "text": [{"name": b.name, "file": b.file, "text": b.text} for b in text],
    }


def _trials(setup: Setup, trials: list[Trial]) -> list[Json]:
    found, best = [], 0.0
    for order, t in enumerate(trials, start=1):
        best = max(best, (t.mb_per_s or 0.0) if t.phase == "search" else 0.0)
        found.append(
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
                "caveats": [c["caveat"] for c in t.caveats],
            }
        )
    return found


def _shown(setup: Setup, settings: Settings) -> dict[str, str]:
    return {knob.name: knob.shown(settings[knob.name]) for knob in changed(setup.space, settings)}


def _setting(setup: Setup, trials: list[Trial], settings: Settings, phases: tuple[str, ...]) -> Json:
    """A setting with what it came to in these phases; of one that was not measured there, in the
    search.

    The trial by which the search chose a setting is the luckiest of many: measurements made
    afterwards are not. They are few, and the machine may have disturbed one: the median stands for
    them, with the least and the most.
    """
    alike = [t for t in trials if t.settings == settings and t.mb_per_s is not None]
    later = [t for t in alike if t.phase in phases]
    rate = _rate([t.mb_per_s for t in (later or alike) if t.mb_per_s is not None])
    reachable = setup.reachable_mb_per_s
    share = None if reachable is None or rate["median"] is None else 100 * rate["median"] / reachable
    return {
        "settings": _shown(setup, settings),
        "mb_per_s": rate,
        "reachable_percent": share,
        "memory_bytes": setup.tuning.search.memory(settings),
    }


def _rate(values: list[float]) -> Json:
    if not values:
        return {"median": None, "least": None, "most": None, "n": 0, "unit": "MB/s"}
    return {"median": median(values), "least": min(values), "most": max(values), "n": len(values), "unit": "MB/s"}


def _peer(setup: Setup, trials: list[Trial], best: Settings | None) -> Json | None:
    """The peer, and the best in percent of it with a 95 % interval; None where there is none or it
    was not measured.
    """
    peer, against = setup.peer, setup.tuning.against_peer(trials)
    if peer is None or best is None or against is None:
        return None
    found = _setting(setup, trials, setup.tuning.of_peer(best), ("peer",))

    def of_peer(loss: float | None) -> float | None:
        return None if loss is None else 100 / (1 - loss / 100)

    shares = {"best_percent": of_peer(against.loss_percent), "low": of_peer(against.low), "high": of_peer(against.high)}
    return {"name": peer.name} | found | shares


def _names(run: Json) -> advice.Names | None:
    """Of a real target its own name and portal."""
    site = run.get("site")
    if not site or len(site["lus"]) != 1:
        return None
    (lu,) = site["lus"]
    return advice.Names(target=lu["target_name"], portal=lu["portal"])


def _valid(setup: Setup, trials: list[Trial]) -> bool:
    """Whether the trials that what is advised rests on may be used."""
    advised, _ = setup.tuning.advised(trials)
    own = [t for t in trials if t.settings == advised and t.mb_per_s is not None]
    later = [t for t in own if t.phase != "search"] or own
    return bool(later) and not all(any(c["severity"] == "invalid" for c in t.caveats) for t in later)


def findings(setup: Setup, found: Json) -> list[Finding]:
    """Findings of the tuning, in sentences."""
    findings: list[Finding] = []

    def add(kind: str, message: str, values: Json, evidence: Json | None = None) -> None:
        texts = {language: say(language, f"tuning.{message}", _named(values, language)) for language in LANGUAGES}
        findings.append(Finding(kind, {}, texts, None, evidence or {}))

    default, best, advised = found["default"], found["best"], found["advised"]
    if best is None:
        add("tuning_failed", "none", {})
        return findings
    rate, before = best["mb_per_s"], default["mb_per_s"]["median"]
    values = {"mb": rate["median"], "default": before, "times": rate["median"] / before if before else None}
    spread = {name: rate[name] for name in ("least", "most", "n")}
    add(
        "tuning_best", "best" if rate["n"] == 1 else "best.of", values | spread, {"settings": best["settings"]} | spread
    )
    if best["reachable_percent"] is not None:
        add("tuning_reach", "reach", {"percent": best["reachable_percent"], "reachable": found["reachable_mb_per_s"]})
    if (peer := found["peer"]) is not None:
        values = {"name": peer["name"], "mb": peer["mb_per_s"]["median"], "percent": peer["best_percent"]}
        interval = {name: peer[name] for name in ("low", "high")}
        add("tuning_peer", "peer" if peer["low"] is None else "peer.interval", values | interval, values | interval)
    if found["ended"]:
        count = sum(t["phase"] == "search" for t in found["trials"])
        add("tuning_ended", f"ended.{found['ended']}", {"trials": count})
    for contribution in found["contributions"]:
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
    small = [c for c in found["contributions"] if c["measurable"] and not c["contributes"]]
    unseen = [c for c in found["contributions"] if not c["measurable"]]
    for message, some in (("small", small), ("unmeasurable", unseen)):
        if some:
            add(f"tuning_{message}", message, {"intervals": some}, {"knobs": [c["knob"] for c in some]})
    idle = [k for k in best["settings"] if advised and k not in advised["settings"]]
    if idle:
        add("tuning_idle", "idle", {"knobs": idle})
    idle_alone = {c["knob"] for c in found["contributions"] if not c["contributes"]}
    kept = [k for k in (advised["settings"] if advised else {}) if k in idle_alone]
    if kept:
        add("tuning_kept", "kept", {"knobs": kept})
    if advised and advised["confirmed"] and idle:
        add("tuning_advised", "advised", {"mb": advised["mb_per_s"]["median"]})
    return findings


def _named(values: Json, language: str) -> Json:
    """Knobs by the names that people know them by."""
    named = dict(values)
    if "knob" in named:
        named["knob"] = say(language, f"knob.{named['knob']}")
    if "knobs" in named:
        named["knobs"] = ", ".join(say(language, f"knob.{name}") for name in named["knobs"])
    if "intervals" in named:
        named["intervals"] = ", ".join(_interval(one, language) for one in named["intervals"])
    return named


def _interval(one: Json, language: str) -> str:
    """A knob and the interval of its loss."""
    name = say(language, f"knob.{one['knob']}")
    if one["low"] is None:
        return f"{name} ({number(one['loss_percent'], language)} %)"
    bounds = {"low": one["low"], "high": one["high"]}
    return f"{name} ({say(language, 'tuning.bounds', bounds)})"
