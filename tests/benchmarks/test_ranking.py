"""Which experiments are ranked by both sizes."""

from __future__ import annotations

from itertools import combinations

from benchmarks import ranking
from tests.lake_factory import contract


def test_experiments_of_both_sizes_differ_by_size_alone(monkeypatch):
    monkeypatch.setattr(ranking, "derived", lambda log: contract())
    for row in ("", *ranking.ROWS):
        full, light = (ranking.trial(size, row, 0) for size in (ranking.FULL, ranking.LIGHT))
        assert light.model == full.model.replace(ranking.FULL, ranking.LIGHT)
        assert (full.missing, full.learnt, full.training) == (light.missing, light.learnt, light.training)
    assert ranking.taken("no ad id") == ("ad",)
    assert "friends" in ranking.taken("no profile")


def test_an_experiment_on_inputs_takes_something_of_its_own_away(monkeypatch):
    monkeypatch.setattr(ranking, "derived", lambda log: contract())
    taken = [set(ranking.taken(row)) for row in ranking.INPUTS]
    assert all(taken)
    assert all(one.isdisjoint(other) for one, other in combinations(taken, 2))
