"""`hakaru tune`: turns its options into a setup, and prints the result of the tuning."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token, validators

from hakaru.cli.finish import finish
from hakaru.cli.options import SEED, JsonLines, Quiet, Reports, RunsFolder, duration, size

# The field `rate` of `PathAndLoad` would hide a function of that name from its own annotation.
from hakaru.cli.options import rate as rate_option
from hakaru.errors import InvalidPoints, LostError, UsageError

EXAMPLES = "Examples: hakaru tune --rtt '20 ms' --rate '1 Gbit/s'; hakaru tune --target ./site.yaml --op read"

MS, S, MIN = 10**6, 10**9, 60 * 10**9
RTT_NS, RATE_BITS_PER_S = 20 * MS, 10**9
"""Defaults of a lab's path."""

_PATH = Group("Path and load", sort_key=1)
_SEARCH = Group("Search", sort_key=2)


def parse_depth(_: Any, tokens: Sequence[Token]) -> int | Literal["any"]:
    """`--depth 8` → `8`, `--depth any` → `any`. Raises UsageError for any other text;
    `Conditions.check` holds the bounds.
    """
    text = tokens[-1].value
    if text == "any":
        return "any"
    try:
        return int(text)
    except ValueError:
        from hakaru.tune.conditions import DEPTH_MAX

        hint = f"write a whole number from 1 to {DEPTH_MAX}, or `any`"
        raise UsageError(f"--depth: {text!r} is not a number of requests", hint) from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PathAndLoad:
    """Options for the path and the load to tune for. None: not given."""

    rtt: Annotated[
        int | None,
        duration(at_most=10 * S),
        Parameter(group=_PATH, help="Round-trip time of the path. Default: 20 ms; for real equipment: measured."),
    ] = None
    loss: Annotated[
        float,
        Parameter(
            group=_PATH,
            metavar="PERCENT",
            validator=validators.Number(gte=0, lt=100),
            help="Share of frames lost in each direction, in percent.",
        ),
    ] = 0.0
    rate: Annotated[
        int | None,
        rate_option(at_least=1),
        Parameter(group=_PATH, help="Rate of the slowest link. Default: 1 Gbit/s; for real equipment: unknown."),
    ] = None
    block: Annotated[
        int,
        size(at_least=4096, at_most=16 << 20),
        Parameter(group=_PATH, help="Request size, a multiple of 4 KiB up to 16 MiB."),
    ] = 4 << 20
    op: Annotated[
        Literal["write", "read"] | None,
        Parameter(group=_PATH, help="Direction of the load. Default: write, if the LU may be written."),
    ] = None
    depth: Annotated[
        int | Literal["any"],
        Parameter(
            group=_PATH,
            converter=parse_depth,
            n_tokens=1,
            metavar="N|any",
            show_choices=False,
            help="Requests in flight. `any`: the search chooses the number.",
        ),
    ] = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Search:
    """Options of the search."""

    trials: Annotated[
        int,
        Parameter(
            group=_SEARCH,
            metavar="N",
            validator=validators.Number(gte=1, lte=1000),
            help="Maximum number of search trials.",
        ),
    ] = 25
    trial_time: Annotated[
        int,
        duration(at_least=S, at_most=60 * MIN),
        Parameter(group=_SEARCH, help="Measuring time of a trial."),
    ] = 3 * S
    budget: Annotated[
        int,
        duration(),
        Parameter(group=_SEARCH, help="Time for all trials, without the report."),
    ] = 5 * MIN
    repetitions: Annotated[
        int,
        Parameter(
            group=_SEARCH,
            metavar="N",
            validator=validators.Number(gte=1, lte=100),
            help="Repetitions per setting when measuring the contribution of each knob.",
        ),
    ] = 3
    goal: Annotated[
        Literal["throughput", "memory"],
        Parameter(
            group=_SEARCH, help="Search for the highest throughput, or for 95 % of it with the least buffer memory."
        ),
    ] = "throughput"
    from_: Annotated[
        str,
        Parameter(
            name="--from",
            group=_SEARCH,
            metavar="START",
            help="Start from `defaults` (of open-iscsi and LIO) or from a study's point, STUDY[:FACTOR=LEVEL,…].",
        ),
    ] = "defaults"
    against: Annotated[
        str | None,
        Parameter(
            group=_SEARCH,
            metavar="STUDY",
            help="Compare the best settings with a study's point, STUDY[:FACTOR=LEVEL,…].",
        ),
    ] = None
    seed: Annotated[int, Parameter(group=_SEARCH, metavar="N", validator=SEED, help="Random seed of the search.")] = 1


def tune(
    *,
    path: PathAndLoad = PathAndLoad(),
    search: Search = Search(),
    target: Annotated[
        Path | None, Parameter(metavar="FILE", help="Tune for the equipment in this site file instead of a lab.")
    ] = None,
    out: RunsFolder = None,
    resume: Annotated[
        str | None, Parameter(metavar="RUN", help="Continue an interrupted tuning: its name, its path, or `latest`.")
    ] = None,
    json_: JsonLines = False,
    quiet: Quiet = False,
    report: Reports = ("html",),
) -> int:
    """Find the best iSCSI and TCP settings for a load on a path, and show what each setting
    contributes.

    Prints the best settings, the contribution of each knob, and configuration text for open-iscsi,
    LIO, tgt and Linux.
    """
    from hakaru.report import check_packages
    from hakaru.run.site_file import load_site
    from hakaru.store import RunReader, find_run, runs_folder

    check_packages(report)
    folder = runs_folder(out)
    if resume and (target is not None or path != PathAndLoad() or search != Search()):
        raise UsageError(
            "a resumed tuning has the path, the load, the search and the target that it began with",
            "leave the other options out when you use --resume",
        )
    site = load_site(target) if target else None
    real = site is not None or bool(resume and RunReader(find_run(resume, folder)).read("run.json")["site"])
    if not real:
        from hakaru.lab import sandbox

        sandbox.enter()  # outside the sandbox this does not return: the command is restarted inside
    from hakaru.run.progress import watchers
    from hakaru.tune import run as tuning

    command = ["hakaru", *sys.argv[1:]]
    if resume:
        prepared, setup = tuning.prepare_resumed(resume, folder=folder, command=command)
    else:
        setup = setup_of(conditions_of(path, site), search, lab=site is None)
        prepared = tuning.prepare_new(setup, folder=folder, site=site, command=command)
    watch = watchers(json_lines=json_, quiet=quiet, colour="NO_COLOR" not in os.environ)
    try:
        directory = tuning.execute(prepared, setup, watch)
        summary, reports = finish(directory, watch, report)
    finally:
        watch.close()
    if not json_:
        from hakaru.tune.table import print_tuning
        from hakaru.wording import language_of_locale

        print_tuning(summary, reports, language_of_locale())
    return judge(summary)


def judge(summary: dict[str, Any]) -> int:
    """Return the exit code. Raises LostError or InvalidPoints for a tuning without valid trials for
    its advice.
    """
    from hakaru.tune.tuning import FAILURES_MAX

    trials = summary["tuning"]["trials"]
    error = next((trial["error"] for trial in reversed(trials) if trial["error"]), "")
    hint = "correct the cause of the last failure, then resume"
    if len(trials) >= FAILURES_MAX and all(trial["mb_per_s"] is None for trial in trials[-FAILURES_MAX:]):
        raise LostError(f"several trials in a row failed: {error}", hint)
    if error and all(trial["mb_per_s"] is None for trial in trials):
        raise LostError(f"no trial has a result: {error}", hint)
    if not summary["valid"]:
        hint = "the caveats in the report give the reasons and remedies"
        raise InvalidPoints("the trials on which the advice is based are invalid", hint)
    return 0


def setup_of(conditions: Any, search: Search, *, lab: bool) -> Any:
    """The setup of a tuning on this machine."""
    from hakaru.tune.knobs import space_of
    from hakaru.tune.machine import this_machine
    from hakaru.tune.setup import Setup
    from hakaru.tune.start import buffer_limit, defaults_from, peer_from
    from hakaru.tune.tuning import Limits, Peer

    defaults = defaults_from(search.from_)
    machine = this_machine(buffer_max=buffer_limit(defaults) if lab else None)
    space = space_of(conditions, defaults, machine, lab=lab)
    peer = None
    if search.against is not None:
        peer = Peer(search.against, peer_from(search.against, conditions, space, machine, lab=lab))
    return Setup(
        conditions=conditions,
        defaults=defaults,
        machine=machine,
        space=space,
        goal=search.goal,
        seed=search.seed,
        limits=Limits(trials=search.trials, budget_s=search.budget / S, repetitions=search.repetitions),
        trial_ns=search.trial_time,
        start=search.from_,
        lab=lab,
        peer=peer,
    )


def conditions_of(path: PathAndLoad, site: Any) -> Any:
    """Path and load of a tuning, in a lab or (`site`) with real equipment. Raises UsageError."""
    from hakaru.tune.conditions import Conditions

    rtt_ns, rate_bits_per_s, op = path.rtt, path.rate, path.op
    if site is None:
        rtt_ns = RTT_NS if rtt_ns is None else rtt_ns
        rate_bits_per_s = RATE_BITS_PER_S if rate_bits_per_s is None else rate_bits_per_s
    elif path.loss:
        raise UsageError("--loss: the loss of a real path cannot be chosen", "leave it out when you use --target")
    elif op is None:
        if not site.lus:
            raise UsageError(f"site {site.name!r} has no `lus`", "name an LU to tune for")
        op = "write" if all(lu.expendable for lu in site.lus) else "read"
    conditions = Conditions(
        rtt_ns=rtt_ns,
        loss_percent=path.loss,
        rate_bits_per_s=rate_bits_per_s,
        block_bytes=path.block,
        op=op or "write",
        depth=None if path.depth == "any" else path.depth,
    )
    conditions.check()
    return conditions
