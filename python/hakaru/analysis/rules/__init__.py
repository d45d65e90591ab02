"""One engine that names the bottleneck of a point, for every kind of study.

    counters ── passes ──> Evidence ── judge(stages, evidence) ──> Verdict
        Verdict ── rule.words ──> sentences

A *rule* (`Rule`) is one possible bottleneck: its name, what has to hold, and its sentence. It is
one module of this package with two entries in each catalogue, `limiter.NAME` (the noun) and
`because.NAME` (the sentence). A kind of study lists its rules in *stages* (`kinds/*/rules.py`); the
first stage of which a rule holds decides, and within a stage the resource that is closest to full.
The verdicts that a study may expect follow from the rules of its kind (`verdicts_of`). The table in
docs/methodology/limiter.md is generated from them (`tools/rules.py`), and a test holds them
together.
"""

from hakaru.analysis.rules.evidence import Evidence, Flow, Port
from hakaru.analysis.rules.judge import Stages, all_holding, judge, verdicts_of, words
from hakaru.analysis.rules.limits import TEST_SETUP, fill_of, limit_of
from hakaru.analysis.rules.rule import UNDETERMINED, Rule, Verdict

__all__ = [
    "TEST_SETUP",
    "UNDETERMINED",
    "Evidence",
    "Flow",
    "Port",
    "Rule",
    "Stages",
    "Verdict",
    "all_holding",
    "fill_of",
    "judge",
    "limit_of",
    "verdicts_of",
    "words",
]
