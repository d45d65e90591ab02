"""Commands that watch runs: `attach`, `web`, and the view of `run --live`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from hakaru.cli.options import RunsFolder
from hakaru.errors import UsageError
from hakaru.extras import extra

if TYPE_CHECKING:
    from hakaru.run.progress import Watcher

ATTACH_EXAMPLES = "Examples: hakaru attach; hakaru attach vm-sweep-20260101-120000-ab12 --plain"

WEB_EXAMPLES = "Examples: hakaru web; hakaru web --port 0 --out runs/scorecard; hakaru web --metrics"
WEB_PORT = 9270

Language = Annotated[
    Literal["en", "ja"] | None, Parameter(name="--lang", help="Language: en, ja. Default: that of the locale.")
]


def attach(
    run: Annotated[
        str | None, Parameter(name="RUN", help="The run's name or its path. Default: the newest one in progress.")
    ] = None,
    /,
    *,
    out: RunsFolder = None,
    plain: Annotated[
        bool, Parameter(help="Print plain lines, as if stdout were not a terminal, instead of the full screen.")
    ] = False,
    json_: Annotated[bool, Parameter(name="--json", help="Print the events of the run as JSON lines.")] = False,
    lang: Language = None,
) -> int:
    """Watch a run in progress. `q` and Ctrl-C end only the view. The run does not notice it."""
    from hakaru.live.attach import attach as watch
    from hakaru.live.feed import find_live
    from hakaru.store import runs_folder
    from hakaru.wording import language_of_locale

    return watch(
        find_live(run, runs_folder(out)),
        json_lines=json_,
        plain=plain or not (sys.stdout.isatty() and sys.stdin.isatty()),
        language=lang or language_of_locale(),
    )


def web(
    *,
    out: RunsFolder = None,
    port: Annotated[
        int,
        Parameter(
            metavar="N", validator=validators.Number(gte=0, lte=65535), help="Port on loopback; 0: any free one."
        ),
    ] = WEB_PORT,
    metrics: Annotated[
        bool, Parameter(help="Serve /metrics of the run in progress for Prometheus, to every program of this machine.")
    ] = False,
    lang: Language = None,
) -> int:
    """Show the run in progress, all runs, their reports and comparisons in a browser of this
    machine. Prints the address to open. Ends with Ctrl-C.
    """
    with extra("web"):
        from hakaru.web.server import serve
    from hakaru.store import runs_folder
    from hakaru.wording import language_of_locale

    return serve(runs_folder(out), port, lang or language_of_locale(), metrics=metrics)


def check_terminal(*, alone: bool) -> None:
    """Raise UsageError if the full-screen view of `run --live` is not possible. `alone`: no option
    asks for another form of progress.
    """
    if not alone:
        raise UsageError("--live cannot be used with --json or --quiet", "`hakaru attach` shows the same view")
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("--live needs a terminal", "leave it out; `hakaru attach` shows the run from another terminal")


def full_screen() -> Watcher:
    """The view of `run --live`. Raises EnvironmentError_ without the extra `live`."""
    from hakaru.live.beside import Beside
    from hakaru.wording import language_of_locale

    return Beside(language_of_locale())
