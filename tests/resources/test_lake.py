from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from gem_pipeline.batches.lake import SilverTable
from gem_pipeline.contracts import tables
from gem_pipeline.errors import DataSourceError, SchemaError
from resources.lake import DeltaLake
from tests.oracles.event_log import DATES, _start, log_contract
from tests.resources.silver_lake import arrow, replace_day, silver_lake

CONTRACT = log_contract()
EVENTS = tables.user_events(CONTRACT)


@pytest.fixture
def lake(tmp_path):
    made = DeltaLake(str(tmp_path / "lake"))
    made.ensure_table(EVENTS)
    return made


def publish(lake, frame, dates, schema=EVENTS):
    staged = lake.stage(frame, schema, dates)
    try:
        return lake.publish(staged, dates, {"why": "test"})
    finally:
        lake.discard(staged)


def counts(lake):
    rows = DeltaTable(lake.path("user_events")).to_pyarrow_table(columns=["date"])
    return {row["values"]: row["counts"] for row in rows["date"].value_counts().to_pylist()}


@pytest.mark.spark
def test_publishing_replaces_its_dates_in_one_commit_and_leaves_the_others(lake, logs):
    events = logs.events().cache()
    assert publish(lake, events, DATES) == 1
    before = counts(lake)
    fewer = events.filter(f"date != '{DATES[0]}' OR user_id % 2 = 0")
    assert publish(lake, fewer, DATES[:1]) == 2
    assert 0 < counts(lake)[DATES[0]] < before[DATES[0]]
    assert {d: n for d, n in counts(lake).items() if d != DATES[0]} == {
        d: n for d, n in before.items() if d != DATES[0]
    }
    assert '"why"' in DeltaTable(lake.path("user_events")).history(1)[0]["userMetadata"]


@pytest.mark.spark
def test_a_date_without_rows_becomes_empty(lake, logs):
    publish(lake, logs.events(), DATES[:1])
    publish(lake, logs.events().filter("false"), DATES[:1])
    assert counts(lake) == {}


@pytest.mark.spark
def test_a_partition_is_one_sorted_file_of_zstd(lake, logs):
    publish(lake, logs.events(), DATES[:2])
    files = [Path(path) for path in DeltaTable(lake.path("user_events")).file_uris()]
    assert len(files) == len({path.parent for path in files}) == 2 * CONTRACT.visibility.user_buckets
    for path in files:
        rows = pq.ParquetFile(path).read()
        order = [(name, "ascending") for name in EVENTS.sort_by]
        assert rows.equals(rows.sort_by(order))
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_new_table_has_the_plain_protocol_and_is_created_once(lake):
    assert lake.version("user_events") == 0
    lake.ensure_table(EVENTS)
    delta = DeltaTable(lake.path("user_events"))
    assert delta.version() == 0
    assert (delta.protocol().min_reader_version, delta.protocol().reader_features) == (1, None)
    assert delta.metadata().partition_columns == ["date", "bucket"]


def widened(**changes):
    columns = (*EVENTS.columns, tables.Column(name="weight", type="float", nullable=True))
    return replace(EVENTS, columns=tuple(replace(c, **changes.get(c.name, {})) for c in columns))


def test_a_column_that_may_be_null_is_added_by_one_commit_and_old_readers_go_on(lake, tmp_path):
    at = _start(DATES[0])
    row = {"date": DATES[0], "bucket": 0, "user_id": 1, "event_key": 7, "ad_id": 2, "surface": "s1", "source": "feed",
           "actions": 1, "value": None, "owner": None, "event_ts": at, "ingest_ts": at}  # fmt: skip
    write_deltalake(lake.path("user_events"), pa.Table.from_pylist([row], schema=EVENTS.arrow()), mode="append")
    new = widened()
    lake.ensure_table(new)
    assert lake.version("user_events") == 2
    lake.ensure_table(new)
    assert lake.version("user_events") == 2
    later = row | {"date": DATES[1], "weight": 0.5}
    write_deltalake(lake.path("user_events"), pa.Table.from_pylist([later], schema=new.arrow()), mode="append")
    old, now = (SilverTable(tmp_path / "lake", schema) for schema in (EVENTS, new))
    for table, names in ((old, EVENTS.column_names), (now, new.column_names)):
        table.require(names)
        read = table.part([("date", "in", list(DATES[:2]))]).read(names, pc.scalar(True))
        assert read.column_names == list(names)
        assert sorted(read["date"].to_pylist()) == list(DATES[:2])
    weights = now.part([("date", "in", list(DATES[:2]))]).read(("weight",), pc.scalar(True))["weight"].to_pylist()
    assert sorted(weights, key=str) == [0.5, None]
    assert DeltaTable(lake.path("user_events")).protocol().reader_features is None


@pytest.mark.parametrize(
    ("changes", "column"),
    [({"weight": {"nullable": False}}, "weight"), ({"value": {"type": "long"}}, "value")],
    ids=["never null", "retyped"],
)
def test_a_column_that_may_not_be_null_or_is_of_another_type_is_refused(lake, changes, column):
    with pytest.raises(SchemaError, match=rf"column\(s\) {column} differ"):
        lake.ensure_table(widened(**changes))
    assert lake.version("user_events") == 0


def test_a_table_of_another_contract_is_refused(lake):
    document = CONTRACT.model_dump(mode="json")
    document["sequence"]["attributes"] = []
    document["counters"]["groups"] = []
    other = tables.user_events(type(CONTRACT).model_validate(document))
    with pytest.raises(SchemaError, match="made by another contract: column\\(s\\) owner differ"):
        lake.ensure_table(other)


def test_a_table_that_is_not_there_has_no_version_and_no_partitions(tmp_path):
    lake = DeltaLake(str(tmp_path))
    assert lake.version("examples") is None
    assert lake.fingerprints("examples") == {}
    assert list(lake.batches("examples", [DATES[0]], ["date"])) == []


def test_bronze_days_have_a_fingerprint_and_their_rows(tmp_path):
    made = silver_lake(tmp_path, None)
    lake, ref = DeltaLake(str(tmp_path / "lake")), CONTRACT.tables.impressions
    before = lake.bronze_partitions(ref, "day", "impressions")
    rows = [row for row in made.rows["impressions"] if row["day"] == DATES[0]]
    assert before[DATES[0]][1] == len(rows)
    replace_day(tmp_path, "impressions", DATES[0], rows[:-1])
    after = lake.bronze_partitions(ref, "day", "impressions")
    assert [day for day in DATES if before[day] != after[day]] == [DATES[0]]


def test_a_bronze_table_without_day_partitions_is_refused(tmp_path):
    write_deltalake(str(tmp_path / "lake/bronze/impressions"), arrow("impressions", []))
    with pytest.raises(DataSourceError, match="not partitioned by its day column day"):
        DeltaLake(str(tmp_path / "lake")).bronze_partitions(CONTRACT.tables.impressions, "day", "impressions")


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_missing_bronze_table_is_named(tmp_path, form):
    lake, ref = DeltaLake(str(tmp_path)), CONTRACT.tables.users.model_copy(update={"format": form})
    with pytest.raises(DataSourceError, match="Table users was not found"):
        lake.bronze_fingerprint(ref, "users")
    with pytest.raises(DataSourceError, match="was not found"):
        lake.bronze_partitions(ref, "day", "users")


def test_parquet_days_are_folders(tmp_path):
    ref = CONTRACT.tables.impressions.model_copy(update={"format": "parquet", "path": "days"})
    (tmp_path / "days" / "day=2024-03-01").mkdir(parents=True)
    pq.write_table(arrow("users", []), tmp_path / "days" / "day=2024-03-01" / "a.parquet")
    found = DeltaLake(str(tmp_path)).bronze_partitions(ref, "day", "impressions")
    assert [(day, rows) for day, (_, rows) in found.items()] == [("2024-03-01", None)]
