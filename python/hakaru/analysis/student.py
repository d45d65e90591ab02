"""Student's t distribution. Pure.

From `scipy.special`, because `scipy.stats` takes a second to import. Imported with the first use,
so that commands that analyse nothing start without it.
"""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=1024)
def quantile(probability: float, freedom: float) -> float:
    """Value that is exceeded with the probability 1 - `probability`. `freedom`: degrees of freedom,
    above 0.
    """
    from scipy import special

    return float(special.stdtrit(freedom, probability))


def upper_tail(value: float, freedom: float) -> float:
    """Probability of more than `value`."""
    from scipy import special

    return float(special.stdtr(freedom, -value))
