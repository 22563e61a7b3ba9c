"""A small world whose click rate depends on ads, surfaces, dense inputs and the history."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.training.logistic_inputs import IdColumn, LogisticInputs, LogisticRows

OBJECTIVES = ("click", "buy")


def simulated_inputs(generator: np.random.Generator, num_rows: int) -> LogisticInputs:
    """Features of rows: one-hot ad, two tags, a history of 0 to 5 ads, three dense inputs, two surfaces."""
    length_N = generator.integers(0, 6, num_rows)
    return LogisticInputs(
        tokens=(
            IdColumn(name="ad", length_N=np.ones(num_rows, dtype=np.int64), id_V=generator.integers(0, 40, num_rows)),
            IdColumn(
                name="tags",
                length_N=np.full(num_rows, 2, dtype=np.int64),
                id_V=generator.integers(0, 6, 2 * num_rows),
            ),
        ),
        history=(IdColumn(name="event_ad", length_N=length_N, id_V=generator.integers(0, 10, int(length_N.sum()))),),
        surface_N=generator.integers(0, 2, num_rows),
        dense_NF=(5.0 + 3.0 * generator.normal(size=(num_rows, 3))).astype(np.float32),
        num_surfaces=2,
    )


def true_logits(inputs: LogisticInputs) -> NDArray[np.float64]:
    """Logit of a click [N]: the ad, and a dense input whose sign depends on the surface."""
    ad_effect = np.random.default_rng(99).normal(size=40)
    direction_N = np.where(inputs.surface_N == 0, 1.0, -1.0)
    return ad_effect[inputs.tokens[0].id_V] + direction_N * (inputs.dense_NF[:, 0] - 5.0) / 3.0 - 0.5


def simulated_rows(seed: int, *, num_rows: int = 3000, num_days: int = 3) -> LogisticRows:
    """Rows of several days; `buy` exists on surface 0 only."""
    generator = np.random.default_rng(seed)
    inputs = simulated_inputs(generator, num_rows)
    prob_N = 1.0 / (1.0 + np.exp(-true_logits(inputs)))
    label_NK = (generator.random((num_rows, 2)) < np.stack([prob_N, 0.2 * prob_N], axis=1)).astype(np.float32)
    mask_NK = np.stack([np.ones(num_rows, dtype=bool), inputs.surface_N == 0], axis=1)
    return LogisticRows(
        inputs=inputs,
        label_NK=label_NK,
        mask_NK=mask_NK,
        day_N=np.sort(generator.integers(1, num_days + 1, num_rows)),
        order_N=np.arange(num_rows),
    )
