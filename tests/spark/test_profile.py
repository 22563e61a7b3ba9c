from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from spark.profile import content_hash, partition_profile
from tests.spark.test_user_events import event

pytestmark = pytest.mark.spark


def test_the_content_hash_tells_rows_apart_and_ignores_their_order(spark):
    def digest(values):
        frame = spark.createDataFrame([(v,) for v in values], "v int").repartition(3)
        return frame.agg(content_hash(["v"]).alias("h")).first()["h"]

    assert digest([1, 2, 3]) == digest([3, 1, 2])
    assert len({digest(values) for values in ([1, 2], [1, 3], [1, 2, 2], [1, 2, 2, 2], [])}) == 5


def test_each_date_has_its_rows_and_statistics(frames):
    made = frames({"engagements": [event(), event(eid="f", uid=9, acts=["click", "view"])]})
    row = partition_profile(made.events(), made.contract, "user_events").first()
    assert (row["num_rows"], row["stat__users"], row["stat__events__view"], row["stat__events__click"]) == (2, 2, 2, 1)
    assert made.events().filter(F.lit(False)).count() == 0
