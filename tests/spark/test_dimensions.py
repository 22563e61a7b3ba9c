from __future__ import annotations

import pytest

from gem_pipeline.contracts.contract import Feature
from gem_pipeline.errors import SchemaError
from spark.dimensions import ad_attributes, event_attributes, feature_value, user_attributes
from tests.oracles.event_log import DATES, _start

pytestmark = pytest.mark.spark

AD = {"aid": 2, "owner_id": 3, "tags": None, "since": _start(DATES[0])}


def test_a_multi_hot_string_is_split_trimmed_and_emptied_of_nothing(spark):
    frame = spark.createDataFrame([("a, b,,c ",), ("",), (None,)], "tags string")
    tags = Feature(name="tags", origin="ads", column="tags", kind="multi_hot", table="t")
    found = [row[0] for row in frame.select(feature_value(frame, tags, "ads")).collect()]
    assert found == [["a", "b", "c"], [], None]


def test_a_multi_hot_array_of_numbers_becomes_strings(spark):
    frame = spark.createDataFrame([([1, 2],)], "tags array<int>")
    tags = Feature(name="tags", origin="ads", column="tags", kind="multi_hot", table="t")
    assert frame.select(feature_value(frame, tags, "ads")).first()[0] == ["1", "2"]


def test_rows_without_a_key_are_no_attributes(frames):
    made = frames({"users": [{"uid": None, "age": 1.0}, {"uid": 1, "age": 2.0}], "ads": [AD | {"aid": None}]})
    assert [row["user_id"] for row in user_attributes(made.users, made.contract).collect()] == [1]
    assert ad_attributes(made.ads, made.contract).count() == 0


def test_events_carry_only_what_the_sequence_names(frames):
    made = frames({"ads": [AD]})
    assert event_attributes(made.ads, made.contract).columns == ["ad_id", "valid_from", "attribute__owner"]
    assert ad_attributes(made.ads, made.contract).columns == ["ad_id", "valid_from", "attribute__owner", "tags"]


def test_a_missing_attribute_column_is_named(frames):
    made = frames({"ads": [AD]})
    with pytest.raises(SchemaError, match="Table ads lacks column owner_id"):
        event_attributes(made.ads.drop("owner_id"), made.contract)
