"""A recipe reads the partitions that its dates need, and tells what it leaves out and which versions it read."""

from __future__ import annotations

import pytest

from resources.recipes import Recipes
from tests.oracles.event_log import DATES, left_out
from tests.resources.silver_lake import silver_lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    lake = silver_lake(tmp_path_factory.mktemp("recipes"), spark, num_logs=20)
    lake.derivation.user_events(DATES[:2])
    return lake


def recipes(made):
    derivation = made.derivation
    return Recipes(contract=made.contract, lake=derivation.lake, inputs=derivation.inputs)


def test_events_of_a_date_come_with_the_rows_of_the_date_that_are_none(made, spark):
    recipe = recipes(made).events(spark, DATES[1:2])
    sources = [row for row in made.rows["engagements"] if row["day"] == DATES[1]]
    assert {row["date"] for row in recipe.rows.select("date").distinct().collect()} == {DATES[1]}
    quarantined = recipe.left_out.rows(DATES[1:2])
    assert recipe.rows.count() + quarantined.count() == len(sources)
    wanted = {reason for (day, reason) in left_out(made.rows, "engagements") if day == DATES[1]}
    assert {row["reason"] for row in quarantined.select("reason").distinct().collect()} == wanted


def test_increments_leave_nothing_out_and_name_the_events_they_were_counted_from(made, spark):
    recipe = recipes(made).increments(spark, DATES[1:2])
    assert recipe.left_out is None
    assert recipe.lineage == {"user_events_version": made.derivation.lake.version("user_events")}
    assert {row["date"] for row in recipe.rows.select("date").distinct().collect()} == {DATES[1]}
