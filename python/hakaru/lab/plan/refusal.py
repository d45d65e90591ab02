"""A lab that cannot be: what, where in the `lab:` block, and what to change."""

from __future__ import annotations

from hakaru.errors import UsageError

Path_ = tuple[str | int, ...]


class ImpossibleLabError(UsageError):
    """`path` is where in the lab's block it stands, for a place in the study's file; empty: the lab
    as a whole.
    """

    def __init__(self, what: str, hint: str, path: Path_ = ()) -> None:
        super().__init__(f"this lab cannot be built: {what}", hint)
        self.path = path
