"""Measurements of a lab before the load: every link, the links that points change, and plain
TCP.
"""

from hakaru.lab.check.checked_lab import CheckedLab
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.check.links import check_links

__all__ = ["CheckedLab", "LinkCheck", "check_links"]
