"""hakaru: a verification lab for virtualised servers on IP storage networks."""

__version__ = "0.1.0"
