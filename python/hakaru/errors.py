"""The exception tree and the exit codes.

Every error a user may meet is a `HakaruError`: what happened and where (`message`), what to do
(`hint`), and the exit code of its class. Anything else that reaches `main` is a defect of ours and
ends with 1.

    HakaruError
    ├── UsageError         2  command line or study file; has a place (file:line:column)
    ├── EnvironmentError_  3  this machine or network cannot; `hakaru doctor` says more
    ├── ExpectationBreach  4  a run finished and an expectation of the study does not hold
    ├── InvalidPoints      5  a run finished, but some points are invalid
    ├── VerificationError  6  wrong, stale or torn data was read
    ├── LostError          7  an engine, guest or machine was lost
    └── Interrupted      130  stopped by the user (143 for SIGTERM); what was finished is saved
"""

from __future__ import annotations


class HakaruError(Exception):
    """An error with a message (what, where) and a hint (what to do)."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HakaruError):
    """The command line or a study file cannot be accepted."""

    exit_code = 2


class EnvironmentError_(HakaruError):
    """This machine or network cannot do what was asked."""

    exit_code = 3


class ExpectationBreach(HakaruError):
    """A run finished and an expectation of its study does not hold."""

    exit_code = 4


class InvalidPoints(HakaruError):
    """A run finished, but some of its points are invalid."""

    exit_code = 5


class VerificationError(HakaruError):
    """Wrong, stale or torn data was read."""

    exit_code = 6


class LostError(HakaruError):
    """An engine, guest or machine was lost."""

    exit_code = 7


class Interrupted(HakaruError):
    """Stopped by the user; what was finished is saved."""

    def __init__(self, message: str, hint: str = "", *, signal: int = 2) -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + signal


def error_of_exit_code(exit_code: int, message: str, hint: str) -> HakaruError:
    """The error of another process of ours, told by its exit code; one of no class of ours is a
    defect.
    """
    classes = (UsageError, EnvironmentError_, ExpectationBreach, InvalidPoints, VerificationError, LostError)
    for each in classes:
        if each.exit_code == exit_code:
            return each(message, hint)
    return HakaruError(message, hint)
