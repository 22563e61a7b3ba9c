"""The closed loop: pure days, honest arms, better policies earn more, and shared budgets make arms interfere."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from gem_pipeline.datasets.worlds.auction import AuctionConfig
from gem_pipeline.datasets.worlds.content import ads
from gem_pipeline.datasets.worlds.policies import ad_rate_policy, constant_policy, truth_policy
from gem_pipeline.datasets.worlds.population import all_days
from gem_pipeline.datasets.worlds.serving import CANDIDATE_ROWS, ServingLoop, split
from gem_pipeline.datasets.worlds.tables import SERVED
from gem_pipeline.errors import ConfigError, PolicyError
from tests.oracles.bounds import CHANCE
from tests.oracles.content_hash import content_hash

FREE = AuctionConfig(budget_scale=float("inf"))
SCARCE = AuctionConfig(budget_scale=0.3)
EVEN = {"treatment": 0.5, "control": 0.5}


@pytest.fixture(scope="module")
def dates(scale):
    return all_days(scale)[scale.history_days :]


@pytest.fixture(scope="module")
def loop(everyday, scale):
    """Makes a loop whose arms have one policy on all surfaces."""

    def make(arms, *, shares=None, config=AuctionConfig(), **options):  # noqa: B008 (frozen)
        policies = {arm: dict.fromkeys(everyday.surface_names(), policy) for arm, policy in arms.items()}
        assign = split(shares or {arm: 1 / len(arms) for arm in arms}, seed=3)
        return ServingLoop(world=everyday, scale=scale, policies=policies, assign=assign, config=config, **options)

    return make


@pytest.fixture(scope="module")
def truth(everyday, scale):
    return truth_policy(everyday, scale)


@pytest.fixture(scope="module")
def noisy(everyday, scale):
    return truth_policy(everyday, scale, noise_std=1.0)


@pytest.fixture(scope="module")
def true_day(loop, truth, dates):
    return loop({"only": truth}).serve(dates[2])


def expected_revenue(days, arm):
    """True expected revenue a request."""
    total = requests = 0.0
    for day in days:
        mine = day.log.filter(pa.compute.equal(day.log["policy"], arm))
        total += float(mine["p_click"].to_numpy() @ mine["price"].to_numpy().astype(np.float64))
        requests += next(row["requests"] for row in day.arms.to_pylist() if row["arm"] == arm)
    return total / requests


def test_a_day_is_the_same_again_and_in_any_ranges_of_users(loop, truth, dates, true_day):
    again = loop({"only": truth}, users_at_a_time=170).serve(dates[2])
    assert again.log.equals(true_day.log)
    assert again.advertisers.equals(true_day.advertisers)
    assert again.arms.equals(true_day.arms)


def test_the_log_is_a_served_table_whose_policy_is_the_arm(loop, truth, noisy, dates):
    day = loop({"treatment": truth, "control": noisy}).serve(dates[0])
    assert day.log.schema == SERVED
    shown = Counter(day.log["policy"].to_pylist())
    assert {row["arm"]: row["requests"] - row["unfilled"] for row in day.arms.to_pylist()} == shown
    assign = split(EVEN, seed=3)
    assert assign(day.log["user_id"].to_numpy()).tolist() == day.log["policy"].to_pylist()
    assert len(set(day.log["impression_id"].to_pylist())) == day.log.num_rows


def test_prices_and_the_report_agree_with_the_log(true_day, everyday, scale):
    log = true_day.log
    price, bid, click = (log[name].to_numpy().astype(np.float64) for name in ("price", "bid", "is_click"))
    assert (price <= bid).all()
    assert price.min() >= np.float32(AuctionConfig().reserve)
    spend = true_day.advertisers["spend"].to_numpy().sum()
    assert spend == pytest.approx((price * click).sum(), rel=1e-5)
    assert true_day.arms["revenue"][0].as_py() == pytest.approx(spend, rel=1e-5)
    assert true_day.arms["clicks"][0].as_py() == click.sum() == true_day.advertisers["clicks"].to_numpy().sum()
    assert true_day.arms["expected_clicks"][0].as_py() == pytest.approx(log["p_click"].to_numpy().sum())


def test_budget_bound_advertisers_still_spend_in_the_last_quarter(everyday, scale, loop, truth, dates):
    late, spending, bound = [], 0, 0
    for date in dates[:4]:
        day = loop({"only": truth}, config=SCARCE).serve(date)
        tight = day.advertisers.filter(pa.compute.greater(day.advertisers["utilisation"], 0.9))["advertiser_id"]
        clicked = day.log.filter(pa.compute.equal(day.log["is_click"], 1))
        last_quarter = np.quantile(day.log["event_ts"].to_numpy().astype(np.int64), 0.75)
        advertiser = ads(everyday, scale, clicked["content_id"].to_numpy()).advertiser_N
        mine = np.isin(advertiser, tight.to_numpy())
        in_quarter = clicked["event_ts"].to_numpy().astype(np.int64) > last_quarter
        late.extend(in_quarter[mine])
        bound += len(tight)
        spending += len(np.unique(advertiser[mine & in_quarter]))
    assert bound > 20
    assert np.mean(late) == pytest.approx(0.25, abs=0.07)
    assert spending > 0.5 * bound


def test_arms_with_the_same_policy_do_not_differ_beyond_chance(loop, truth, dates):
    day = loop({"treatment": truth, "control": truth}).serve(dates[1])
    one, other = day.arms.to_pylist()
    share = one["requests"] / (one["requests"] + other["requests"])
    assert stats.binomtest(one["clicks"], one["clicks"] + other["clicks"], share).pvalue > CHANCE
    assert one["expected_clicks"] / one["requests"] == pytest.approx(
        other["expected_clicks"] / other["requests"], rel=0.15
    )


def test_a_better_policy_earns_more_clicks_and_revenue(loop, truth, noisy, dates, true_day):
    constant = loop({"only": constant_policy(0.08)}).serve(dates[2])
    rough = loop({"only": noisy}).serve(dates[2])
    rate = loop({"only": ad_rate_policy(true_day.log, prior=20.0)}).serve(dates[2])
    clicks = [day.arms["expected_clicks"][0].as_py() for day in (constant, rate, rough, true_day)]
    assert clicks == sorted(clicks)
    free = [
        expected_revenue([loop({"only": policy}, config=FREE).serve(dates[2])], "only") for policy in (noisy, truth)
    ]
    assert free[1] > 1.1 * free[0]


def test_without_budgets_an_experiment_serves_each_user_as_a_roll_out_would(loop, truth, noisy, dates):
    both = loop({"treatment": truth, "control": noisy}, config=FREE).serve(dates[0]).log
    for arm, policy in (("treatment", truth), ("control", noisy)):
        whole = loop({arm: policy}, config=FREE).serve(dates[0]).log
        mine = both.filter(pa.compute.equal(both["policy"], arm))
        same_users = whole.filter(pa.compute.is_in(whole["user_id"], pa.compute.unique(mine["user_id"])))
        assert content_hash(same_users) == content_hash(mine)


def test_shared_budgets_make_an_experiment_differ_from_roll_outs(loop, truth, noisy, dates):
    """Roll-outs of both spend the same budgets; side by side, the better arm takes the other's."""
    days = dates[:3]
    apart = {
        arm: expected_revenue([loop({arm: policy}, config=SCARCE).serve(day) for day in days], arm)
        for arm, policy in (("treatment", truth), ("control", noisy))
    }
    both = [loop({"treatment": truth, "control": noisy}, config=SCARCE).serve(day) for day in days]
    side_by_side = {arm: expected_revenue(both, arm) for arm in apart}
    rolled_out = apart["treatment"] - apart["control"]
    measured = side_by_side["treatment"] - side_by_side["control"]
    assert measured > 2 * rolled_out
    assert side_by_side["control"] < apart["control"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [(lambda rows: np.full(rows.num_rows, np.nan), "scores that are no probability"),
     (lambda rows: np.full(rows.num_rows, 1.5), "scores that are no probability"),
     (lambda rows: np.linspace(-0.1, 1, rows.num_rows), "scores that are no probability"),
     (lambda _: np.zeros(3), "shape (3,)"), (lambda rows: np.zeros((rows.num_rows, 1)), "shape")],
)  # fmt: skip
def test_bad_scores_are_refused_with_arm_surface_and_count(everyday, scale, dates, truth, bad, said):
    policies = {"a": {**dict.fromkeys(everyday.surface_names(), truth), "photos": bad}}
    loop = ServingLoop(world=everyday, scale=scale, policies=policies, assign=split({"a": 1.0}, seed=0))
    with pytest.raises(PolicyError, match=f"Arm a on surface photos.*{re.escape(said)}"):
        loop.serve(dates[0])


def test_policies_see_only_what_a_platform_logs(loop, dates):
    seen = []

    def watching(rows):
        seen.append(rows)
        return np.full(rows.num_rows, 0.05)

    day = loop({"only": watching}).serve(dates[0])
    assert all(rows.schema == CANDIDATE_ROWS for rows in seen)
    assert {surface for rows in seen for surface in rows["surface"].to_pylist()} == {"feed", "photos", "messaging"}
    assert sum(len(set(rows["request_id"].to_pylist())) for rows in seen) == day.arms["requests"][0].as_py()


def test_unfilled_requests_are_counted_and_not_in_the_log(loop, dates):
    dear = AuctionConfig(reserve=3.0)
    day = loop({"only": constant_policy(0.1)}, config=dear).serve(dates[0])
    arm = day.arms.to_pylist()[0]
    assert 0 < day.log.num_rows == arm["requests"] - arm["unfilled"] < arm["requests"] / 2


def test_unknown_dates_arms_and_surfaces_are_refused(everyday, scale, loop, truth, dates):
    with pytest.raises(ConfigError, match="no impressions on 2025"):
        loop({"only": truth}).serve("2025-12-31")
    with pytest.raises(ConfigError, match="surfaces are"):
        ServingLoop(world=everyday, scale=scale, policies={"a": {"feed": truth}}, assign=split({"a": 1.0}, seed=0))
    with pytest.raises(ConfigError, match="no arm"):
        ServingLoop(world=everyday, scale=scale, policies={}, assign=split({"a": 1.0}, seed=0))
    with pytest.raises(ConfigError, match="unknown"):
        loop({"only": truth}, shares={"other": 1.0}).serve(dates[0])
    with pytest.raises(ConfigError, match="sum 1"):
        split({"a": 0.4, "b": 0.4}, seed=0)


def test_a_split_is_by_user_and_has_its_shares():
    users = np.arange(1, 20_001)
    assign = split({"a": 0.2, "b": 0.8}, seed=5)
    arms = assign(users)
    assert (assign(users[::-1]) == arms[::-1]).all()
    assert stats.binomtest(int((arms == "a").sum()), len(users), 0.2).pvalue > CHANCE
