from __future__ import annotations

import pytest

from spark.profile import partition_profile
from tests.oracles.event_log import DATES, KINDS, SECOND, _start, increments_of, log_contract
from tests.spark.test_user_events import event

pytestmark = pytest.mark.spark


def counted(frame):
    return {
        (row["date"], row["counter"], row["key"]): [row["events"], *(row[f"kind__{kind}"] for kind in KINDS)]
        for row in frame.collect()
    }


def impression(day, seconds=0, **changes):
    at = _start(day) + seconds * SECOND
    row = {"iid": f"{day}+{seconds}", "uid": 1, "aid": 2, "place": "s1", "at": at, "got": at, "clicked": 0, "bought": 0,
           "slot": 1.0, "day": day}  # fmt: skip
    return row | changes


def total(frame, counter="all"):
    return {date: numbers[0] for (date, name, _), numbers in counted(frame).items() if name == counter}


@pytest.mark.parametrize("delay", [1, 2])
def test_two_thousand_random_logs_give_the_increments_of_the_oracle(logs, delay):
    from dataclasses import replace

    contract = log_contract(max_delay_days=delay)
    found = counted(replace(logs, contract=contract).increments())
    assert found == increments_of(logs.rows, contract)
    assert len({date for date, _, _ in found}) == len(DATES) - 1  # nothing can be known when the log begins


def test_a_range_of_dates_equals_day_by_day_runs(logs):
    contract = logs.contract
    together = {r["date"]: r for r in partition_profile(logs.increments(), contract, "counter_increments").collect()}
    for date in DATES[1:]:
        alone = partition_profile(logs.increments((date,)), contract, "counter_increments").first()
        assert alone == together[date]


def test_an_event_in_the_instant_of_the_opening_is_counted_a_day_later(frames):
    opening = _start(DATES[1])
    made = frames(
        {
            "impressions": [impression(day) for day in DATES[:3]],
            "engagements": [event(at=opening, got=opening), event(eid="before", at=opening - SECOND, got=opening)],
        }
    )
    assert total(made.increments(DATES[:3])) == {DATES[1]: 1, DATES[2]: 1}


def test_an_event_that_arrives_after_the_allowance_is_counted_when_it_was_known(frames):
    opening = _start(DATES[1])
    late = [event(eid=str(s), at=opening - SECOND, got=opening + s * SECOND) for s in (5, 6)]
    made = frames({"impressions": [impression(day) for day in DATES[:3]], "engagements": late})
    assert total(made.increments(DATES[:3])) == {DATES[1]: 1, DATES[2]: 1}


def test_an_event_that_arrives_beyond_the_delay_is_never_counted(frames):
    very_late = event(got=_start(DATES[2]) + 10 * SECOND)
    made = frames({"impressions": [impression(day) for day in DATES], "engagements": [very_late]})
    assert total(made.increments()) == {}
