"""Rules that determine the bottleneck of a point, for every kind of study.

    counters ── passes ──> Evidence ── judge(stages, evidence) ──> Verdict
        Verdict ── rule.words ──> sentences

A *rule* (`Rule`) is one possible bottleneck: its name, its condition and its sentence. Each rule
has two entries in each catalogue, `limiter.NAME` (the noun) and `because.NAME` (the sentence). A
kind of study lists its rules in *stages* (`kinds/*/rules.py`). The first stage in which a rule
holds decides. Within a stage, the rule whose resource is closest to full decides. The verdicts that
a study may expect follow from the rules of its kind (`verdicts_of`). `tools/rules.py` generates the
table in docs/methodology/limiter.md from the rules, and a test checks that it is up to date.
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
