"""Tables: the same content from any ranges of users, point-in-time users and ads, no truth where the platform reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from gem_pipeline.datasets.worlds import tables
from gem_pipeline.datasets.worlds.population import all_days
from gem_pipeline.datasets.worlds.world import Scale
from tests.oracles.content_hash import content_hash

SCALE = Scale(users=64, history_days=2, days=21)
DAY = 10
DATE = all_days(SCALE)[DAY + SCALE.history_days]


def test_every_time_is_an_instant_in_utc():
    schemas = (tables.ENGAGEMENTS, tables.SERVED, tables.USERS, tables.CONTENT)
    times = [field.type for schema in schemas for field in schema if pa.types.is_timestamp(field.type)]
    assert set(times) == {pa.timestamp("us", tz="UTC")}


@pytest.mark.parametrize("make", [tables.organic_events, tables.logged_impressions])
@pytest.mark.parametrize("ranges", [2, 8])
def test_a_day_has_the_same_content_from_any_ranges_of_users(everyday, make, ranges):
    whole = make(everyday, SCALE, 0, 64, DAY, DATE)
    edges = np.linspace(0, 64, ranges + 1).astype(int)
    parts = [make(everyday, SCALE, int(a), int(b), DAY, DATE) for a, b in pairwise(edges)]
    assert pa.concat_tables(parts).equals(whole)
    assert content_hash(pa.concat_tables(parts[::-1])) == content_hash(whole)


def test_users_have_the_same_rows_from_any_ranges(everyday):
    whole = tables.user_rows(everyday, SCALE, 0, 64, DAY)
    parts = [tables.user_rows(everyday, SCALE, first, first + 8, DAY) for first in range(0, 64, 8)]
    assert content_hash(pa.concat_tables(parts)) == content_hash(whole)


def test_rows_known_on_a_day_stay_on_later_days(everyday):
    for rows in (
        lambda through: tables.user_rows(everyday, SCALE, 0, 64, through),
        lambda through: tables.content_rows(everyday, SCALE, through),
    ):
        first = rows(1).schema.names[0]
        early, late = ({(r[first], r["valid_from"]) for r in rows(day).to_pylist()} for day in (3, 17))
        assert early < late


def test_a_user_or_ad_has_one_row_a_time(everyday):
    for rows in (tables.user_rows(everyday, SCALE, 0, 64, 20), tables.content_rows(everyday, SCALE, 20)):
        keys = list(zip(rows[0].to_pylist(), rows["valid_from"].to_pylist(), strict=True))
        assert len(set(keys)) == len(keys)


def test_every_impression_has_its_user_and_ad_with_a_row_before_it(everyday):
    shown = tables.logged_impressions(everyday, SCALE, 0, 64, DAY, DATE)
    for rows, column in (
        (tables.user_rows(everyday, SCALE, 0, 64, DAY), "user_id"),
        (tables.content_rows(everyday, SCALE, DAY), "content_id"),
    ):
        since = {}
        for row in rows.select([column, "valid_from"]).to_pylist():
            since[row[column]] = min(row["valid_from"], since.get(row[column], row["valid_from"]))
        assert all(since[row[column]] <= row["event_ts"] for row in shown.to_pylist())


def test_the_bid_of_an_impression_is_the_ads_bid_of_its_week(everyday):
    shown = tables.logged_impressions(everyday, SCALE, 0, 64, DAY, DATE).to_pylist()
    content = tables.content_rows(everyday, SCALE, DAY).to_pylist()
    for row in shown[:50]:
        known = [c for c in content if c["content_id"] == row["content_id"] and c["valid_from"] <= row["event_ts"]]
        assert max(known, key=lambda c: c["valid_from"])["bid"] == row["bid"]


def test_only_converted_impressions_have_a_type_a_time_and_a_value(everyday):
    scale = Scale(users=3000)
    shown = tables.logged_impressions(everyday, scale, 0, 3000, 3, "2026-01-11")
    converted = shown.filter(pa.compute.is_valid(shown["conversion_type"]))
    assert 0 < converted.num_rows < shown.num_rows
    assert shown["value"].null_count == shown["converted_ts"].null_count == shown["conversion_type"].null_count
    assert pa.compute.all(pa.compute.greater_equal(converted["converted_ts"], converted["event_ts"])).as_py()
    assert converted["conversion_type"].to_pylist() == converted["asks_for"].to_pylist()


def test_posts_and_ads_have_unit_types_and_full_vectors(everyday):
    rows = tables.content_rows(everyday, SCALE, 0)
    assert rows.schema == tables.CONTENT
    assert set(rows["kind"].to_pylist()) == {"post", "ad"}
    for name, dim in (("image_vector", 16), ("text_vector", 16), ("audio_vector", 8)):
        assert set(pa.compute.list_value_length(rows[name]).to_pylist()) == {dim}
    studied = rows.filter(pa.compute.equal(rows["kind"], "ad"))["measured_quality"]
    assert 0.2 < 1 - studied.null_count / len(studied) < 0.6


def test_a_newcomers_first_week_has_an_unknown_activity(everyday):
    rows = tables.user_rows(everyday, SCALE, 0, 64, 20).to_pylist()
    new = [row for row in rows if row["activity"] == "new"]
    assert new
    first = {}
    for row in rows:
        first.setdefault(row["user_id"], row)
    assert all(first[row["user_id"]] == row for row in new)


def test_a_range_without_users_gives_empty_tables(everyday):
    assert tables.organic_events(everyday, SCALE, 64, 80, DAY, DATE).num_rows == 0
    assert tables.logged_impressions(everyday, SCALE, 64, 80, DAY, DATE).num_rows == 0
