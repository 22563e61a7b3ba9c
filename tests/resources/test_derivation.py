from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from gem_pipeline.batches.labels import known_conversions
from gem_pipeline.contracts.tables import ALL_DAYS
from gem_pipeline.errors import GateError, PartitionError, SchemaError
from gem_pipeline.quality.gate import read_gate, verify_gate
from tests.oracles.conversions import attributed, valid_once
from tests.oracles.event_log import DATES, SECOND, _start, events_of, examples_of, log_contract
from tests.resources.silver_lake import arrow, replace_day, silver_lake, write_bronze

pytestmark = pytest.mark.spark
TABLES = ("user_events", "counter_increments", "examples")


@pytest.fixture(scope="module")
def derived(spark, tmp_path_factory):
    """A lake that was derived for all dates at once; tests that change it derive into their own."""
    made = silver_lake(tmp_path_factory.mktemp("derived"), spark)
    made.published = made.derive()
    return made


def facts(made, table, day):
    return [row for row in made.rows[table] if row["day"] == day]


def test_every_date_is_published_with_its_gate(derived):
    assert set(derived.published) == {(table, date) for table in TABLES for date in DATES}
    for (table, date), partition in derived.published.items():
        marker = verify_gate(derived.home, derived.home / "lake", table, date, derived.contract)
        assert marker.content_hash == partition.fingerprint
        assert not partition.unchanged
    assert derived.content("user_events").num_rows == len(events_of(derived.rows))
    assert derived.content("examples").num_rows == len(examples_of(derived.rows, derived.contract))
    assert {check.name for check in derived.published["examples", DATES[0]].checks} >= {
        "zero_leaked_events",
        "no_nulls",
    }


def test_rows_that_were_left_out_are_in_the_quarantine_with_their_reason(derived):
    kept = derived.derivation.lake.read(derived.spark, "quarantine/user_events").groupBy("date").count().collect()
    counted = {d: sum(p.quarantined.values()) for (t, d), p in derived.published.items() if t == "user_events"}
    assert {row["date"]: row["count"] for row in kept} == {date: count for date, count in counted.items() if count}


def test_every_source_row_is_kept_or_quarantined_and_none_is_lost(derived):
    bronze = {"user_events": "engagements", "examples": "impressions"}
    for (table, date), partition in derived.published.items():
        if table in bronze:
            left = sum(partition.quarantined.values())
            assert partition.num_rows + left == len(facts(derived, bronze[table], date)), (table, date)


def test_rows_that_land_late_in_their_day_give_the_tables_of_rows_that_were_there(derived, spark, tmp_path):
    made = replace(derived, home=tmp_path, starts=0)
    some = {t: rows if t in ("users", "ads") else rows[::2] for t, rows in made.rows.items()}
    write_bronze(tmp_path, some)
    made.derive()
    for table in ("impressions", "engagements"):
        for day in DATES:
            replace_day(tmp_path, table, day, facts(made, table, day))
    made.derive()
    for table in TABLES:
        assert made.content(table).equals(derived.content(table)), table


def test_an_empty_day_is_refused_as_a_missing_one_is(derived, tmp_path):
    made = derived.copy(tmp_path)
    replace_day(tmp_path, "engagements", DATES[1], [])
    replace_day(tmp_path, "impressions", DATES[2], [])
    steps = {"engagements": ("user_events", DATES[1]), "impressions": ("examples", DATES[2])}
    for table, (step, emptied) in steps.items():
        for day in (emptied, "2024-03-03"):
            with pytest.raises(PartitionError, match=f"Table {table} has 0 rows for date {day}; at least 1"):
                getattr(made.derivation, step)([day])


def test_a_feature_that_the_contract_gained_is_added_to_the_table(derived, tmp_path):
    made = derived.copy(tmp_path)
    document = made.contract.model_dump(mode="json")
    document["features"].append(document["features"][2] | {"name": "age_again"})
    made.contract = type(made.contract).model_validate(document)
    made.derive(DATES[:1])
    rows = {row["impression_id"]: row for row in made.content("examples").to_pylist() if row["date"] == DATES[0]}
    assert any(row["age_again"] is not None for row in rows.values())
    assert all(row["age_again"] == row["age"] for row in rows.values())
    assert made.content("examples").num_rows == derived.content("examples").num_rows


def test_a_second_run_starts_no_spark_and_writes_nothing(derived):
    starts, versions = derived.starts, [derived.derivation.lake.version(table) for table in TABLES]
    again = derived.derive()
    assert all(partition.unchanged for partition in again.values())
    assert (derived.starts, [derived.derivation.lake.version(table) for table in TABLES]) == (starts, versions)


def test_only_what_depends_on_a_changed_day_is_derived_again(derived, tmp_path):
    made = derived.copy(tmp_path)
    version, rows = made.derivation.lake.version("user_events"), facts(made, "engagements", DATES[2])
    replace_day(tmp_path, "engagements", DATES[2], rows[::-1])
    same = made.derive()  # landed again, with the same rows in other files
    changed = [key for key, partition in same.items() if not partition.unchanged]
    assert changed == [("user_events", DATES[2]), ("user_events", DATES[3])]  # which looks for copies in the day before
    assert made.derivation.lake.version("user_events") == version
    at = _start(DATES[2]) + SECOND
    extra = {**rows[0], "eid": "new", "uid": 1, "aid": 1, "at": at, "got": at, "place": "s1", "stream": "feed"}
    replace_day(tmp_path, "engagements", DATES[2], [*rows, extra | {"acts": ["click"]}])
    after = made.derive()
    assert {key for key, partition in after.items() if not partition.unchanged} == {
        ("user_events", DATES[2]), ("user_events", DATES[3]), ("counter_increments", DATES[3]),
        ("examples", DATES[2]), ("examples", DATES[3]),  # counters of lag none see the events of the day itself
    }  # fmt: skip


def test_a_date_that_fails_is_not_published_and_the_others_are(derived, tmp_path):
    made = derived.copy(tmp_path)
    before = made.derivation.lake.fingerprints("user_events")
    bad = [row | {"place": "nowhere"} for row in facts(made, "engagements", DATES[1])]
    replace_day(tmp_path, "engagements", DATES[1], bad)
    with pytest.raises(GateError, match=f"not published for {DATES[1]}: .*rows_of_the_date"):
        made.derivation.user_events(DATES)
    assert made.derivation.lake.fingerprints("user_events") == before
    assert sum(read_gate(tmp_path, "user_events", DATES[1]).quarantined.values()) == len(bad)
    with pytest.raises(GateError, match=f"user_events, date {DATES[1]}, failed its quality gate"):
        made.derivation.counter_increments(DATES[2:3])


def test_a_missing_column_is_named_before_anything_is_computed(spark, tmp_path):
    made = silver_lake(tmp_path, spark, num_logs=5)
    document = made.contract.model_dump(mode="json")
    document["tables"]["engagements"]["value"] = "watched"
    made.contract = type(made.contract).model_validate(document)
    with pytest.raises(SchemaError, match="Table engagements lacks column watched"):
        made.derivation.user_events(DATES[:1])
    assert made.derivation.lake.fingerprints("user_events") == {}


def test_a_run_that_dies_between_commit_and_gate_is_completed_by_the_next(spark, tmp_path, monkeypatch):
    made = silver_lake(tmp_path, spark, num_logs=5)
    with monkeypatch.context() as patch:
        patch.setattr("resources.derivation.write_gate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made.derivation.user_events(DATES)
    with pytest.raises(GateError):
        verify_gate(tmp_path, tmp_path / "lake", "user_events", DATES[0], made.contract)
    made.derivation.user_events(DATES)
    verify_gate(tmp_path, tmp_path / "lake", "user_events", DATES[0], made.contract)


KILLED = """
import os, signal, sys
from pathlib import Path
from deltalake import DeltaTable
from resources.spark_session import spark_session
from tests.oracles.event_log import DATES
from tests.resources.silver_lake import silver_lake

home = Path(sys.argv[1])
made = silver_lake(home, None)
made.provider = lambda: spark_session(home, "local[2]")
DeltaTable.create_write_transaction = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # files are staged
made.derivation.user_events(DATES)
"""


@pytest.mark.slow
def test_a_killed_run_and_the_next_ones_in_two_parts_give_the_tables_of_one_run(derived, spark, tmp_path, jars):
    home, script, root = tmp_path / "home", tmp_path / "killed.py", Path(__file__).parents[2]
    home.mkdir()
    (home / "jars").symlink_to(jars)
    script.write_text(KILLED)
    result = subprocess.run(
        [sys.executable, str(script), str(home)], cwd=root, env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert result.returncode == -signal.SIGKILL, result.stderr[-2000:]
    made = silver_lake(home, spark)
    assert any((home / "lake/user_events").rglob("*.parquet"))
    assert read_gate(home, "user_events", DATES[0]) is None
    assert made.content("user_events").num_rows == 0
    published = made.derive(DATES[:2]) | made.derive(DATES[2:])
    assert {k: p.fingerprint for k, p in published.items()} == {k: p.fingerprint for k, p in derived.published.items()}
    for table in TABLES:
        assert made.content(table).equals(derived.content(table))


def test_an_impression_below_the_opening_of_the_day_before_is_refused(derived, tmp_path):
    made = derived.copy(tmp_path)
    early = [row | {"at": _start(DATES[0])} for row in facts(made, "impressions", DATES[1])]
    replace_day(tmp_path, "impressions", DATES[1], early)
    with pytest.raises(PartitionError, match="does not begin after"):
        made.derivation.counter_increments(DATES)


def gained(made):
    return {date: found for date, found in made.derivation.lake.fingerprints("attributed_conversions").items() if found}


def test_conversions_come_out_alike_in_whatever_order_their_days_are_derived(derived, tmp_path):
    days = sorted({row["day"] for row in derived.rows["conversions"]})
    at_once = derived.copy(tmp_path / "at_once")
    published = at_once.derivation.attributed_conversions(days)
    backwards = derived.copy(tmp_path / "backwards")
    for part in (days[2:], days[:2]):
        backwards.derivation.attributed_conversions(part)
    assert backwards.content("attributed_conversions").equals(at_once.content("attributed_conversions"))
    touches = [
        {"date": e["date"], "impression_id": e["id"], "user_id": e["user"], "ad_id": e["ad"], "impression_ts": e["at"],
         "label__click": e["click"]}
        for e in examples_of(derived.rows, derived.contract)
    ]  # fmt: skip
    expected = attributed(derived.rows | {"touches": touches}, derived.contract)
    assert at_once.content("attributed_conversions").num_rows == len(expected) > 50
    for partition in published:
        assert verify_gate(
            at_once.home, at_once.home / "lake", partition.table, partition.date, at_once.contract
        ).passed
    quarantined = Counter()
    for partition in published:
        quarantined.update(partition.quarantined)
    kept = {(row[3], row[4]) for row in expected}
    first = derived.contract.partition.first_day
    valid = [row for row in valid_once(derived.rows, derived.contract) if row["day"] >= first]
    assert quarantined["not attributed"] == len(valid) - len(kept)
    for date in DATES:  # what a reader without Spark makes of it
        known = known_conversions(at_once.contract, at_once.home / "lake", date, "2024-03-09")
        for objective, ids in known.impressions.items():
            assert set(ids.to_pylist()) == {row[1] for row in expected if (row[0], row[2]) == (date, objective)}
    starts = at_once.starts
    assert all(partition.unchanged for partition in at_once.derivation.attributed_conversions(days))
    assert at_once.starts == starts


def test_a_late_conversion_rewrites_exactly_the_partition_it_is_credited_to(derived, tmp_path):
    made = derived.copy(tmp_path)
    first = made.derivation.attributed_conversions(DATES)
    before, rows = gained(made), [row for row in made.rows["conversions"] if row["day"] == DATES[3]]
    (date, impression, *_), *_ = (c for c in credits_of(made) if c[0] == DATES[2] and c[2] == "order")
    touch = next(row for row in made.rows["impressions"] if row["iid"] == impression)
    late = {"cid": "late", "uid": touch["uid"], "aid": touch["aid"], "what": "purchase", "paid": None,
            "at": touch["at"] + SECOND, "got": touch["at"] + 86_400 * SECOND, "day": DATES[3]}  # fmt: skip
    replace_day(tmp_path, "conversions", DATES[3], [*rows, late])
    again = made.derivation.attributed_conversions([DATES[3]])
    after = gained(made)
    assert {day for day in after if after[day] != before.get(day)} == {date}
    content = {p.date: p.fingerprint for p in first}
    assert [p.date for p in again if p.fingerprint != content[p.date]] == [date]
    assert "late" in made.content("attributed_conversions")["conversion_key"].to_pylist()


def credits_of(made):
    rows = made.content("attributed_conversions").to_pylist()
    return [(row["date"], row["impression_id"], row["objective"], row["attribution"]) for row in rows]


def test_without_conversions_nothing_is_derived_and_no_session_starts(derived):
    plain = replace(derived, contract=log_contract(), starts=0)
    assert plain.derivation.attributed_conversions(DATES) == []
    assert plain.starts == 0
    assert plain.derivation.lake.version("attributed_conversions") is None


def put_pixels(made, ads, pixels):
    table = arrow("ads", ads).append_column("pixels", pa.array(pixels, pa.list_(pa.float32())))
    path = str(made.home / "lake" / "bronze" / "ads")
    write_deltalake(path, table, mode="overwrite", schema_mode="overwrite")


def test_vectors_are_derived_with_the_examples_and_again_only_when_their_dimension_changed(spark, tmp_path):
    made = silver_lake(tmp_path, spark, num_logs=5)
    document = made.contract.model_dump(mode="json")
    document["features"].append({"name": "image", "origin": "ads", "column": "pixels", "kind": "vector", "dim": 2})
    made.contract = type(made.contract).model_validate(document)
    ads = made.rows["ads"]
    pixels = [[float(row["aid"]), 1.0] if number % 5 else [1.0] for number, row in enumerate(ads)]
    put_pixels(made, ads, pixels)
    made.derive(DATES[:2])
    marker = verify_gate(tmp_path, tmp_path / "lake", "ad_vectors", ALL_DAYS, made.contract)
    assert marker.quarantined == {"image: wrong dimension": sum(len(p) == 1 for p in pixels)}
    stored = made.content("ad_vectors")
    assert stored.num_rows == marker.num_rows > 0
    starts, version = made.starts, made.derivation.lake.version("ad_vectors")
    assert [p.unchanged for p in made.derivation.vectors()] == [True]
    assert made.starts == starts
    put_pixels(made, [row | {"tags": "bid changed"} for row in ads], pixels)  # other rows, the same vectors
    assert [p.unchanged for p in made.derivation.vectors()] == [False]
    assert made.derivation.lake.version("ad_vectors") == version
    put_pixels(made, ads, [[9.0, 9.0]] * len(ads))
    assert [p.fingerprint for p in made.derivation.vectors()] != [marker.content_hash]
    assert made.derivation.lake.version("ad_vectors") == version + 1
