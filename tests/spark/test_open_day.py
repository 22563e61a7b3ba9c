"""What becomes visible within a day; random logs are judged in test_examples."""

from __future__ import annotations

import pytest

from spark.open_day import SLICE_US
from tests.oracles.event_log import DATES, SECOND, _start
from tests.spark.test_counters import impression
from tests.spark.test_user_events import event

pytestmark = pytest.mark.spark
SLICE_S = SLICE_US // 1_000_000


def said(made, column):
    return {r["impression_id"]: r[column] for r in made.examples().orderBy("impression_ts").collect()}


def test_an_event_counts_from_the_microsecond_after_it_and_is_counted_once_the_day_after(frames):
    opening = _start(DATES[0])
    shown = [impression(DATES[0], seconds) for seconds in (0, 2, 3, 9 * SLICE_S)] + [impression(DATES[1])]
    made = frames({"impressions": shown, "engagements": [event(at=opening + 2 * SECOND, got=opening + 2 * SECOND)]})
    wanted = {f"{DATES[0]}+0": 0, f"{DATES[0]}+2": 0, f"{DATES[0]}+3": 1, f"{DATES[0]}+{9 * SLICE_S}": 1,
              f"{DATES[1]}+0": 1}  # fmt: skip
    for counter in ("user_now", "all_now", "place_now"):
        assert said(made, f"count__{counter}") == wanted, counter


def test_sums_cross_the_slices_of_keys_that_everyone_shares(frames):
    opening = _start(DATES[0])
    times = [opening + (slice_of * SLICE_S + 1) * SECOND for slice_of in (0, 0, 1, 3)]
    events = [event(eid=str(place), uid=place, at=at, got=at) for place, at in enumerate(times)]
    shown = [impression(DATES[0], slice_of * SLICE_S) for slice_of in range(6)]
    found = said(frames({"impressions": shown, "engagements": events}), "count__all_now")
    assert list(found.values()) == [0, 2, 3, 3, 4, 4]
