"""Differences between chains: each level of a factor compared with the first one, by repetitions.
Pure.

The statistics are those of `hakaru compare` (`hakaru.analysis.comparison`): an interval of the
ratio of two means, and p-values corrected for their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import direction, sentences
from hakaru.analysis.comparison import rows
from hakaru.analysis.comparison.rows import SIGNIFICANCE, Row
from hakaru.analysis.findings import Finding
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis.points import FilesPoint
from hakaru.wording import LANGUAGES, number, say


@dataclass(frozen=True)
class Pair:
    """Two points whose chains differ, and nothing else."""

    factor: str
    before: FilesPoint
    after: FilesPoint

    @property
    def where(self) -> dict[str, Any]:
        """The levels that both have."""
        return {name: level for name, level in self.before.factors.items() if name != self.factor}


def pairs_of(points: Sequence[FilesPoint]) -> list[Pair]:
    """Return each point with a chain, compared with the first one that differs in a single factor
    which changes only the chain: neither the rest of the load nor the lab.
    """
    found: dict[tuple[str, str], Pair] = {}
    for place, after in enumerate(points):
        for before in points[:place]:
            factor = only_difference(before, after)
            if factor is not None and _differ_in_chain(before, after):
                found.setdefault((factor, after.id), Pair(factor, before, after))
    # A later level is compared with the first one, which has no pair as `after` itself.
    return list(found.values())


def only_difference(before: FilesPoint, after: FilesPoint) -> str | None:
    """Return the single factor in which two points differ; None if there is not exactly one."""
    if before.factors.keys() != after.factors.keys():
        return None
    changed = [name for name, level in after.factors.items() if level != before.factors[name]]
    return changed[0] if len(changed) == 1 else None


def _differ_in_chain(before: FilesPoint, after: FilesPoint) -> bool:
    one, other = before.load, after.load
    if one.to.chain is None or other.to.chain is None or one.to.chain == other.to.chain:
        return False
    same = one.model_copy(update={"to": one.to.model_copy(update={"chain": other.to.chain})})
    # A level may also change the guest, the network or the array.
    return same == other and before.study.model_copy(update={"load": other}) == after.study


def findings(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """Return a finding about each pair: the differences of its metrics, and whether they are
    significant.
    """
    pairs = pairs_of(points)
    compared = [_rows(pair) for pair in pairs]
    judged = iter(rows.judge([row for each in compared for row in each]))
    of_pairs = [[next(judged) for _ in each] for each in compared]
    tests = sum(row.difference is not None for each in of_pairs for row in each)
    return [_finding(pair, each, tests, several) for pair, each in zip(pairs, of_pairs, strict=True) if each]


def _rows(pair: Pair) -> list[Row]:
    whole = [name for name in names.WHOLE if names.latency(name, "p50") in pair.before.metrics]
    metrics = (names.RATE, names.BUILD, *(names.latency(name, "p50") for name in whole))
    return rows.rows([(pair.before.to_json(), pair.after.to_json())], direction.better, metrics)


def _finding(pair: Pair, judged: Sequence[Row], tests: int, several: bool) -> Finding:
    text = {}
    for language in LANGUAGES:
        level, base = (
            sentences.series({pair.factor: point.factors[pair.factor]}, language) for point in (pair.after, pair.before)
        )
        parts = [say(language, "files.difference", {"level": level, "base": base})]
        parts += [part for row in judged for part in words(language, row, tests)]
        own = sentences.sentences(language, *parts)
        text[language] = sentences.in_series(language, pair.where, own, several)
    evidence = {"factor": pair.factor, "rows": [row.to_json() for row in judged], "tests": tests}
    return Finding("difference", pair.where, text, None, evidence)


def words(language: str, row: Row, tests: int) -> Iterator[str]:
    """Yield the sentence about a metric: its change with its interval, and whether it is
    significant.
    """
    metric = sentences.metric(language, row.metric)
    found = row.difference
    if found is None or row.p_corrected is None:
        yield say(language, f"files.difference.{row.reason or 'few_repetitions'}", {"metric": metric})
        return
    percent = found.test == "welch_log"

    def shown(value: float) -> str:
        return sentences.signed(language, value) if percent else number(value, language)

    values = {
        "metric": metric,
        "change": shown(found.change),
        "low": shown(found.low),
        "high": shown(found.high),
        "first": row.n[0],
        "second": row.n[1],
        "p": number(row.p_corrected, language),
        "tests": tests,
    }
    verdict = "significant" if row.p_corrected < SIGNIFICANCE else "not_significant"
    yield say(language, f"files.difference.{verdict}", values)
