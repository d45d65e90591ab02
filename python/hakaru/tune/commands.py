"""`hakaru tune`: from its options to a setup, and from a finished tuning to the text on stdout."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from hakaru.errors import InvalidPoints, LostError, UsageError
from hakaru.units import parse_duration, parse_rate, parse_size

RTT, RATE = "20 ms", "1 Gbit/s"


def tune(
    *,
    rtt: Annotated[str | None, Parameter(help=f"Round trip. Default: {RTT}; of a real target: measured.")] = None,
    loss: Annotated[float, Parameter(help="Percent of frames lost, each way.")] = 0.0,
    rate: Annotated[
        str | None, Parameter(help=f"Of the slowest link. Default: {RATE}; a real target: unknown.")
    ] = None,
    block: Annotated[str, Parameter(help="One request.")] = "4 MiB",
    op: Annotated[Literal["write", "read"] | None, Parameter(help="Default: write, where that is allowed.")] = None,
    depth: Annotated[str, Parameter(help="Requests outstanding, or `any`: a knob.")] = "1",
    trials: Annotated[int, Parameter(help="Of the search, at most.")] = 25,
    trial_time: Annotated[str, Parameter(help="Measuring time of a trial.")] = "3 s",
    budget: Annotated[str, Parameter(help="Time for all trials; the report comes after.")] = "5 min",
    repetitions: Annotated[int, Parameter(help="Of each setting where knobs are switched back.")] = 3,
    goal: Annotated[Literal["throughput", "memory"], Parameter(help="The best, or 95 % of it with least memory.")] = (
        "throughput"
    ),
    from_: Annotated[
        str, Parameter(name="--from", help="`defaults` (open-iscsi and LIO), or STUDY[:FACTOR=LEVEL,…].")
    ] = "defaults",
    against: Annotated[
        str | None, Parameter(help="STUDY[:FACTOR=LEVEL,…]: a setting to measure beside the best.")
    ] = None,
    target: Annotated[Path | None, Parameter(help="A site file: tune in front of real equipment.")] = None,
    seed: Annotated[int, Parameter(help="Of what the search draws.")] = 1,
    out: Annotated[Path | None, Parameter(help="Folder of runs. Default: $HAKARU_RUNS, else ./runs.")] = None,
    resume: Annotated[str | None, Parameter(help="Go on with this tuning: a name, a path or `latest`.")] = None,
    json_: Annotated[bool, Parameter(name="--json", negative=(), help="Events as JSON lines on stdout.")] = False,
    quiet: Annotated[bool, Parameter(negative=(), help="No progress on stderr.")] = False,
    report: Annotated[str, Parameter(help="html, pdf; several with commas; or none.")] = "html",
) -> int:
    """Find the settings of iSCSI and TCP that carry a load best over a path, and say what to set and what it is worth.

    Ends with the best setting, what each knob contributed, and ready text for open-iscsi, LIO, tgt and Linux.
    """
    from hakaru import cli
    from hakaru.run.site import load_site
    from hakaru.store import RunReader, find_run, runs_folder

    formats, folder = cli.parse_formats(report), runs_folder(out)
    site = load_site(target) if target else None
    real = site is not None or bool(resume and RunReader(find_run(resume, folder)).read("run.json")["site"])
    if not real:
        from hakaru.lab import sandbox

        sandbox.enter()  # outside the sandbox this does not return: the same command starts again inside
    from hakaru.run.progress import watchers
    from hakaru.tune import run as tuning

    command = ["hakaru", *sys.argv[1:]]
    if resume:
        prepared, setup = tuning.prepare_resumed(resume, folder=folder, command=command)
    else:
        setup = setup_of(
            _conditions(rtt, loss, rate, block, op, depth, site),
            lab=site is None,
            start=from_,
            against=against,
            goal=goal,
            seed=seed,
            trials=_within("--trials", trials, 1, 1000),
            budget_s=_quantity("--budget", budget, parse_duration) / 1e9,
            repetitions=_within("--repetitions", repetitions, 1, 100),
            trial_ns=_within(
                "--trial-time", _quantity("--trial-time", trial_time, parse_duration), 10**9, 3600 * 10**9
            ),
        )
        prepared = tuning.prepare_new(setup, folder=folder, site=site, command=command)
    watch = watchers(json_lines=json_, quiet=quiet, colour="NO_COLOR" not in os.environ)
    try:
        directory = tuning.execute(prepared, setup, watch)
        summary, reports = cli.finish(directory, watch, formats)
    finally:
        watch.close()
    if not json_:
        from hakaru.tune.table import print_tuning

        print_tuning(summary, reports)
    return judge(summary)


def judge(summary: dict[str, Any]) -> int:
    """Raise what the numbers ask for."""
    found = summary["tuning"]
    if found["ended"] == "failed":
        failed = next((t["error"] for t in reversed(found["trials"]) if t["error"]), "")
        raise LostError(f"trial after trial failed: {failed}", "what the last one said should be put right first")
    if not summary["valid"]:
        raise InvalidPoints("what the advice rests on is invalid", "its caveats in the report say why and what to do")
    return 0


def setup_of(
    conditions: Any,
    *,
    lab: bool,
    start: str,
    against: str | None,
    goal: Literal["throughput", "memory"],
    seed: int,
    trials: int,
    budget_s: float,
    repetitions: int,
    trial_ns: int,
) -> Any:
    """The setup on this machine."""
    from hakaru.tune.knobs import space_of
    from hakaru.tune.machine import this_machine
    from hakaru.tune.setup import Setup
    from hakaru.tune.start import defaults_from, peer_from
    from hakaru.tune.tuning import Limits, Peer

    defaults = defaults_from(start)
    machine = this_machine(buffer_max=defaults.buffer_max if lab else None)
    space = space_of(conditions, defaults, machine, lab=lab)
    peer = None if against is None else Peer(against, peer_from(against, conditions, space, machine, lab=lab))
    return Setup(
        conditions=conditions,
        defaults=defaults,
        machine=machine,
        space=space,
        goal=goal,
        seed=seed,
        limits=Limits(trials=trials, budget_s=budget_s, repetitions=repetitions),
        trial_ns=trial_ns,
        start=start,
        lab=lab,
        peer=peer,
    )


def _conditions(rtt: str | None, loss: float, rate: str | None, block: str, op: Any, depth: str, site: Any) -> Any:
    from hakaru.tune.conditions import Conditions

    if site is not None and loss:
        raise UsageError("--loss: a real path loses what it loses", "leave it out beside --target")
    if site is not None:
        kept = [lu for lu in site.lus if not lu.expendable]
        op = op or ("read" if kept else "write")
    lab = site is None
    rtt_text, rate_text = rtt or (RTT if lab else None), rate or (RATE if lab else None)
    conditions = Conditions(
        rtt_ns=None if rtt_text is None else _quantity("--rtt", rtt_text, parse_duration),
        loss_percent=loss,
        rate_bits_per_s=None if rate_text is None else _quantity("--rate", rate_text, parse_rate),
        block_bytes=_quantity("--block", block, parse_size),
        op=op or "write",
        depth=None if depth == "any" else _depth(depth),
    )
    conditions.check()
    return conditions


def _depth(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"--depth {text}", "a number, or `any`")
    return int(text)


def _quantity(option: str, text: str, parse: Any) -> int:
    try:
        return int(parse(text))
    except ValueError as e:
        raise UsageError(f"{option}: {e}") from e


def _within(option: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise UsageError(f"{option} {value}", f"choose {low} to {high}")
    return value
