"""Which trainings the search of learning aids compares."""

from __future__ import annotations

import pytest

from benchmarks import aids, quality


def test_every_aid_is_a_training_of_its_own_that_never_reads_a_test_day():
    trials = [aids.trial(aid, 0) for aid in ("", *aids.AIDS)]
    assert len({trial.key for trial in trials}) == len(trials)
    assert {day for trial in trials for day in (*trial.learnt, *trial.judged)}.isdisjoint(quality.TEST)
    for trial in trials:
        trial.run_config()  # every setting exists


def test_an_aid_that_does_not_exist_is_refused():
    with pytest.raises(KeyError):
        aids.trial("luck", 0)
