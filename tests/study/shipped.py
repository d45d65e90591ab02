"""The shipped studies. Each is loaded once in a process, because checking all points of one takes
up to seconds.
"""

from __future__ import annotations

import functools

from hakaru.study import Loaded, load, study_paths


@functools.cache
def shipped(name: str) -> Loaded:
    """Return a shipped study, which all tests share: do not change it."""
    return load(name)


def with_reference() -> list[str]:
    """Return the names of the studies that have published numbers, without loading any."""
    return [name for name, path in sorted(study_paths().items()) if "\nreference:" in path.read_text()]
