"""Table by suite, with the verdicts of all configurations merged, and the reasons of failed and
skipped tests.
"""

from __future__ import annotations

from collections import Counter

from tests.conformance.configurations import Results
from tests.conformance.suites import Kind, Verdict


def merge(verdicts: dict[str, Verdict]) -> Verdict:
    """Return the verdict of a test over all configurations: failed if it failed in one, else passed
    if it passed in one, else skipped.
    """
    for kind in (Kind.FAILED, Kind.PASSED, Kind.SKIPPED):
        for configuration, verdict in verdicts.items():
            if verdict.kind is kind:
                return verdict if kind is Kind.PASSED else Verdict(kind, f"{configuration}: {verdict.why}")
    return Verdict(Kind.FAILED, "the test was not run")


def render(results: Results) -> tuple[str, bool]:
    """Return the table, and whether every test passed."""
    merged = {test: merge(verdicts) for test, verdicts in results.items()}
    suites: dict[str, Counter[Kind]] = {}
    for (suite, _), verdict in merged.items():
        suites.setdefault(suite, Counter())[verdict.kind] += 1
    total = Counter(verdict.kind for verdict in merged.values())
    lines = [f"{'suite':24} {'tests':>5} {'passed':>6} {'skipped':>7} {'failed':>6}"]
    lines += [_line(suite, kinds) for suite, kinds in suites.items()]
    lines.append(_line(f"{len(suites)} suites", total))
    for (suite, test), verdict in merged.items():
        if verdict.kind is not Kind.PASSED:
            lines.append(f"{verdict.kind.value}: {suite}.{test}: {verdict.why}")
    return "\n".join(lines), total[Kind.PASSED] == len(merged)


def _line(name: str, kinds: Counter[Kind]) -> str:
    passed, skipped, failed = kinds[Kind.PASSED], kinds[Kind.SKIPPED], kinds[Kind.FAILED]
    return f"{name:24} {kinds.total():5} {passed:6} {skipped or '':>7} {failed or '':>6}"
