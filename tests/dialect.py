"""Words that texts of hakaru avoid, with their replacements in plain English.

The tests of the catalogues and of the help texts use them.
"""

from __future__ import annotations

import re

DIALECT = {
    r"\bnobody\b": "no user, no process",
    r"\bwhoever\b": "the user, the caller",
    r"\bin vain\b": "without success",
    r"\bof late\b": "recently",
    r"\blets? go\b": "releases, discards",
    r"\bgo(es)? on\b": "continues",
    r"\btakes? up\b(?! to\b)": "starts, accepts",
    r"\b(tells?|told)\b": "reports, returns, logs",
    r"(?<!seconds )\bsince\b": "because",
    r"\b(has|have|had) not(?=[.,;:)]|$| (a|an|the|any|this|one)\b)": "lacks",
    r"\bgives? out\b": "is the bottleneck",
    r"\bspeaks? of\b": "reflects",
    r"\bnot so\b": "not met",
    r"\b(is|are) not to be had\b": "is not available",
    r"^(What|Whose|Whom|Which|Where that|One that|Such as)\b": "a noun or a verb",
    r"^Of (the|what|each)\b": "a noun or a verb",
    r"^Instead of the study's\b": "Override the study's",
    r"\bchoose of\b": "choose from",
    r"\bwithout words\b": "without a message",
    r"\bsuch as (meet|were|are|have)\b": "those that",
}
"""Pattern (case is ignored, `^` is the start of a line) → replacement."""


def dialect_in(text: str) -> list[str]:
    """Return the avoided words in `text`, each with its replacement."""
    return [
        f"{match[0]!r}: write {plain}"
        for pattern, plain in DIALECT.items()
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]
