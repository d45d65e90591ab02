"""Search for the highest load that a device carries within a limit of loss.

The package knows neither packets nor disks. A *load* is anything that can be raised (frames per
second, requests per second, a number of VMs), and a *loss* is any piece of work that was offered
and went wrong (a lost frame, a request over 20 ms). A search asks for one trial after the other,
and its user runs them:

    controller = Controller(MlrSearch(FORWARDING_GOALS), grid, budget_s=600)
    while trial := controller.next_trial(now_s):
        controller.record(measure(trial))
    outcome = controller.outcome()

No module reads a clock, does I/O or uses global random numbers: the time is passed in, and the same
results in the same order give the same search.

    trial       one trial and its result: the share of offered work that was lost
    goal        limits that a load must meet, and the result per goal
    grid        loads that a search may use, as integer steps: rates or counts
    ledger      all results by load: lower bound, upper bound or undecided; conditional throughput
    procedure   protocol of the ways to search
    selector    next load for one goal of MLRsearch
    mlr         MLRsearch: several goals in one search
    halving     plain bisection, and the published procedure
    levels      levels that are judged by repetitions of whole measurements; the answer is a range
    controller  time budget, trials that the tester could not send, the log; runs a procedure
    simulated   devices in virtual time

The method of `mlr` is specified in draft-ietf-bmwg-mlrsearch-15 (docs/methodology/search.md).
"""

from hakaru.search.controller import Controller, Ended, LoggedTrial, Outcome
from hakaru.search.goal import FORWARDING_GOALS, Goal, GoalResult, Verdict, loss_ratio_of_percentile
from hakaru.search.grid import CountGrid, Grid, RateGrid
from hakaru.search.halving import Bisection, PublishedProcedure
from hakaru.search.levels import LevelRange, LevelResult, LevelSearch
from hakaru.search.mlr import MlrSearch
from hakaru.search.procedure import Procedure
from hakaru.search.trial import Trial, TrialResult

__all__ = [
    "FORWARDING_GOALS",
    "Bisection",
    "Controller",
    "CountGrid",
    "Ended",
    "Goal",
    "GoalResult",
    "Grid",
    "LevelRange",
    "LevelResult",
    "LevelSearch",
    "LoggedTrial",
    "MlrSearch",
    "Outcome",
    "Procedure",
    "PublishedProcedure",
    "RateGrid",
    "Trial",
    "TrialResult",
    "Verdict",
    "loss_ratio_of_percentile",
]
