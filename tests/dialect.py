"""Words that hakaru does not write for its users, with the plain English to use instead.

Shared by the tests of the catalogues and of the command line's help.
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
    r"\btakes? up\b": "starts, accepts",
    r"\b(tells?|told)\b": "reports, returns, logs",
    r"(?<!seconds )\bsince\b": "because",
    r"\b(has|have|had) not\b(?! been)": "lacks",
    r"\bgives? out\b": "is the bottleneck",
    r"\bspeaks? of\b": "reflects",
    r"\bnot so\b": "not met",
    r"\b(is|are) not to be had\b": "is not available",
    r"^(What|Whose|Whom|Which|Where that|One that|Such as)\b": "a noun or a verb",
    r"^Of (the|what|each)\b": "a noun or a verb",
    r"\bInstead of the study's\b": "Override the study's",
    r"\bchoose of\b": "choose from",
    r"\bwithout words\b": "without a message",
    r"\bsuch as (meet|were|are|have)\b": "those that",
}
"""Pattern (case is ignored, `^` is the start of a line) to what to write instead."""


def dialect_in(text: str) -> list[str]:
    """Dialect found in `text`, each with its replacement; empty if there is none."""
    return [
        f"{match[0]!r}: write {plain}"
        for pattern, plain in DIALECT.items()
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]
