"""Rules of counters: each broken one is named; which counters share rows, and which is whose prior."""

from __future__ import annotations

import pytest

from gem_pipeline.contracts.counters import Counter, Counters, counter_faults


def counter(name, *keys, **changes):
    return Counter.model_validate({"name": name, "keys": keys, "source": "feed", "kinds": ["click"]} | changes)


def counters(*groups):
    return Counters(window_days=14, groups=groups)


def faults(*groups):
    found = counter_faults(counters(*groups), attributes=["owner"], kinds=["click", "like"], sources=["feed", "old"])
    return list(found)


ALL = counter("all")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (counter("a", "planet"), "counter a: unknown keys ['planet']"),
        (counter("a", "ad", "ad"), "counter a: a key is named twice"),
        (counter("a", "ad", kinds=["dance"]), "counter a: unknown kinds ['dance']"),
        (counter("a", "ad", kinds=["like"]), "counter a: source feed needs a counter without keys"),
        (counter("a", "ad", source="radio"), "counter a: unknown source radio"),
        (counter("a", window_days=14), "counter a: counts what all counts"),
    ],
)
def test_a_broken_rule_is_named(broken, says):
    assert any(fault.startswith(says) for fault in faults(ALL, broken))


def test_windows_and_lags_tell_counters_of_the_same_keys_apart():
    assert not faults(ALL, counter("user", "user"), counter("now", "user", lag="none"),
                      counter("week", "user", window_days=7))  # fmt: skip


@pytest.mark.parametrize("change", [{"lag": "hour"}, {"window_days": 0}])
def test_other_lags_and_empty_windows_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        counter("a", **change)


def test_counters_of_the_same_keys_and_source_are_stored_once_with_all_their_kinds():
    made = counters(ALL, counter("user", "user"), counter("now", "user", lag="none", kinds=["like"], window_days=30))
    assert [(c.name, c.kinds) for c in made.series] == [("all", ("click",)), ("user", ("click", "like"))]
    assert made.stored_as(made.groups[2]) == "user"
    assert made.longest_window_days == 30
    assert made.see_open_day


def test_the_prior_has_the_same_lag_and_window_or_lags_by_a_day():
    week, now = counter("week", window_days=7), counter("all_now", lag="none", window_days=1)
    made = counters(now, ALL, week)
    assert made.prior_of(counter("a", "ad", window_days=7)) == week
    assert made.prior_of(counter("a", "ad", lag="none", window_days=7)) == week
    assert made.prior_of(counter("a", "ad", lag="none", window_days=1)) == now
    assert made.prior_of(counter("a", "ad", lag="none", window_days=30)) == ALL
    assert made.prior_of(counter("a", "ad", kinds=["like"])) is None
