"""hakaru: a verification lab for virtualised servers on IP storage networks."""

from importlib.metadata import version

__version__ = version("hakaru")
"""The version of the installed package, which has it from Cargo.toml."""
