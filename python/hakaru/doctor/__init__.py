"""`hakaru doctor`: checks whether this machine can run labs. `diagnose() -> list[Finding]` runs all
checks in about three seconds.
"""

from hakaru.doctor.checks import diagnose
from hakaru.doctor.finding import Finding

__all__ = ["Finding", "diagnose"]
