"""The generated log is the same everywhere and holds the contract's columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gem_pipeline
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.datasets.generated import DAYS, GeneratedLog
from gem_pipeline.datasets.kuairand import HISTORY_DAY
from gem_pipeline.datasets.landing import open_source
from gem_pipeline.errors import DataSourceError

CONTRACT = load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml")


def test_every_time_is_an_instant_in_utc():
    log = GeneratedLog(rows_a_day=8)
    tables = [make(day) for day in log.days() for make in (log.impressions, log.engagements)]
    times = [field.type for table in tables for field in table.schema if pa.types.is_timestamp(field.type)]
    assert set(times) == {pa.timestamp("us", tz="UTC")}


def test_two_instances_generate_the_same_rows_in_any_order_of_days():
    one, two = GeneratedLog(), GeneratedLog()
    later = two.impressions(DAYS[3])
    assert one.impressions(DAYS[1]).equals(two.impressions(DAYS[1]))
    assert one.impressions(DAYS[3]).equals(later)
    assert not GeneratedLog(seed=1).impressions(DAYS[3]).equals(later)


def test_every_column_that_the_contract_names_is_there():
    log, tables = GeneratedLog(), CONTRACT.tables
    impressions, engagements = log.impressions(DAYS[0]), log.engagements(DAYS[0])
    assert {o.column for o in CONTRACT.objectives} <= set(impressions.column_names)
    roles = tables.engagements.model_dump(exclude={"path", "format", "copies_within_days"}).values()
    assert set(roles) <= set(engagements.column_names)
    for origin, rows in (("users", log.users()), ("ads", log.ads())):
        assert {f.column for f in CONTRACT.features if f.origin == origin} <= set(rows.column_names)


def test_an_outcome_is_never_known_before_its_impression():
    log = GeneratedLog()
    shown = log.impressions(DAYS[0])["event_ts"]
    known = log.engagements(DAYS[0])["event_ts"]
    assert pc.all(pc.greater_equal(known, shown)).as_py()
    assert pc.max(log.engagements(HISTORY_DAY)["event_ts"]).as_py() < pc.min(shown).as_py()


def test_the_size_of_the_log_may_be_chosen_and_belongs_to_its_identity():
    small = open_source(CONTRACT, "generated:40", Path())
    assert small.impressions(DAYS[0]).num_rows == 40
    assert small.users().num_rows == 10
    assert small.fingerprint(DAYS[0]) != GeneratedLog().fingerprint(DAYS[0])


def test_a_log_without_users_is_refused():
    with pytest.raises(DataSourceError, match="3 impressions a day"):
        GeneratedLog(rows_a_day=3)
