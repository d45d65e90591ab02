"""`hakaru doctor`: checks whether this machine can run labs. `diagnose() -> list[Finding]` runs all
checks in about three seconds.
"""

from hakaru.doctor.checks import Finding, diagnose

__all__ = ["Finding", "diagnose"]
