"""Worlds land day by day, atomically, idempotently, and faults end in quarantine or at the gate."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.policies import constant_policy, truth_policy
from gem_pipeline.datasets.worlds.serving import ServingLoop, split
from gem_pipeline.errors import GateError, PartitionError
from resources.derivation import Derivation
from resources.lake import DeltaLake
from resources.worlds import TRUTH, WorldLanding
from spark.faults import DRIFTED_COLUMN
from tests.world_factory import world_contract

TABLES = ("bronze/impressions", "bronze/engagements", TRUTH)


def landing(home, spark, **choice):
    contract = world_contract(events=15_000, days=4, history_days=1, **choice)
    return WorldLanding(contract=contract, log=WorldLog.of(contract), home=home, spark_provider=lambda: spark, tasks=2)


def derivation_of(world, spark, home):
    lake = DeltaLake(str(home / "lake"))
    return Derivation(contract=world.contract, lake=lake, spark_provider=lambda: spark, home=home)


def content(home, table, date=None):
    rows = DeltaTable(str(home / "lake" / table)).to_pyarrow_table()
    rows = rows.sort_by([(name, "ascending") for name in ("date", rows.column_names[0])])
    return rows if date is None else rows.filter(pc.equal(rows["date"], date))


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    home = tmp_path_factory.mktemp("world")
    world = landing(home, spark)
    world.land(world.log.days())
    return home


def test_days_landed_one_by_one_in_any_order_are_the_days_landed_at_once(spark, landed, tmp_path):
    world = landing(tmp_path, spark)
    for date in reversed(world.log.days()):
        world.land((date,))
    for table in TABLES:
        assert content(tmp_path, table).equals(content(landed, table)), table


def test_landing_again_writes_nothing(spark, landed):
    world = landing(landed, spark)
    before = [DeltaTable(str(landed / "lake" / table)).version() for table in TABLES]
    assert {day.unchanged for day in world.land(world.log.days())} == {True}
    assert [DeltaTable(str(landed / "lake" / table)).version() for table in TABLES] == before


def test_a_day_whose_landing_was_cut_off_is_not_complete_and_is_landed_anew(spark, landed):
    world = landing(landed, spark)
    date = world.log.days()[2]
    before = content(landed, "bronze/engagements")
    (landed / "landed" / f"{date}.json").unlink()  # as after a kill: tables written, marker not
    again = world.land(world.log.days())
    assert [day.date for day in again if not day.unchanged] == [date]
    assert content(landed, "bronze/engagements").equals(before)


def test_a_day_outside_the_world_is_refused(spark, tmp_path):
    with pytest.raises(PartitionError, match="1999-01-01"):
        landing(tmp_path, spark).land(("1999-01-01",))
    assert not (tmp_path / "lake").exists()


def test_a_day_served_by_another_policy_makes_it_and_the_days_after_it_land_anew(spark, tmp_path):
    world = landing(tmp_path, spark)
    days = world.log.days()
    world.land(days)
    served = content(tmp_path, TRUTH, days[2])
    world.put_truth(days[2], served.slice(0, served.num_rows // 2), policy="half")
    again = world.land(days)
    assert [day.date for day in again if not day.unchanged] == list(days[2:])
    assert content(tmp_path, "bronze/impressions", days[2]).num_rows == served.num_rows // 2
    assert content(tmp_path, "bronze/impressions", days[1]).num_rows == content(tmp_path, TRUTH, days[1]).num_rows


def test_a_day_that_a_serving_loop_answered_is_landed_as_the_platform_logs_it(spark, tmp_path):
    world = landing(tmp_path, spark)
    days = world.log.days()
    arms = {arm: dict.fromkeys(world.log.world.surface_names(), policy) for arm, policy in (
        ("better", truth_policy(world.log.world, world.log.scale)), ("blind", constant_policy(0.1)),
    )}  # fmt: skip
    loop = ServingLoop(
        world=world.log.world, scale=world.log.scale, policies=arms, assign=split({"better": 0.5, "blind": 0.5}, seed=1)
    )
    answered = loop.serve(days[2])
    world.put_truth(days[2], answered.log, policy="trial")
    world.land(days[:3])
    rows = content(tmp_path, "bronze/impressions", days[2])
    assert set(rows["policy"].to_pylist()) == {"better", "blind"}
    assert sorted(rows["impression_id"].to_pylist()) == sorted(answered.log["impression_id"].to_pylist())
    seen = content(tmp_path, "bronze/engagements", days[2])
    shown = seen.filter(pc.equal(pc.list_element(seen["actions"], 0), "ad_view"))
    assert shown.num_rows == rows.num_rows
    assert set(content(tmp_path, "bronze/impressions", days[1])["policy"].to_pylist()) == {"logged-1"}


def test_every_injected_fault_is_quarantined_with_its_count_and_none_is_lost(spark, tmp_path):
    world = landing(tmp_path, spark, faults={"duplicates": 0.05, "nulls": 0.03, "late": 0.04, "reordered": True})
    days = world.log.days()[:3]
    world.land(days)
    bronze = content(tmp_path, "bronze/engagements")
    made = derivation_of(world, spark, tmp_path).user_events(days)
    reasons = Counter()
    for day in made:
        reasons.update(day.quarantined)
        rows = pc.sum(pc.equal(bronze["date"], day.date)).as_py()
        assert day.num_rows + sum(day.quarantined.values()) == rows, day.date
    assert set(reasons) == {"null user_id", "null ad_id", "null event_ts", "duplicate id"}
    assert 0.04 < reasons["duplicate id"] / bronze.num_rows < 0.06


def test_a_column_more_and_one_that_is_empty_from_a_day_on_change_no_event(spark, landed, tmp_path):
    plain = landing(landed, spark)
    days = plain.log.days()[:3]
    drifted = landing(tmp_path, spark, faults={"drift_from": days[1]})
    drifted.land(days)
    assert DRIFTED_COLUMN in content(tmp_path, "bronze/engagements").column_names
    found = [
        derivation_of(world, spark, home).user_events(days) for world, home in ((plain, landed), (drifted, tmp_path))
    ]
    assert [day.fingerprint for day in found[0]] == [day.fingerprint for day in found[1]]


def test_a_corrupt_day_stops_at_the_gate_and_the_others_pass(spark, tmp_path):
    corrupt = world_contract(events=15_000, days=4, history_days=1).partition.last_day
    world = landing(tmp_path, spark, faults={"corrupt_days": [corrupt]})
    world.land(world.log.days())
    derivation = derivation_of(world, spark, tmp_path)
    with pytest.raises(GateError, match=str(corrupt)):
        derivation.user_events(world.log.days())
    assert set(DeltaLake(str(tmp_path / "lake")).fingerprints("user_events")) == set(world.log.days()) - {corrupt}
