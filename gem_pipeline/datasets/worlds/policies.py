"""Reference policies for the serving loop: the truth, noisy truth, a constant, each ad's own rate. Ours.

A policy is any function from a table of candidates (`serving.CANDIDATE_ROWS`) to predicted click probabilities. The
truth reads the world instead of the log; it is a yardstick, no model can have it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.draws import Floats
from gem_pipeline.datasets.worlds.population import users
from gem_pipeline.datasets.worlds.response import moment, truth
from gem_pipeline.datasets.worlds.traffic import of_event_id
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.errors import ConfigError

Policy = Callable[[pa.Table], Floats]


def constant_policy(prob: float) -> Policy:
    """The same probability for everyone: the bid alone decides."""
    if not 0 < prob < 1:
        raise ConfigError(f"{prob} is no probability of a click.", remedy="Give one between 0 and 1.")

    def score(candidates: pa.Table) -> Floats:
        return np.full(candidates.num_rows, prob)

    return score


def truth_policy(world: World, scale: Scale, *, noise_std: float = 0.0, seed: int = 0) -> Policy:
    """True probability, the hidden latent integrated out, under noise in the logit (each request and ad its own)."""

    def score(candidates: pa.Table) -> Floats:
        if not candidates.num_rows:
            return np.zeros(0)
        request_R = candidates["request_id"].to_numpy()
        user_R, day_R, slot_R = of_event_id(request_R, scale)
        first, ad_R = int(user_R.min()) - 1, candidates["content_id"].to_numpy()
        surface_R = np.searchsorted(sorted(world.surface_names()), candidates["surface"].to_numpy(zero_copy_only=False))
        known_R = np.zeros(candidates.num_rows)
        for day in np.unique(day_R):
            rows = np.flatnonzero(day_R == day)
            at = moment(
                world, scale, users(world, scale, first, int(user_R.max())), int(day), row_N=user_R[rows] - 1 - first,
                slot_N=slot_R[rows], surface_N=np.argsort(world.surface_names())[surface_R[rows]],
                position_N=candidates["position"].to_numpy()[rows].astype(np.int64),
            )  # fmt: skip
            known_R[rows] = truth(world, scale, at, ad_R[rows]).p_click_logged
        if not noise_std:
            return known_R
        error_R = draws.normal(draws.key(seed, 70, request_R, ad_R), "policy")
        return np.asarray(expit(logit(known_R) + noise_std * error_R))

    return score


def ad_rate_policy(log: pa.Table, *, prior: float = 50.0) -> Policy:
    """Each ad's share of clicks in an earlier log, drawn towards the log's own by `prior` impressions.

    Raises:
        ConfigError: the log has no click.
    """
    ad_N, click_N = log["content_id"].to_numpy(), log["is_click"].to_numpy().astype(np.float64)
    if not click_N.sum():
        raise ConfigError("The log of the ads' rates has no click.", remedy="Give a log of more days or users.")
    known_A, at_N = np.unique(ad_N, return_inverse=True)
    rate_A = (np.bincount(at_N, click_N) + prior * click_N.mean()) / (np.bincount(at_N) + prior)

    def score(candidates: pa.Table) -> Floats:
        ad_R = candidates["content_id"].to_numpy()
        place_R = np.minimum(np.searchsorted(known_A, ad_R), len(known_A) - 1)
        return np.where(known_A[place_R] == ad_R, rate_A[place_R], click_N.mean())

    return score
