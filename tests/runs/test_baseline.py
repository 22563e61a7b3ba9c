"""The logistic regression scores a day before it is fitted on it, and its penalty settles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gem_pipeline.batches.encoded_day import day_batches
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.runs import baseline as subject
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.day import train_day
from gem_pipeline.training.logistic import LogisticBaseline
from gem_pipeline.training.logistic_inputs import HISTORY_EVENTS, inputs_of_batch
from gem_pipeline.training.plan import LOGISTIC, DayPlan
from tests.chain_factory import same_weights
from tests.lake_factory import CONTRACT_PATH, DAYS, contract, make_lake


def predictions(chain, date):
    frame = chain.table("predictions", date)
    return frame[frame.model == LOGISTIC]


def test_nothing_is_predicted_on_the_first_day_and_everything_later(chain):
    assert predictions(chain, DAYS[0]).empty
    assert len(predictions(chain, DAYS[1])) == 240 * len(contract().objectives)


def test_a_day_is_scored_by_the_stored_baseline_of_the_day_before(chain):
    stored = chain.store.require(LOGISTIC, DAYS[1])
    arrays = {name: tensor.numpy() for name, tensor in stored.weights().items()}
    fitted = LogisticBaseline.from_arrays(arrays, stored.config()["model"])
    rows = predictions(chain, DAYS[2])
    assert set(rows.model_id) == {stored.model_id}
    assert set(rows.trained_through) == {DAYS[1]}
    likes = rows[rows.objective == "like"].set_index("impression_id").prob
    for part in chain.read(DAYS[2], WindowSpec(max_events=HISTORY_EVENTS)):
        (batch,) = day_batches(part, batch_size=part.size)
        expected_NK = fitted.predict(inputs_of_batch(batch, part.layout))
        assert np.allclose(likes[part.impression_ids.to_pylist()], expected_NK[:, 3], atol=1e-6)


def test_all_days_of_the_window_are_fitted(chain):
    assert [chain.store.require(LOGISTIC, date).report()["metrics"]["examples"] for date in DAYS] == [240, 480, 720]


@pytest.mark.parametrize(("days", "expected"), [(14, DAYS), (2, DAYS[1:]), (1, DAYS[2:])])
def test_the_window_ends_with_the_day(chain, days, expected):
    context = DayContext(chain.plan(DAYS[2]))
    context.__dict__["run"] = replace(context.run, baseline_days=days)
    assert tuple(subject.fitted_days(context)) == expected


def test_a_later_day_changes_nothing_of_an_earlier_fit(own):
    before = own.weights(LOGISTIC, DAYS[1])
    own.forget(DAYS[1], "baseline")
    path = own.store.require(LOGISTIC, DAYS[1]).path
    path.rename(path.with_name("gone"))
    train_day(own.plan(DAYS[1], tasks=("baseline",)))
    assert same_weights(own.weights(LOGISTIC, DAYS[1]), before)


def test_penalties_are_tuned_while_the_window_is_short_and_taken_over_afterwards(tmp_path, monkeypatch):
    days = ("2022-05-01", "2022-05-02", "2022-05-03", "2022-05-04")
    make_lake(tmp_path, days=days, rows=60)
    given, fitted = [], []
    fit = subject.fit_logistic

    def noting(*arguments, inverse_penalties, **options):
        given.append(inverse_penalties)
        fitted.append(fit(*arguments, inverse_penalties=inverse_penalties, **options))
        return fitted[-1]

    monkeypatch.setattr(subject, "fit_logistic", noting)
    for previous, date in zip((None, *days), days, strict=False):
        train_day(
            DayPlan(
                date=date, previous_date=previous, contract_path=str(CONTRACT_PATH), home=str(tmp_path),
                tasks=("baseline",), threads=1,
            )
        )  # fmt: skip
    assert given[: subject.TUNED_DAYS] == [None] * subject.TUNED_DAYS
    assert given[-1] == fitted[-2].inverse_penalties == fitted[-1].inverse_penalties
