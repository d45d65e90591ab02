"""The search on a model of a path from the closed forms: how close it comes to the optimum, and
that it is reproducible.
"""

from __future__ import annotations

import pytest
from hakaru.tune.closed_form import suggest
from hakaru.tune.knobs import Machine, Settings, changed, defaults_of
from hakaru.tune.search import ENOUGH, Search, SearchTrial

from tests.tune.path_model import GBIT, MIB, PathModel, climb, conditions, search_only

PATHS = [
    (0.2, 0.0, 10 * GBIT, None),
    (20, 0.0, GBIT, None),
    (20, 0.0, GBIT, 1),
    (20, 0.5, 10**8, None),
    (80, 0.01, GBIT, 1),
    (80, 0.0, 10 * GBIT, None),
]


@pytest.mark.parametrize(("rtt", "loss", "rate", "depth"), PATHS)
def test_search_reaches_95_percent_of_the_optimum_in_25_trials(
    rtt: float, loss: float, rate: int, depth: int | None
) -> None:
    model = PathModel(conditions(rtt, loss, rate, depth=depth))
    _, optimum = model.optimum()
    tried = search_only(model.search(), model, 25)
    best = model.search().best(tried)
    assert best is not None
    assert model.exact(tried[best].settings) >= 0.95 * optimum


def test_search_recovers_from_a_wrong_suggestion() -> None:
    """The path differs from the closed forms: bursts of more than 1 MiB are slow."""
    model = PathModel(conditions(20), noise=0.0)

    def rate_of(settings: Settings) -> float:
        return model.exact(settings) * (1.0 if int(settings["max_burst_length"]) <= MIB else 0.4)

    _, optimum = climb(model.space, rate_of)
    for seed in range(3):
        search, tried = model.search(seed=seed), list[SearchTrial]()
        for _ in range(25):
            settings = search.propose(tried)
            tried.append(SearchTrial(settings, rate_of(settings)))
        start, best = tried[1].mb_per_s, search.best(tried)
        assert best is not None and start is not None
        assert start < 0.5 * optimum
        assert (tried[best].mb_per_s or 0.0) >= 0.85 * optimum


@pytest.mark.parametrize("rtt", [1, 20, 80])
def test_goal_memory_comes_near_the_least_sufficient_memory(rtt: float) -> None:
    model = PathModel(conditions(rtt), noise=0.01)
    search = model.search("memory")
    _, optimum = model.optimum()

    def lean(settings: Settings) -> float:
        rate = model.exact(settings)
        return -float(search.memory(settings)) if rate >= ENOUGH * optimum else -1e18 + rate

    _, least = climb(model.space, lean)
    tried = search_only(search, model, 25)
    best = search.best(tried)
    assert best is not None
    assert model.exact(tried[best].settings) >= 0.92 * optimum
    assert search.memory(tried[best].settings) <= 2 * -least
    # The fastest settings need more memory.
    assert search.memory(tried[best].settings) < search.memory(suggest(model.conditions, model.space, model.machine))


def test_proposal_depends_only_on_trials_and_seed() -> None:
    model = PathModel(conditions(20))
    tried = search_only(model.search(seed=3), model, 6)
    assert model.search(seed=3).propose(tried) == model.search(seed=3).propose(tried)
    others = [model.search(seed=seed).propose(tried) for seed in range(4, 9)]
    assert any(other != model.search(seed=3).propose(tried) for other in others)


def test_first_trial_uses_the_defaults_and_the_second_the_suggestion() -> None:
    model = PathModel(conditions(20))
    first, second = (model.search().first_settings())[:2]
    assert first == defaults_of(model.space) and not changed(model.space, first)
    assert second["initial_r2t"] is False
    assert second["first_burst_length"] == second["max_burst_length"] == 4 * MIB
    # Twice 1 Gbit/s x 20 ms is 5 MB; the next power of two is 8 MiB.
    assert second["send_buffer"] == second["receive_buffer"] == 8 * MIB
    # Defaults that suffice are kept.
    assert second["command_max"] == 8 * MIB and second["commands"] == 32 and second["immediate_data"] is True
    assert model.exact(second) >= 0.99 * model.optimum()[1]


def test_failed_trial_is_never_the_best_and_the_search_continues() -> None:
    model = PathModel(conditions(20))
    search = model.search()
    tried = [SearchTrial(settings, None) for settings in search.first_settings()]
    assert search.best(tried) is None
    tried.append(SearchTrial(search.propose(tried), 10.0))
    assert search.best(tried) == 2
    assert search.propose(tried) not in [trial.settings for trial in tried]


def test_goal_memory_selects_the_leanest_sufficient_trial() -> None:
    model = PathModel(conditions(20))
    small, large = model.search("memory").first_settings()[2], model.search("memory").first_settings()[1]
    search = Search(model.conditions, model.space, Machine(), "memory", 1)
    assert search.best([SearchTrial(large, 100.0), SearchTrial(small, 96.0)]) == 1
    assert search.best([SearchTrial(large, 100.0), SearchTrial(small, 94.0)]) == 0
    scores = search.scores([SearchTrial(large, 100.0), SearchTrial(small, 96.0), SearchTrial(small, 90.0)])
    assert scores[1] > scores[0] >= 1 > scores[2]
