"""Command-line options that select parts of a study, and the resulting study. Pure, and quick to
import for `hakaru plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.errors import UsageError
from hakaru.study import Expanded, Loaded, expand
from hakaru.study.part import level_text
from hakaru.suggest import did_you_mean, listed


@dataclass(frozen=True)
class Options:
    """Options of the command line. None: the value of the study, or of the run to resume."""

    quick: bool = False
    seed: int | None = None
    repetitions: int | None = None
    only: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the entry of run.json from which `--resume` expands the study in the same way."""
        return {
            "quick": self.quick,
            "seed": self.seed,
            "repetitions": self.repetitions,
            "only": {name: list(levels) for name, levels in self.only},
        }

    @classmethod
    def of_run(cls, run: dict[str, Any]) -> Options:
        """The options of a run that is resumed."""
        options = run["options"]
        only = tuple((name, tuple(levels)) for name, levels in options["only"].items())
        return cls(options["quick"], options["seed"], options["repetitions"], only)


def expand_options(loaded: Loaded, options: Options) -> Expanded:
    """Expand the study with `options`. Raises `UsageError` if no point is left, or the study lacks
    a level or a quick form.
    """
    if options.quick and loaded.study.quick is None:
        raise UsageError(
            f"--quick: {loaded.study.id} has no quick form",
            "leave it out, or add `quick:` to the study; --only and --repetitions shorten a run as well",
        )
    only = {name: set(levels) for name, levels in options.only}
    full = expand(loaded.study, quick=options.quick)
    for name, levels in only.items():
        # Levels and factors in the order of the study.
        known = list(dict.fromkeys(level_text(p.factors[name]) for p in full.points if name in p.factors))
        if not known:
            factors = list(dict.fromkeys(factor for p in full.points for factor in p.factors))
            hint = did_you_mean(name, factors, f"its factors are {listed(factors)}")
            raise UsageError(f"--only {name}: the study has no such factor", hint)
        unknown = levels - set(known)
        if unknown:
            raise UsageError(
                f"--only {name}={min(unknown)}: no point has this level", f"{name} has the levels {listed(known)}"
            )
    expanded = expand(loaded.study, quick=options.quick, seed=options.seed, repetitions=options.repetitions, only=only)
    if not expanded.points:
        raise UsageError("--only leaves no point", "choose levels that occur together; `hakaru plan` lists the points")
    for search in expanded.searches:
        if len(search.points) < 2:
            raise UsageError(
                f"--only leaves a single level of {search.over} to search", "keep at least two of its levels"
            )
    return expanded
