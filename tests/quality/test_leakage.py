from __future__ import annotations

import pyarrow as pa
import pytest

from gem_pipeline.contracts import tables
from gem_pipeline.quality.leakage import event_columns, recount
from tests.oracles.event_log import log_contract

CONTRACT = log_contract()  # an allowance of 5 s
AT = 1_000_000_000


def impression(**claims):
    row = {"date": "d", "impression_us": AT, "user_id": 1, "ad_id": 2, "surface": "s1", "attribute__owner": 3}
    return row | dict.fromkeys(tables.counter_columns(CONTRACT), 0) | claims


def events(*rows):
    plain = {"event_ts": AT - 1, "ingest_ts": AT - 1, "user_id": 1, "ad_id": 2, "surface": "s1", "source": "feed",
             "actions": 0b010, "owner": 3}  # fmt: skip
    time = pa.timestamp("us", tz="UTC")
    types = {"event_ts": time, "ingest_ts": time, "surface": pa.string(), "source": pa.string(), "actions": pa.int32()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in event_columns(CONTRACT)])
    return pa.Table.from_pylist([plain | row for row in rows], schema=schema).to_batches()


def leaked(claims, *rows):
    return recount([impression(**claims)], events(*rows), CONTRACT)["d"].unexpected_count


def test_counters_up_to_the_events_before_the_impression_leak_nothing():
    assert leaked({"count__user": 1, "count__user__click": 1, "count__owner": 1, "count__ad_place": 1}, {}) == 0


@pytest.mark.parametrize(
    "event",
    [
        {"event_ts": AT, "ingest_ts": AT},  # in the same instant
        {"ingest_ts": AT + 5_000_001},  # a microsecond beyond the allowance
        {"user_id": 4},
        {"source": "import"},
        {"owner": None},
    ],
)
def test_an_event_that_was_not_seen_or_is_not_the_keys_cannot_be_counted(event):
    assert leaked({"count__owner": 1}, event) == 1


def test_an_event_at_the_edge_of_the_allowance_may_be_counted():
    assert leaked({"count__user": 1}, {"ingest_ts": AT + 5_000_000}) == 0


def test_batches_add_up_and_kinds_are_counted_apart():
    assert leaked({"count__user": 2, "count__user__click": 2, "count__user__like": 1}, {}, {"actions": 0b110}) == 0
    assert leaked({"count__user__like": 2}, {}, {"actions": 0b110}) == 1
