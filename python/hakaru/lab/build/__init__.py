"""Building a lab: `Lab` applies a plan inside the sandbox, starts engines in nodes, and takes
everything down.
"""

from hakaru.lab.build.lab import Lab

__all__ = ["Lab"]
