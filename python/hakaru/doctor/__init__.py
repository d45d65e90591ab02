"""`hakaru doctor`: checks whether this machine can run labs. `diagnose() -> list[Finding]` runs all
checks in about three seconds, `check_load_hosts(site)` those of a site's load hosts.
"""

from hakaru.doctor.checks import diagnose
from hakaru.doctor.finding import Finding
from hakaru.doctor.load_hosts import check_load_hosts

__all__ = ["Finding", "check_load_hosts", "diagnose"]
