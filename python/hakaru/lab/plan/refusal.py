"""Error of a lab that cannot be built: the reason, its place in the `lab:` block, and a remedy."""

from __future__ import annotations

from hakaru.errors import UsageError

Path_ = tuple[str | int, ...]


class ImpossibleLabError(UsageError):
    """A lab that cannot be built. `path` is the place of the reason in the `lab:` block; empty for
    the entire lab.
    """

    def __init__(self, reason: str, hint: str, path: Path_ = ()) -> None:
        super().__init__(f"this lab cannot be built: {reason}", hint)
        self.path = path
