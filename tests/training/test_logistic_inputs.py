"""Batches to arrays: every id and number arrives in the row it belongs to."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.training.logistic_inputs import (
    HISTORY_EVENTS,
    LogisticRows,
    concatenate_inputs,
    concatenate_rows,
    inputs_of_batch,
    rows_of_batches,
)
from tests.batches_factory import random_batch, small_layout, take_rows

LAYOUT = small_layout()
LENGTHS = (0, 3, 25, 1, 40)


def test_history_is_the_newest_events_and_their_mean_over_all() -> None:
    batch = random_batch(LAYOUT, LENGTHS)
    inputs = inputs_of_batch(batch, LAYOUT)
    event_ads = torch.split(batch.ids["event_ad"].values(), list(LENGTHS))
    expected = torch.cat([ads[-HISTORY_EVENTS:] for ads in event_ads])
    assert [column.name for column in inputs.history] == ["event_ad", "event_surface"]
    assert inputs.history[0].length_N.tolist() == [0, 3, 20, 1, 20]
    assert inputs.history[0].id_V.tolist() == expected.tolist()
    pieces = torch.split(batch.event_dense_TE, list(LENGTHS))
    num_dense = len(LAYOUT.dense)
    for row, piece in enumerate(pieces):
        mean = piece.mean(dim=0).numpy() if len(piece) else np.zeros(2)
        assert np.allclose(inputs.dense_NF[row, num_dense : num_dense + 2], mean, atol=1e-6)
        assert inputs.dense_NF[row, -1] == pytest.approx(np.log1p(len(piece)))


def test_multi_hot_tokens_keep_their_ids_a_row() -> None:
    batch = random_batch(LAYOUT, LENGTHS)
    tags = next(column for column in inputs_of_batch(batch, LAYOUT).tokens if column.name == "tags")
    assert tags.length_N.tolist() == batch.ids["tags"].lengths().tolist()
    assert tags.id_V.tolist() == batch.ids["tags"].values().tolist()


def test_cutting_a_day_into_batches_changes_nothing() -> None:
    batch = random_batch(LAYOUT, LENGTHS)
    whole = rows_of_batches([batch], LAYOUT, day=3)
    cut = rows_of_batches([take_rows(batch, LAYOUT, [0, 1]), take_rows(batch, LAYOUT, [2, 3, 4])], LAYOUT, day=3)
    for one, two in zip(
        (*whole.inputs.tokens, *whole.inputs.history), (*cut.inputs.tokens, *cut.inputs.history), strict=True
    ):
        assert one.name == two.name
        assert np.array_equal(one.length_N, two.length_N)
        assert np.array_equal(one.id_V, two.id_V)
    assert np.allclose(whole.inputs.dense_NF, cut.inputs.dense_NF)
    assert np.array_equal(whole.label_NK, cut.label_NK)
    assert np.array_equal(whole.order_N, cut.order_N)
    assert cut.day_N.tolist() == [3] * 5


def test_days_are_put_one_after_the_other() -> None:
    days = [rows_of_batches([random_batch(LAYOUT, LENGTHS, seed=day)], LAYOUT, day=day) for day in (1, 2)]
    both = concatenate_rows(days)
    assert both.day_N.tolist() == [1] * 5 + [2] * 5
    assert both.inputs.size == 10
    assert np.array_equal(both.mask_NK[5:], days[1].mask_NK)


def test_rows_that_do_not_fit_and_no_rows_are_refused() -> None:
    rows = rows_of_batches([random_batch(LAYOUT, LENGTHS)], LAYOUT, day=1, order_N=np.arange(5))
    with pytest.raises(ConfigError, match="do not fit 5 rows"):
        LogisticRows(
            inputs=rows.inputs,
            label_NK=rows.label_NK[:4],
            mask_NK=rows.mask_NK[:4],
            day_N=rows.day_N,
            order_N=rows.order_N,
        )
    with pytest.raises(ConfigError, match="no rows"):
        concatenate_inputs([])
    with pytest.raises(ConfigError, match="no rows"):
        rows_of_batches([], LAYOUT, day=1)
