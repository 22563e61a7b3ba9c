"""Staged files are written once, are no part of the table before their commit, and say what is in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from gem_pipeline.contracts.tables import Column, TableSchema
from gem_pipeline.errors import SchemaError
from resources.lake import DeltaLake

AT = datetime(2024, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
ODD = "a:b c%/=\u00fc"
KINDS = TableSchema(
    name="kinds",
    columns=(
        Column(name="date", type="string"),
        Column(name="bucket", type="int"),
        Column(name="at", type="timestamp"),
        Column(name="many", type="long"),
        Column(name="few", type="byte", nullable=True),
        Column(name="amount", type="float", nullable=True),
        Column(name="text", type="string", nullable=True),
        Column(name="words", type="array<string>", nullable=True),
        Column(name="vector", type="array<float>", nullable=True),
    ),
    partition_by=("date", "bucket"),
    sort_by=("at", "many"),
    key=("many",),
)
ROW = {"date": "2024-03-01", "bucket": -3, "at": AT, "many": -(2**63), "few": -128, "amount": 0.5, "text": "x",
       "words": ["a", None], "vector": [1.0, 2.0]}  # fmt: skip
NOTHING = {"few": None, "amount": None, "text": None, "words": None, "vector": None}
ROWS = [
    ROW,
    ROW | NOTHING | {"many": 2**63 - 1},
    ROW | NOTHING | {"date": "2024-03-02"},
    ROW | {"date": ODD, "text": "z" * 5000, "bucket": 7},
    ROW | {"date": ODD, "text": "y", "bucket": 7, "many": 5, "words": []},
]
DATES = tuple(sorted({row["date"] for row in ROWS}))


@pytest.fixture
def lake(tmp_path):
    made = DeltaLake(str(tmp_path / "lake"))
    made.ensure_table(KINDS)
    return made


def staged(lake, spark, rows=ROWS, dates=DATES):
    frame = spark.createDataFrame([tuple(row[c.name] for c in KINDS.columns) for row in rows],
                                  KINDS.ddl().replace(" NOT NULL", ""))  # fmt: skip
    return lake.stage(frame, KINDS, dates)


def files(lake):
    return sorted(path for path in Path(lake.path("kinds")).rglob("*.parquet") if "_delta_log" not in path.parts)


def content(lake):
    rows = DeltaTable(lake.path("kinds")).to_pyarrow_table(columns=list(KINDS.column_names)).to_pylist()
    return sorted(rows, key=str)


@pytest.mark.spark
def test_every_type_and_partition_value_comes_back_as_it_was_staged_with_and_without_spark(lake, spark):
    made = staged(lake, spark)
    assert content(lake) == []
    assert [row.asDict() for row in made.rows.limit(0).collect()] == []
    assert made.rows.columns == list(KINDS.column_names)
    lake.publish(made, DATES, {})
    expected = sorted(ROWS, key=str)
    assert content(lake) == expected
    spark_rows = lake.read(spark, "kinds").collect()
    read = [row.asDict() | {"at": row["at"].astimezone(UTC)} for row in spark_rows]
    assert sorted(read, key=str) == expected
    assert [
        r["many"] for r in lake.read(spark, "kinds").filter(f"date = '{ODD}' AND bucket = 7 AND many = 5").collect()
    ] == [5]
    assert DeltaTable(lake.path("kinds")).protocol().reader_features is None


@pytest.mark.spark
def test_rows_are_found_by_a_condition_on_any_flat_column(lake, spark):
    lake.publish(staged(lake, spark), DATES, {})
    rows = DeltaTable(lake.path("kinds")).to_pyarrow_dataset()
    conditions = {
        "at": pc.scalar(pa.scalar(AT, pa.timestamp("us", tz="UTC"))), "many": pc.scalar(5), "few": pc.scalar(-128),
        "amount": pc.scalar(0.5), "text": pc.scalar("z" * 5000),
    }  # fmt: skip
    found = {name: rows.count_rows(filter=pc.field(name) == value) for name, value in conditions.items()}
    assert found == {"at": 5, "many": 1, "few": 3, "amount": 3, "text": 1}
    late = pc.field("at") > conditions["at"]
    assert list(rows.get_fragments(late)) == [], "its bound is exact, so no file is opened"
    stats = [json.loads(line)["add"]["stats"] for line in _log(lake) if "add" in json.loads(line)]
    assert sorted(json.loads(one)["numRecords"] for one in stats) == [1, 2, 2]
    assert all(len(one) < 1000 for one in stats)


def _log(lake):
    return (Path(lake.path("kinds")) / "_delta_log" / "00000000000000000001.json").read_text().splitlines()


@pytest.mark.spark
def test_what_was_not_published_is_discarded_and_what_was_stays(lake, spark):
    made = staged(lake, spark)
    assert len(files(lake)) == 3
    lake.publish(made, (ODD,), {})
    lake.discard(made)
    assert [str(path) for path in files(lake)] == [DeltaTable(lake.path("kinds")).file_uris()[0]]
    assert {row["date"] for row in content(lake)} == {ODD}
    lake.discard(staged(lake, spark))
    assert len(files(lake)) == 1


@pytest.mark.spark
def test_a_failed_staging_leaves_no_files(lake, spark):
    broken = spark.range(4).selectExpr(
        "IF(id = 3, raise_error('broken'), '2024-03-01') AS date", "0 AS bucket", "now() AS at", "id AS many",
        "0Y AS few", "0F AS amount", "'' AS text", "array('') AS words", "array(0F) AS vector",
    )  # fmt: skip
    with pytest.raises(Exception, match="broken"):
        lake.stage(broken, KINDS, DATES)
    assert [path.name for path in Path(lake.path("kinds")).iterdir()] == ["_delta_log"]


@pytest.mark.spark
def test_nulls_where_none_may_be_are_refused_by_the_commit(lake, spark):
    made = staged(lake, spark, [ROW | {"many": None}])
    with pytest.raises(SchemaError, match=r"nulls in column\(s\) many"):
        lake.publish(made, DATES, {})
    lake.discard(made)
    assert (lake.version("kinds"), files(lake)) == (0, [])


@pytest.mark.spark
def test_publishing_twice_is_publishing_once_and_rows_without_a_date_are_left_behind(lake, spark):
    made = staged(lake, spark, [*ROWS, ROW | {"date": None}])
    assert [lake.publish(made, DATES, {}) for _ in range(2)] == [1, 1]
    lake.discard(made)
    assert len(files(lake)) == 3


@pytest.mark.spark
def test_commits_that_come_in_between_are_built_upon(lake, spark, monkeypatch):
    first, second = staged(lake, spark, ROWS[:2]), staged(lake, spark, ROWS[2:3])
    rival = staged(lake, spark, [ROW | {"text": "rival"}])
    commit, others = DeltaTable.create_write_transaction, [(second, ("2024-03-02",)), (rival, ("2024-03-01",))]

    def overtaken(self, *args, **named):
        if others:
            made, dates = others.pop()
            lake.publish(made, dates, {})
        return commit(self, *args, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    assert lake.publish(first, ("2024-03-01",), {}) == 3
    assert content(lake) == sorted(ROWS[:3], key=str)
