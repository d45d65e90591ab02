"""A rule book: what practitioners accept of disks, each rule with its source.

    counters ── gauges.of_repetition ──> gauges ── judge(book, gauges) ──> Judgement of each rule

The rules are in `book.yaml`. A rule is added there, with its texts in the catalogues. Rules do not
determine the bottleneck (`hakaru.analysis.rules` does, from how devices work); a rule of thumb may
also be overridden by another one, and the report shows both.
"""

from hakaru.analysis.rule_book.book import BOOK, BookRule
from hakaru.analysis.rule_book.gauges import GaugeValues, of_repetition
from hakaru.analysis.rule_book.judge import Judgement, judge

__all__ = ["BOOK", "BookRule", "GaugeValues", "Judgement", "judge", "of_repetition"]
