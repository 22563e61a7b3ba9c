"""Encoded ids stay in range, are stable, and tell missing from known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gem_pipeline.batches import encoding

_LONGS = st.integers(-(2**63), 2**63 - 1)


@given(values=st.lists(_LONGS, max_size=50), rows=st.integers(2, 1000))
def test_known_ids_hash_into_the_table_and_never_into_the_missing_row(values, rows):
    hashed = encoding.hash_rows(np.array(values, dtype=np.int64), salt="ad", rows=rows)
    assert ((hashed >= 1) & (hashed < rows)).all()


def test_hashes_are_frozen_so_that_a_stored_model_keeps_its_ids():
    hashed = encoding.hash_rows(np.array([0, 1, 2**40, -5]), salt="ad", rows=1000)
    assert hashed.tolist() == [661, 19, 505, 350]


def test_features_multiplexed_into_one_table_do_not_coincide():
    ids = np.arange(1000)
    same = encoding.hash_rows(ids, salt="a", rows=10**6) == encoding.hash_rows(ids, salt="b", rows=10**6)
    assert same.mean() < 0.01


def test_hashes_spread_evenly():
    counts = np.bincount(encoding.hash_rows(np.arange(100_000), salt="x", rows=101), minlength=101)
    assert counts[0] == 0
    assert counts[1:].min() > 850
    assert counts[1:].max() < 1150


@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=30))
def test_a_string_means_the_same_row_wherever_it_stands(words):
    column = pa.chunked_array([pa.array(words, pa.string())])
    rows = encoding.id_rows(column, salt="f", rows=500)
    alone = [encoding.id_rows(pa.chunked_array([pa.array([w], pa.string())]), salt="f", rows=500)[0] for w in words]
    assert rows.tolist() == alone
    assert [row == 0 for row in rows] == [word is None for word in words]


@given(st.lists(st.one_of(st.none(), st.lists(st.sampled_from("abcd"), max_size=4)), max_size=20))
def test_multi_hot_rows_keep_every_id_and_give_the_missing_row_to_empty_lists(lists):
    column = pa.chunked_array([pa.array(lists, pa.list_(pa.string()))])
    values, lengths = encoding.multi_hot_rows(column, salt="t", rows=50)
    parts = np.split(values, np.cumsum(lengths)[:-1]) if len(lists) else []
    for words, part in zip(lists, parts, strict=True):
        flat = pa.chunked_array([pa.array(words or [None], pa.string())])
        assert part.tolist() == encoding.id_rows(flat, salt="t", rows=50).tolist()


def test_buckets_are_closed_on_the_left_and_missing_is_row_zero():
    column = pa.chunked_array([pa.array([None, 4.9, 5.0, 7.9, 8.0], pa.float32())])
    rows = encoding.bucket_rows(column, (5.0, 8.0), salt="b", rows=1000)
    assert rows[0] == 0
    assert rows[2] == rows[3]
    assert len(set(rows[1:].tolist())) == 3


@given(events=st.integers(0, 10**6), share=st.floats(0, 1), prior=st.floats(0.001, 0.999))
def test_smoothed_rates_are_finite_and_zero_without_events(events, share, prior):
    base = np.array([prior])
    value = encoding.rate_inputs(np.array([int(events * share)]), np.array([events]), base)
    assert np.isfinite(value).all()
    assert abs(encoding.rate_inputs(np.array([0]), np.array([0]), base)[0]) < 1e-4


def test_more_hits_mean_a_larger_rate_input():
    hits = np.array([0, 1, 5, 20])
    value = encoding.rate_inputs(hits, np.full(4, 20), np.full(4, 0.3))
    assert (np.diff(value) > 0).all()


def test_missing_numbers_become_zero_and_log1p_never_sees_a_negative():
    column = pa.chunked_array([pa.array([None, -3.0, 0.0, np.e - 1], pa.float32())])
    value = encoding.number_inputs(column, "log1p")
    assert value[:3].tolist() == [0.0, 0.0, 0.0]
    assert np.isclose(value[3], 1 / encoding.LOG_SCALE)
