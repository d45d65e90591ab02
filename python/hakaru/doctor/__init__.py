"""`hakaru doctor`: can this machine run a lab? `diagnose() -> list[Finding]`, every check in about
three seconds.
"""

from hakaru.doctor.checks import Finding, diagnose

__all__ = ["Finding", "diagnose"]
