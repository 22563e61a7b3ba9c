"""Ids get rows of their own while there is room, the policy says who leaves, and the map is part of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.encoding import hash_rows
from gem_pipeline.batches.layout import WHOLE_IDS, IdFeature, InputLayout, TableSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.managed_ids import ManagedIds
from tests.batches_factory import random_batch, small_layout

ROWS = 6  # the missing value, four ids, ids without a row


def layout_of(rows: int = ROWS) -> InputLayout:
    layout = small_layout()
    tables = (TableSpec(name="ad", rows=rows, managed=True), TableSpec(name="place", rows=8))
    tokens = (IdFeature(name="ad", table="ad"), IdFeature(name="surface", table="place"))
    return replace(layout, tables=tables, tokens=tokens)


def ids_of(ads: list[int], events: list[int] = ()) -> KeyedJaggedTensor:
    """One row an ad with surface 3; all events in the first row."""
    size, places = len(ads), [3] * len(ads)
    event_length = [len(events), *[0] * (size - 1)]
    return KeyedJaggedTensor(
        keys=["ad", "surface", "event_ad", "event_surface"],
        values=torch.tensor([*ads, *places, *events, *[2] * len(events)], dtype=torch.int64),
        lengths=torch.tensor([*[1] * (2 * size), *event_length, *event_length]),
    )


def rows_of(managed: ManagedIds, ads: list[int]) -> list[int]:
    return managed(ids_of(ads))["ad"].values().tolist()


def test_ids_that_share_a_hashed_row_get_rows_of_their_own() -> None:
    ids = np.arange(1000, dtype=np.int64)
    hashed, whole = (hash_rows(ids, salt="ad", rows=rows) for rows in (ROWS, WHOLE_IDS))
    one, other = np.flatnonzero(hashed == hashed[0])[:2]
    managed = ManagedIds(layout_of(), "lfu")
    ads = [int(whole[one]), int(whole[other])]
    managed.admit(ids_of(ads))
    first, second = rows_of(managed, ads)
    assert first != second
    assert {first, second} <= set(range(1, ROWS - 1))


@pytest.mark.parametrize("policy", ["lfu", "lru"])
def test_missing_ids_and_places_stay_and_unknown_ids_share_the_last_row(policy) -> None:
    managed = ManagedIds(layout_of(), policy)
    assert rows_of(managed, [10, 0, 11]) == [ROWS - 1, 0, ROWS - 1]
    managed.admit(ids_of([10, 0]))
    mapped = managed(ids_of([10, 0, 11], events=[10, 0, 12]))
    row = rows_of(managed, [10])[0]
    assert mapped["ad"].values().tolist() == [row, 0, ROWS - 1]
    assert mapped["event_ad"].values().tolist() == [row, 0, ROWS - 1]
    assert mapped["surface"].values().tolist() == [3, 3, 3]
    assert mapped["event_surface"].values().tolist() == [2, 2, 2]


@settings(max_examples=40)
@given(batches=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=12), min_size=1, max_size=8),
       policy=st.sampled_from(["lfu", "lru"]))  # fmt: skip
def test_no_two_ids_have_a_row_and_no_more_ids_than_rows_are_kept(batches, policy) -> None:
    managed = ManagedIds(layout_of(), policy)
    for ads in batches:
        managed.admit(ids_of(ads))
        owned = [row for row in rows_of(managed, list(range(1, 13))) if row != ROWS - 1]
        assert len(set(owned)) == len(owned) <= ROWS - 2
        assert set(owned) <= set(range(1, ROWS - 1))
        seen = {ad for batch in batches for ad in batch if ad}
        if len(seen) <= ROWS - 2:
            assert ROWS - 1 not in rows_of(managed, [ad for ad in ads if ad] or [0])


def test_the_least_frequent_id_leaves_under_lfu_and_the_oldest_under_lru() -> None:
    history = [[1, 1, 1, 2, 3, 3, 4, 4], [2, 3, 3, 4, 4], [5, 5, 5, 5]]
    kept = {}
    for policy in ("lfu", "lru"):
        managed = ManagedIds(layout_of(), policy)
        for ads in history:
            passed_on = managed.admit(ids_of(ads))
        rows = rows_of(managed, [1, 2, 3, 4, 5])
        kept[policy] = [ad for ad, row in zip([1, 2, 3, 4, 5], rows, strict=True) if row != ROWS - 1]
        assert passed_on["ad"].tolist() == [rows[4]]
    assert kept == {"lfu": [1, 3, 4, 5], "lru": [2, 3, 4, 5]}


def test_a_row_passes_on_only_where_another_id_held_it() -> None:
    managed = ManagedIds(layout_of(), "lru")
    assert managed.admit(ids_of([1, 2]))["ad"].tolist() == []
    assert managed.admit(ids_of([3, 4]))["ad"].tolist() == []
    assert len(managed.admit(ids_of([5]))["ad"]) == 1


def test_reading_the_map_changes_nothing_in_training_neither() -> None:
    managed = ManagedIds(layout_of(), "lfu").train()
    managed.admit(ids_of([1, 2]))
    before = {name: value.clone() for name, value in managed.state_dict().items()}
    managed(ids_of([7, 8, 1]))
    assert all(torch.equal(value, managed.state_dict()[name]) for name, value in before.items())


@pytest.mark.parametrize("policy", ["lfu", "lru"])
def test_a_restored_map_goes_on_as_the_stored_one_whatever_the_first_batch_of_the_process(policy) -> None:
    rng = np.random.default_rng(0)
    history = [rng.integers(0, 40, size).tolist() for size in (2, 30, 5, 60, 1, 30, 44, 3)]
    whole = ManagedIds(layout_of(12), policy)
    for place, ads in enumerate(history):
        whole.admit(ids_of(ads))
        if place == 3:
            again = ManagedIds(layout_of(12), policy)
            again.load_state_dict(whole.state_dict())
            for later in history[4:]:
                again.admit(ids_of(later))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())


def test_a_model_takes_whole_ids_only_where_it_manages_its_tables() -> None:
    with pytest.raises(ConfigError, match="ids come hashed"):
        FoundationModel(small_layout(), FoundationConfig(dim=8, id_tables="lfu"))
    with pytest.raises(ConfigError, match="ids come whole"):
        FoundationModel(layout_of(), FoundationConfig(dim=8))
    with pytest.raises(ConfigError, match="no 'cuckoo' tables"):
        FoundationConfig(id_tables="cuckoo")


def test_a_table_without_room_for_an_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="ad"):
        ManagedIds(layout_of(2), "lfu")


def test_unseen_ids_of_a_model_score_alike() -> None:
    torch.manual_seed(0)
    layout = layout_of(40)
    model = FoundationModel(layout, FoundationConfig(dim=8, id_tables="lru")).eval()
    batch = random_batch(layout, [2, 0, 3], multi_hot=())
    scores = []
    for shift in (0, 1000):
        value_V = batch.ids.values().clone()
        value_V[:3] = torch.tensor([900, 901, 902]) + shift
        ids = KeyedJaggedTensor(keys=batch.ids.keys(), values=value_V, lengths=batch.ids.lengths())
        scores.append(model(replace(batch, ids=ids)).logit_BK)
    assert torch.equal(*scores)
