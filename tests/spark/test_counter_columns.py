"""Windows of one contract side by side; random logs are judged in test_examples."""

from __future__ import annotations

import pytest

from spark.open_day import key_sets
from tests.oracles.event_log import DATES, log_contract
from tests.spark.test_counters import impression
from tests.spark.test_user_events import event

pytestmark = pytest.mark.spark


def test_counters_of_the_same_keys_are_looked_up_once():
    contract = log_contract()
    assert len(key_sets(contract)) == len({c.keys for c in contract.counters.groups}) < len(contract.counters.groups)


def test_each_counter_looks_back_over_its_own_window(frames):
    shown = [impression(day, 60) for day in DATES]
    made = frames({"impressions": shown, "engagements": [event()]})
    rows = {
        r["date"]: (r["count__user_day"], r["count__user"], r["count__user_now"]) for r in made.examples().collect()
    }
    assert rows == {DATES[0]: (0, 0, 1), DATES[1]: (1, 1, 1), DATES[2]: (0, 1, 0), DATES[3]: (0, 0, 0)}
