"""Vectors of ads are kept where they change, and as of any time they are what the dimension said."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import SchemaError
from spark.vectors import judged_vectors, quarantined_vectors, vectors
from tests.oracles.event_log import DATES, _start, log_contract
from tests.oracles.vectors import in_force, usable

pytestmark = pytest.mark.spark
NAN, INF = float("nan"), float("inf")
CHOICES = (None, [1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [1.0], [], [NAN, 1.0], [1.0, -INF], [1e300, 0.0], [None, 1.0])
REASONS = {
    "[1.0]": "wrong dimension", "[]": "wrong dimension", "[nan, 1.0]": "NaN", "[1.0, -inf]": "infinite",
    "[1e+300, 0.0]": "infinite", "[None, 1.0]": "null element",
}  # fmt: skip
BRONZE = pa.schema(
    [("aid", pa.int64()), ("since", pa.timestamp("us", tz="UTC")), ("owner_id", pa.int64()),
     ("pixels", pa.list_(pa.float64())), ("words", pa.list_(pa.float64()))]
)  # fmt: skip


def vector_contract(valid_from: str | None = "since") -> DataContract:
    document = log_contract().model_dump(mode="json")
    document["tables"]["ads"]["valid_from"] = valid_from
    document["features"] += [
        {"name": "image", "origin": "ads", "column": "pixels", "kind": "vector", "dim": 2},
        {"name": "text", "origin": "ads", "column": "words", "kind": "vector", "dim": 2},
    ]
    return DataContract.model_validate(document)


def derived(frame, contract, origin="ads"):
    return vectors(judged_vectors(frame, contract, origin), contract, origin)


def random_ads(num_ads: int, seed: int) -> list[dict]:
    rng, found = random.Random(seed), []
    for ad in range(num_ads):
        for hour in rng.sample(range(8), rng.randint(0, 6)):
            since = _start(DATES[0]) + timedelta(hours=hour)
            row = {"aid": ad, "since": since, "owner_id": hour, "pixels": rng.choice(CHOICES), "words": [1.0, 1.0]}
            found.append(row)
    return found


@pytest.fixture(scope="module")
def bronze():
    return random_ads(400, seed=3)


@pytest.fixture(scope="module")
def frame(spark, bronze):
    missing = [{"aid": None, "since": _start(DATES[0])}, {"aid": 1, "since": None, "pixels": [1.0]}]
    return spark.createDataFrame(pa.Table.from_pylist(bronze + missing, schema=BRONZE)).repartition(3).cache()


def test_as_of_any_time_the_table_says_what_the_dimension_said(frame, bronze):
    made = derived(frame, vector_contract())
    assert tuple(made.columns) == tables.vectors(vector_contract(), "ads").column_names
    kept = [row.asDict() for row in made.collect()]
    clean = [
        row | {"pixels": row["pixels"] if usable(row["pixels"], 2) and max(row["pixels"]) < INF else None}
        for row in bronze
    ]
    clean = [row | {"pixels": None} if row["pixels"] == [1e300, 0.0] else row for row in clean]
    for ad in range(400):
        own, said = ([r for r in rows if r[key] == ad] for rows, key in ((kept, "ad_id"), (clean, "aid")))
        for hour in range(-1, 9):
            at = (_start(DATES[0]) + timedelta(hours=hour)).replace(tzinfo=None)
            naive = [row | {"since": row["since"].replace(tzinfo=None)} for row in said]
            expected = in_force(naive, key="aid", entity=ad, time=at, name="pixels", since="since")
            assert in_force(own, key="ad_id", entity=ad, time=at, name="image", since="valid_from") == expected


def test_a_row_that_changes_no_vector_is_not_stored(frame, bronze):
    kept = [row.asDict() for row in derived(frame, vector_contract()).orderBy("ad_id", "valid_from").collect()]
    assert len(kept) < len(bronze)
    for before, after in itertools.pairwise(kept):
        if before["ad_id"] == after["ad_id"]:
            assert (before["image"], before["text"]) != (after["image"], after["text"])


def test_faults_are_counted_by_reason(frame, bronze):
    left_out = quarantined_vectors(judged_vectors(frame, vector_contract(), "ads")).collect()
    found = Counter(row["reason"] for row in left_out)
    assert any('"image":[1.0]' in row["row"] for row in left_out)
    expected = Counter(f"image: {REASONS[str(r['pixels'])]}" for r in bronze if str(r["pixels"]) in REASONS)
    expected += Counter({"null ad_id": 1, "null valid_from": 1})
    assert found == expected


def test_an_ad_that_never_changes_has_its_vector_from_the_beginning(spark):
    frame = spark.createDataFrame([(7, [1.0, 2.0], [0.0, 0.0])], "aid long, pixels array<float>, words array<double>")
    row = derived(frame, vector_contract(None)).first()
    assert (row["ad_id"], row["valid_from"].timestamp(), row["image"]) == (7, 0.0, [1.0, 2.0])
    assert row["date"] == tables.ALL_DAYS


@pytest.mark.parametrize("kind", ["string", "array<string>", "array<int>"])
def test_a_column_that_is_no_array_of_floats_is_named(spark, kind):
    frame = spark.createDataFrame([], f"aid long, since timestamp, pixels {kind}, words array<float>")
    with pytest.raises(SchemaError, match=r"Column pixels of table ads has type .* a vector is an array of floats"):
        derived(frame, vector_contract())


def test_a_user_who_has_opted_out_has_no_vector_and_leaves_none_in_the_quarantine(spark):
    document = log_contract().model_dump(mode="json")
    document["tables"]["users"] |= {"valid_from": "since", "opt_out": "hidden"}
    document["features"].append({"name": "taste", "origin": "users", "column": "likes", "kind": "vector", "dim": 2})
    contract = DataContract.model_validate(document)
    times = [_start(DATES[0]) + timedelta(hours=hour) for hour in range(3)]
    rows = [(1, times[0], False, [1.0, 2.0]), (1, times[1], True, [3.0]), (1, times[2], None, [3.0, 4.0])]
    frame = spark.createDataFrame(rows, "uid long, since timestamp, hidden boolean, likes array<double>")
    found = derived(frame, contract, "users").orderBy("valid_from").collect()
    assert [row["taste"] for row in found] == [[1.0, 2.0], None, [3.0, 4.0]]
    assert quarantined_vectors(judged_vectors(frame, contract, "users")).count() == 0
