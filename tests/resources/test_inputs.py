from __future__ import annotations

import pytest
from deltalake import write_deltalake

from gem_pipeline.errors import DataSourceError, GateError, PartitionError
from resources.inputs import SilverInputs
from resources.lake import DeltaLake
from tests.oracles.event_log import DATES, _start, log_contract
from tests.resources.silver_lake import arrow, replace_day, silver_lake


@pytest.fixture
def inputs(tmp_path):
    silver_lake(tmp_path, None)
    return SilverInputs(contract=log_contract(), lake=DeltaLake(str(tmp_path / "lake")), home=tmp_path)


def test_windows_follow_the_days_that_have_impressions(inputs):
    assert [inputs.previous_day(date) for date in DATES] == [None, *DATES[:3]]
    assert inputs.counted_partitions(DATES[0]) == ()
    assert inputs.counted_partitions(DATES[3]) == (DATES[2],)
    assert inputs.counted_partitions(DATES[2]) == DATES[:2]
    assert inputs.window_days(DATES[2]) == DATES[:3]  # the longest window


def test_windows_and_partitions_follow_what_the_counters_ask_for(inputs):
    assert inputs.open_partitions(DATES[3]) == DATES[2:]
    assert inputs.open_partitions(DATES[2]) == DATES[2:3]  # the day before has no rows
    document = log_contract().model_dump(mode="json")
    lagged = [c for c in document["counters"]["groups"] if c["lag"] == "day"]
    document["counters"]["groups"] = lagged
    inputs.contract = type(log_contract()).model_validate(document)
    assert inputs.open_partitions(DATES[3]) == ()
    assert inputs.window_days(DATES[2]) == (DATES[1], DATES[2])  # three calendar days, one without rows


def test_a_fingerprint_changes_with_its_day_and_no_other(inputs, tmp_path):
    before = [inputs.user_events(date) for date in DATES]
    replace_day(tmp_path, "engagements", DATES[1], [r for r in silver_rows(1) if r["day"] == DATES[1]])
    inputs.refresh()
    after = [inputs.user_events(date) for date in DATES]
    assert [one != other for one, other in zip(before, after, strict=True)] == [False, True, False, False]


def test_events_depend_on_the_days_in_which_their_copies_may_lie_and_on_no_later_one(inputs, tmp_path):
    assert [inputs.days_of_copies(date) for date in DATES] == [(), DATES[:1], (), DATES[2:3]]
    before = [inputs.user_events(date) for date in DATES]
    replace_day(tmp_path, "engagements", DATES[2], [r for r in silver_rows(1) if r["day"] == DATES[2]])
    inputs.refresh()
    after = [inputs.user_events(date) for date in DATES]
    assert [one != other for one, other in zip(before, after, strict=True)] == [False, False, True, True]


def silver_rows(seed):
    from tests.oracles.event_log import random_logs

    return random_logs(30, seed)["engagements"]


def test_a_day_without_rows_is_named_with_its_count_and_threshold(inputs):
    with pytest.raises(PartitionError, match="engagements has 0 rows for date 2024-03-03; at least 1"):
        inputs.user_events("2024-03-03")


def test_a_day_below_the_threshold_is_refused(inputs):
    document = log_contract().model_dump(mode="json")
    document["partition"]["min_impressions"] = 10_000
    inputs.contract = type(log_contract()).model_validate(document)
    with pytest.raises(PartitionError, match=r"impressions has \d+ rows for date 2024-03-01; at least 10000"):
        inputs.examples(DATES[0])


def test_counters_ask_for_the_events_of_the_days_before(inputs):
    with pytest.raises(GateError, match="Table user_events, date 2024-03-01, has no quality gate"):
        inputs.counter_increments(DATES[1])


def test_a_missing_dimension_is_named(inputs, tmp_path):
    (tmp_path / "lake/bronze/ads").rename(tmp_path / "elsewhere")
    with pytest.raises(DataSourceError, match="Table ads was not found"):
        inputs.user_events(DATES[0])


def test_days_must_open_in_the_order_of_their_dates(inputs):
    with pytest.raises(PartitionError, match="2024-03-02 does not begin after date 2024-03-01"):
        inputs.opened_days(DATES[1:2], {DATES[0]: 5, DATES[1]: 5})
    with pytest.raises(PartitionError, match="no valid row for date 2024-03-01"):
        inputs.opened_days(DATES[1:2], {DATES[1]: 5})


def test_events_depend_on_the_users_only_where_these_may_opt_out(inputs, tmp_path):
    document = log_contract().model_dump(mode="json")
    document["tables"]["users"]["opt_out"] = None
    silent = SilverInputs(contract=type(log_contract()).model_validate(document), lake=inputs.lake, home=tmp_path)
    before = [one.user_events(DATES[0]) for one in (inputs, silent)]
    users = [{"uid": 1, "age": None, "since": _start(DATES[0]), "hidden": True}]
    write_deltalake(str(tmp_path / "lake/bronze/users"), arrow("users", users), mode="overwrite")
    after = [one.user_events(DATES[0]) for one in (inputs, silent)]
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, False]
