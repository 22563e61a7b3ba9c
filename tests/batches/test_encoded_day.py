"""Batches carry exactly their rows, whatever the shuffle, with or without sharing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gem_pipeline.batches.encoded_day import day_batches
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from tests.lake_factory import DAYS, contract, make_lake


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    reader = DayReader(contract(), home / "lake", window=WindowSpec(max_events=8))
    return {day: next(reader.day(day)) for day in DAYS}


@pytest.fixture
def part(parts):
    return parts[DAYS[2]]


def test_batches_carry_their_rows_whatever_the_shuffle(part):
    whole = part.batch(np.arange(part.size))
    batches = list(day_batches(part, batch_size=7, generator=np.random.default_rng(3)))
    assert max(b.size for b in batches) == 7
    assert min(b.size for b in batches) >= 1
    order = torch.cat([b.example_B for b in batches]) - int(whole.example_B[0])
    assert sorted(order.tolist()) == list(range(part.size))
    assert torch.equal(torch.cat([b.dense_BF for b in batches]), whole.dense_BF[order])
    assert torch.equal(torch.cat([b.label_BK for b in batches]), whole.label_BK[order])
    jagged, lengths = whole.ids["event_ad"].values(), whole.ids["event_ad"].lengths()
    rows = torch.split(jagged, lengths.tolist())
    shuffled = torch.cat([b.ids["event_ad"].values() for b in batches])
    assert torch.equal(shuffled, torch.cat([rows[i] for i in order.tolist()]))


def test_a_shared_history_is_stored_in_the_row_of_the_first_example_of_its_user(part):
    rows = np.random.default_rng(0).permutation(part.size)
    batch = part.batch(rows, share=True)
    stored_B = batch.ids["event_ad"].lengths().numpy()
    users = part.user_N[rows]
    first = np.unique(users, return_index=True)[1]
    assert stored_B[np.setdiff1d(np.arange(len(rows)), first)].sum() == 0
    index_T, _ = part.window.select(rows)
    assert stored_B.sum() == len(np.unique(index_T)) < len(index_T)


def test_a_user_whose_examples_see_nothing_stores_nothing(parts):
    part = parts[DAYS[0]]
    silent = np.flatnonzero(part.window.lengths == 0)[:3]
    assert len(silent)
    batch = part.batch(silent, share=True)
    assert batch.ids["event_ad"].lengths().tolist() == [0] * len(silent)
    assert batch.window_numbers().shape == (0, len(part.layout.event_dense))


def test_examples_of_the_same_user_at_the_same_time_share_one_window(part):
    rows = np.array([7, 3, 7, 5, 3, 3])
    batch = part.batch(rows, share=True)
    assert batch.shared.request_B.tolist() == [0, 1, 0, 2, 1, 1]
    assert batch.shared.length_R.tolist() == part.window.lengths[[7, 3, 5]].tolist()
    assert batch.requests is batch.shared.request_B
    assert part.batch(np.array([7, 3, 5]), share=True).requests is None
    assert part.batch(rows).requests is None
