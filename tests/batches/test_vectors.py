"""Every example gets the vector that was in force at its impression, and each vector is in memory once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.vectors import VectorVersions, given_vectors, no_vectors
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.errors import SchemaError
from tests.lake_factory import DAYS, make_lake, put_vectors, vector_contract
from tests.oracles.vectors import in_force

DIM = 2
SCHEMA = pa.schema(
    [("ad_id", pa.int64()), ("valid_from", pa.timestamp("us", tz="UTC")), ("image", pa.list_(pa.float32()))]
)
VERSIONS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), st.none() | st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
    max_size=12,
    unique_by=lambda version: version[:2],
)
IMPRESSIONS = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 8)), max_size=10)


def versions_of(rows) -> VectorVersions:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return VectorVersions(table, key="ad_id", dims={"image": DIM})


@settings(max_examples=300)
@given(VERSIONS, IMPRESSIONS)
def test_the_vector_in_force_is_that_of_the_oracle(versions, impressions):
    rows = [{"ad_id": ad, "valid_from": at, "image": vector} for ad, at, vector in versions]
    key_N, time_N = np.array(impressions, dtype=np.int64).reshape(-1, 2).T
    found, present = versions_of(rows).as_of(key_N, time_N)["image"].take(np.arange(len(impressions)))
    for (ad, at), value, there in zip(impressions, found.tolist(), present.tolist(), strict=True):
        expected = in_force(rows, key="ad_id", entity=ad, time=at, name="image", since="valid_from")
        assert (value if there else None) == expected
        assert there or value == [0.0, 0.0]


@settings(max_examples=100)
@given(VERSIONS, IMPRESSIONS, st.integers(9, 12))
def test_what_comes_into_force_later_changes_nothing(versions, impressions, later):
    rows = [{"ad_id": ad, "valid_from": at, "image": vector} for ad, at, vector in versions]
    more = [{"ad_id": ad, "valid_from": later, "image": [7.0, 7.0]} for ad in range(-1, 5)]
    key_N, time_N = np.array(impressions, dtype=np.int64).reshape(-1, 2).T
    before, after = (versions_of(all_rows).as_of(key_N, time_N)["image"] for all_rows in (rows, rows + more))
    order = np.arange(len(impressions))
    for found, expected in zip(after.take(order), before.take(order), strict=True):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(after.content(), before.content(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_table_with_vectors_of_another_dimension_is_refused():
    with pytest.raises(SchemaError, match="image holds vectors of other than 2 numbers"):
        versions_of([{"ad_id": 1, "valid_from": 0, "image": [1.0]}])


def test_rows_may_bring_their_vectors_or_none():
    found = given_vectors([[1.0, 2.0], None, float("nan"), np.array([3.0, 4.0])], name="image", dim=2)
    value, present = found.take(np.array([3, 1, 0, 2]))
    assert value.tolist() == [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    assert present.tolist() == [True, False, True, False]
    assert not no_vectors(3, 2).take(np.arange(3))[1].any()


@pytest.mark.parametrize("broken", [[1.0], [1.0, float("inf")], [float("nan"), 0.0], 5.0, [[1.0, 2.0]]])
def test_a_vector_that_does_not_fit_is_counted_and_refused(broken):
    with pytest.raises(SchemaError, match=r"image .* holds 1 vector\(s\) that are not 2 finite numbers"):
        given_vectors([[1.0, 2.0], broken], name="image", dim=2)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    home, own = tmp_path_factory.mktemp("vectors"), vector_contract()
    make_lake(home, days=DAYS[:2], own=own)
    put_vectors(home, own)
    return home, own


def read(lake, **config):
    home, own = lake
    return list(
        DayReader(own, home / "lake", window=WindowSpec(max_events=4), config=ReaderConfig(**config)).day(DAYS[1])
    )


@pytest.mark.parametrize("max_vector_bytes", [1 << 30, 0])
def test_a_day_carries_the_vectors_of_its_ads_and_users(lake, max_vector_bytes):
    home, own = lake
    rows = put_vectors(home, own)
    schema = tables.examples(own)
    from deltalake import DeltaTable

    keys = DeltaTable(str(home / "lake" / schema.name)).to_pyarrow_table(
        columns=["impression_id", "ad_id", "user_id", "impression_ts"]
    )
    example = {row["impression_id"]: row for row in keys.to_pylist()}
    for part in read(lake, max_vector_bytes=max_vector_bytes):
        assert [f.name for f in part.layout.vectors] == ["image", "taste"]
        batch = part.batch(np.arange(part.size))
        image, taste = batch.vectors.value_BV.split([3, 2], dim=1)
        for place, impression in enumerate(part.impression_ids.to_pylist()):
            row = example[impression]
            for value, name, key, origin in ((image, "image", "ad_id", "ads"), (taste, "taste", "user_id", "users")):
                expected = in_force(
                    rows[origin], key=key, entity=row[key], time=row["impression_ts"], name=name, since="valid_from"
                )
                present = batch.vectors.present_BF[place, ["image", "taste"].index(name)].item()
                assert (value[place].tolist() if present else None) == expected


def test_a_small_table_is_read_once_and_every_slice_looks_into_the_same_memory(lake):
    parts = read(lake)
    assert len(parts) > 1
    assert len({id(part.vectors["image"].value_PD) for part in parts}) == 1
    assert [part.digest() for part in parts] == [part.digest() for part in read(lake, max_vector_bytes=0)]


def test_versions_of_vector_tables_are_named_with_the_others(lake):
    home, own = lake
    named = DayReader(own, home / "lake", window=WindowSpec(max_events=4)).versions
    assert {"ad_vectors", "user_vectors"} <= set(named)


def test_a_surface_that_may_not_use_a_vector_never_sees_it(lake):
    home, own = lake
    allowed = own.surfaces[0]
    features = [f.model_copy(update={"surfaces": (allowed,)}) if f.name == "image" else f for f in own.features]
    restricted = own.model_copy(update={"features": tuple(features)})
    for part in DayReader(restricted, home / "lake", window=WindowSpec(max_events=4)).day(DAYS[1]):
        vectors = part.batch(np.arange(part.size)).vectors
        elsewhere = part.surface_N != 0
        assert not vectors.present_BF.numpy()[elsewhere, 0].any()
        assert not vectors.value_BV.numpy()[elsewhere, :3].any()
        assert vectors.present_BF.numpy()[elsewhere, 1].any()
