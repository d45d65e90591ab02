"""Imports the reference library quickly."""

from __future__ import annotations

import functools
import inspect
from unittest.mock import patch

# Each field of its classes calls `inspect.stack`, which would read the source of each caller in
# pytest: 6 s in every worker process.
with patch("inspect.stack", functools.partial(inspect.stack, context=0)):
    import MLRsearch  # noqa: F401
