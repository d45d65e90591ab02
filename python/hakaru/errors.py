"""The exception tree and the exit codes.

Every error shown to a user is a `HakaruError`: what happened and where (`message`), what to do
(`hint`), and the exit code of its class. Any other exception that reaches `main` is a defect of
hakaru and ends with exit code 1.

    HakaruError
    ├── UsageError         2  bad command line or study file; names the place (file:line:column)
    ├── EnvironmentError_  3  not possible on this machine or network; see `hakaru doctor`
    │   └── DeviceError    3  … for the device of one point; a run continues with the other points
    │       └── GuestError 3  … for the guest that the load of one point runs in
    ├── ExpectationBreach  4  the run finished, but an expectation of the study does not hold
    ├── InvalidPoints      5  the run finished, but some points are invalid
    ├── VerificationError  6  wrong, stale or torn data was read
    ├── LostError          7  an engine, guest or machine was lost
    │   └── UnansweredError 7 … storage did not answer in time; a run continues
    ├── UnjudgedError      8  an expectation or a difference cannot be judged
    └── Interrupted      130  stopped by the user (143 for SIGTERM); finished results are saved
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
    """The command line or a study file is invalid."""

    exit_code = 2


class EnvironmentError_(HakaruError):
    """This machine or network does not support the requested operation."""

    exit_code = 3


class DeviceError(EnvironmentError_):
    """The device under test of one point cannot be built here or was lost. The points of other
    devices can still be measured.
    """


class GuestError(DeviceError):
    """The guest that the load of one point runs in cannot be booted here, or was lost, or cannot
    log in. Other points can still be measured.
    """


class ExpectationBreach(HakaruError):
    """The run finished, but an expectation of its study does not hold."""

    exit_code = 4


class InvalidPoints(HakaruError):
    """The run finished, but some of its points are invalid."""

    exit_code = 5


class VerificationError(HakaruError):
    """Wrong, stale or torn data was read."""

    exit_code = 6


class LostError(HakaruError):
    """An engine, guest or machine was lost."""

    exit_code = 7


class UnansweredError(LostError):
    """An array or a file server did not answer a command, request, login or ping in time. It may
    answer again, so a run continues with other repetitions.
    """


class UnjudgedError(HakaruError):
    """An expectation or a difference that the command should judge cannot be judged."""

    exit_code = 8


class Interrupted(HakaruError):
    """The user stopped the command; finished results are saved."""

    def __init__(self, message: str, hint: str = "", *, signal: int = 2) -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + signal


def error_of_exit_code(exit_code: int, message: str, hint: str) -> HakaruError:
    """Return the error that corresponds to the exit code of another hakaru process. An unknown code
    gives a plain `HakaruError`, which denotes a defect.
    """
    classes = (
        UsageError,
        EnvironmentError_,
        ExpectationBreach,
        InvalidPoints,
        VerificationError,
        LostError,
        UnjudgedError,
    )
    for error_class in classes:
        if error_class.exit_code == exit_code:
            return error_class(message, hint)
    return HakaruError(message, hint)
