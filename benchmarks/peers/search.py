"""The same number of random trials of hyper-parameters for every peer and objective, chosen by NE on one day.

The first trial is a peer's default setting, the others are drawn from its space, independently and uniformly over
the listed values. Nothing but the day of choice is scored while it goes on.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.peers.trials import LIGHTGBM, LOGISTIC, NEURAL, PeerScores, PeerTrial, peer_scores
from benchmarks.trials.homes import Log, derived
from benchmarks.trials.judging import judged_rows
from gem_pipeline.metrics.ne import log_losses

Parameters = tuple[tuple[str, Any], ...]

_TREES: dict[str, Sequence[Any]] = {  # the default is the first value of each
    "learning_rate": (0.05, 0.02, 0.1),
    "num_leaves": (31, 7, 15, 63, 127),
    "min_data_in_leaf": (100, 20, 500),
    "feature_fraction": (0.7, 0.4, 1.0),
    "bagging_fraction": (0.8, 0.6, 1.0),
    "bagging_freq": (1,),
    "lambda_l2": (1.0, 0.0, 10.0, 100.0),
    "ids": ("small", "none", "all"),
}
_NETWORK: dict[str, Sequence[Any]] = {
    "embedding_dim": (16, 8, 32),
    "learning_rate": (1e-3, 3e-4, 2e-3),
    "hidden": ((256, 128, 64), (128, 64), (512, 256, 128)),
    "dropout": (0.1, 0.0, 0.3),
    "embedding_regularizer": (1e-5, 0.0, 1e-6, 1e-4),
    "batch_size": (1024, 512, 2048),
    "user_id": (False, True),
    "outcomes": (True, False),
    "passes": (4,),
}
_PENALTY: dict[str, Sequence[Any]] = {"inverse_penalty": (None, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.03, 0.12, 0.5)}
SPACES = {LIGHTGBM: _TREES, LOGISTIC: _PENALTY} | {name: {"model": (name,), **_NETWORK} for name in NEURAL}


def drawn(peer: str, trials: int) -> list[Parameters]:
    """Settings to be tried: the default, then draws that depend on the peer only."""
    rng = np.random.default_rng(zlib.crc32(peer.encode()))
    space = SPACES[peer]
    settings = [tuple((name, values[0]) for name, values in space.items())]
    return settings + [
        tuple((name, values[int(rng.integers(len(values)))]) for name, values in space.items())
        for _ in range(1, trials)
    ]


def searched(trial: PeerTrial, trials: int) -> tuple[Parameters, list[tuple[float, PeerScores]]]:
    """Try settings; the best, and the mean log loss of each on the day of choice. A single one is not tried.

    Args:
        trial: what is trained; its seed, judged days and parameters are not used.
        trials: settings to try.
    """
    if trials == 1:
        return drawn(trial.peer, 1)[0], []
    rows = judged_rows(trial.log, (trial.chosen_on,))
    column = _column(trial)
    known_N = rows.mask_NK[:, column]
    tried = []
    for parameters in drawn(trial.peer, trials):
        found = peer_scores(replace(trial, seed=0, judged=(trial.chosen_on,), parameters=parameters))
        losses_n = log_losses(rows.label_NK[known_N, column], found.prob_N[known_N].astype(np.float64))
        tried.append((float(losses_n.mean()), found))
    best = min(tried, key=lambda one: one[0])
    return best[1].trial.parameters, tried


def _column(trial: PeerTrial) -> int:
    return [objective.name for objective in derived(Log.parse(trial.log)).objectives].index(trial.objective)
