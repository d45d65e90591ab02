"""The command `compare`: conditions and differences of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from hakaru.cli.options import Json, RunsFolder
from hakaru.errors import ExpectationBreach, InvalidPoints, UnjudgedError, UsageError
from hakaru.output import print_json

if TYPE_CHECKING:
    from hakaru.analysis.comparison.rows import Row
    from hakaru.analysis.comparison.runs import Compared

EXAMPLES = """\
Examples: hakaru compare vm-sweep-20260101-120000-ab12 latest;
hakaru compare latest --against runs/baseline --worse-than '5 %';
hakaru compare RUN1 RUN2 --metric iops --metric latency_ms_p99 --json"""


def parse_percent(_: Any, tokens: Sequence[Token]) -> float:
    """`5 %`, `5%` or `5` → 5.0. Raises UsageError for other text and values not in 0 to 1000."""
    token = tokens[-1]
    try:
        value = float(token.value.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise UsageError(f"{token.keyword}: {token.value!r} is not a share in percent", "for example '5 %'")
    return value


def compare(
    *runs: Annotated[
        str, Parameter(name="RUN", help="Names or paths of runs, or `latest`. The first is the baseline.")
    ],
    against: Annotated[
        str | None,
        Parameter(metavar="RUN", help="The baseline. Each RUN is compared with it, so one RUN is enough."),
    ] = None,
    worse_than: Annotated[
        float | None,
        Parameter(
            converter=parse_percent,
            n_tokens=1,
            metavar="PERCENT",
            help="End with exit code 4 if a metric is worse by more than this.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        Parameter(help="With --worse-than: end with exit code 8 if a difference of that size cannot be excluded."),
    ] = False,
    metric: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=False,
            metavar="NAME",
            help="Compare only this metric. Repeat the option for further metrics.",
        ),
    ] = (),
    same_within: Annotated[
        float,
        Parameter(
            converter=parse_percent,
            n_tokens=1,
            metavar="PERCENT",
            help="Treat smaller differences as equal.",
        ),
    ] = 2.0,
    all_: Annotated[
        bool, Parameter(name="--all", help="Show every comparison, not only differences and chief metrics.")
    ] = (False),
    figure: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            help="Draw the runs in one figure (.svg, .png): the metric of --metric, or the first chief one.",
        ),
    ] = None,
    lang: Annotated[
        Literal["en", "ja"] | None, Parameter(name="--lang", help="Language: en, ja. Default: that of the locale.")
    ] = None,
    out: RunsFolder = None,
    json_: Json = False,
) -> int:
    """Compare runs: the conditions that differ, then the difference of each metric at each common
    point, with its confidence interval and a verdict.
    """
    if len(runs) < (1 if against else 2):
        given = "no run is named" if not runs else f"{runs[0]} is compared with nothing"
        raise UsageError(given, "name two runs: `hakaru compare A B`, or `hakaru compare A --against B`")
    if strict and worse_than is None:
        raise UsageError("--strict needs a limit", "add --worse-than, for example --worse-than '5 %'")
    from hakaru.analysis.comparison.runs import compare as compare_runs
    from hakaru.store import find_run, runs_folder
    from hakaru.wording import language_of_locale

    named = (against, *runs) if against else runs
    directories = [find_run(name, runs_folder(out), measured=True) for name in named]
    for name, directory in zip(named[1:], directories[1:], strict=True):
        if directory.resolve() == directories[0].resolve():
            raise UsageError(f"{name} is the baseline itself", "name another run; `hakaru runs` lists them")
    compared = compare_runs(directories[0], directories[1:], metric, same_within)
    if json_:
        print_json({"same_within_percent": same_within, "comparisons": [each.to_json() for each in compared]})
    else:
        from hakaru.report.comparison import print_comparison

        for each in compared:
            print_comparison(each, lang or language_of_locale(), all_rows=all_)
    if figure is not None:
        from hakaru.report.overlay import draw, overlays

        draw(overlays(compared, lang or language_of_locale(), metric[:1]), metric[0] if metric else "", figure)
    if worse_than is not None:
        judge(compared, worse_than, strict=strict)
    return 0


def judge(compared: Sequence[Compared], worse_than: float, *, strict: bool) -> None:
    """Raise ExpectationBreach if a metric is worse by more than `worse_than` percent, and
    InvalidPoints or UnjudgedError if no difference can be judged.

    With `strict`, raise UnjudgedError if the interval of a metric reaches beyond that limit, and if
    a metric or a point of the baseline cannot be judged.
    """
    rows = [row for each in compared for row in each.rows]
    worse = [row for row in rows if row.is_worse_by(worse_than)]
    if worse:
        message = f"worse by more than {worse_than:g} %: {_listed(worse)}"
        raise ExpectationBreach(message, "the table shows both values and the conditions that differ")
    if not any(row.difference is not None for row in rows):
        if any(row.reason == "invalid" for row in rows):
            raise InvalidPoints(
                "nothing can be compared: the common points are invalid in one of the runs",
                "`hakaru report RUN` shows their caveats, which give the reasons and remedies",
            )
        raise UnjudgedError(
            "nothing can be compared: each run needs at least 2 repetitions of a common point",
            "run the study with --repetitions 3 or more",
        )
    if not strict:
        return
    if open_ := [row for row in rows if row.difference is not None and row.may_be_worse_by(worse_than)]:
        raise UnjudgedError(
            f"may be worse by more than {worse_than:g} %: {_listed(open_)}",
            "more repetitions make the confidence intervals narrower",
        )
    unjudged = sum(row.difference is None and row.may_be_worse_by(worse_than) for row in rows)
    missing = sum(len(each.only_before) for each in compared)
    if unjudged or missing:
        raise UnjudgedError(
            f"{unjudged} metrics of common points cannot be judged, and {missing} points exist only in the baseline",
            "the table shows the reasons; measure the same points with at least 2 repetitions",
        )


def _listed(rows: Sequence[Row]) -> str:
    from hakaru.report.comparison import change
    from hakaru.suggest import listed

    return listed([f"{row.metric} at {_point(row)} {change(row, 'en')}" for row in rows])


def _point(row: Row) -> str:
    if row.factors is None:
        return f"all {row.points} points"
    return ", ".join(f"{name} {level}" for name, level in row.factors.items())
