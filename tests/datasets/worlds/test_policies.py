"""Reference policies give one probability a candidate, the same for whatever rows stand beside it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gem_pipeline.datasets.worlds import policies
from gem_pipeline.datasets.worlds.serve import Served
from gem_pipeline.datasets.worlds.traffic import event_id
from gem_pipeline.errors import ConfigError


def candidates(world, scale, served: list[Served]) -> pa.Table:
    """The shown ads of some days as candidates."""
    return pa.concat_tables(
        pa.table(
            {"request_id": event_id(part.slots.at, scale), "content_id": part.ad_N,
             "surface": np.array(world.surface_names())[part.slots.at.surface_N],
             "position": part.slots.at.position_N.astype(np.int32)}
        )
        for part in served
    )  # fmt: skip


@pytest.fixture
def rows(everyday, scale, served):
    return candidates(everyday, scale, served)


def test_the_truth_is_the_probability_without_the_hidden_latent(everyday, scale, served, rows):
    known = np.concatenate([part.truth.p_click_logged for part in served])
    np.testing.assert_allclose(policies.truth_policy(everyday, scale)(rows), known, rtol=1e-12)


def test_the_truth_does_not_depend_on_the_rows_beside(everyday, scale, rows):
    score = policies.truth_policy(everyday, scale, noise_std=0.5)
    some = np.array([17, 3, 4000, 5])
    np.testing.assert_allclose(score(rows.take(pa.array(some))), score(rows)[some], rtol=1e-12)


def test_noise_has_its_size_in_the_logit(everyday, scale, rows):
    def logit(prob):
        return np.log(prob / (1 - prob))

    error = logit(policies.truth_policy(everyday, scale, noise_std=0.5)(rows)) - logit(
        policies.truth_policy(everyday, scale)(rows)
    )
    assert error.std() == pytest.approx(0.5, rel=0.05)
    assert abs(error.mean()) < 0.03


def test_the_truth_of_no_candidate_is_empty(everyday, scale, rows):
    assert policies.truth_policy(everyday, scale)(rows.slice(0, 0)).shape == (0,)


def test_a_constant_is_constant_and_a_probability(rows):
    assert set(policies.constant_policy(0.1)(rows)) == {0.1}
    with pytest.raises(ConfigError, match="no probability"):
        policies.constant_policy(1.0)


def test_ads_have_their_own_smoothed_rates_and_new_ads_the_mean():
    log = pa.table({"content_id": [1] * 100 + [2] * 100, "is_click": [1] * 40 + [0] * 60 + [0] * 100})
    score = policies.ad_rate_policy(log, prior=100.0)(pa.table({"content_id": [2, 1, 3, 0]}))
    np.testing.assert_allclose(score, [0.1, 0.3, 0.2, 0.2])


def test_rates_need_a_click():
    with pytest.raises(ConfigError, match="no click"):
        policies.ad_rate_policy(pa.table({"content_id": [1], "is_click": [0]}))
