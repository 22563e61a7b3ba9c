"""The generated log is the same everywhere and holds the contract's columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

import gem_pipeline
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.datasets.generated import DAYS, GeneratedLog
from gem_pipeline.datasets.kuairand import HISTORY_DAY

CONTRACT = load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml")


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
    roles = tables.engagements.model_dump(exclude={"path", "format"}).values()
    assert set(roles) <= set(engagements.column_names)
    for origin, rows in (("users", log.users()), ("ads", log.ads())):
        assert {f.column for f in CONTRACT.features if f.origin == origin} <= set(rows.column_names)


def test_an_outcome_is_never_known_before_its_impression():
    log = GeneratedLog()
    shown = log.impressions(DAYS[0])["event_ts"]
    known = log.engagements(DAYS[0])["event_ts"]
    assert pc.all(pc.greater_equal(known, shown)).as_py()
    assert pc.max(log.engagements(HISTORY_DAY)["event_ts"]).as_py() < pc.min(shown).as_py()
