"""hakaru: a verification lab for virtualised servers on IP storage networks."""

__version__: str
"""The version of the installed package, which has it from Cargo.toml."""


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Read when it is used, because the supervisor of a sandbox imports this module without the
    # packages of the environment.
    from importlib.metadata import version

    return version("hakaru")
