"""Builders of scored rows that the metric tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Labels, probabilities, weights and users of N rows."""

    label_N: NDArray[np.float64]
    prob_N: NDArray[np.float64]
    weight_N: NDArray[np.float64]
    user_N: NDArray[np.int64]

    def take(self, order_N: NDArray[np.int64]) -> Rows:
        """The same rows in another order, or a part of them."""
        return Rows(
            label_N=self.label_N[order_N],
            prob_N=self.prob_N[order_N],
            weight_N=self.weight_N[order_N],
            user_N=self.user_N[order_N],
        )

    @property
    def both_classes(self) -> bool:
        """Whether NE and AUC have a meaning."""
        return bool(0 < self.label_N.sum() < self.label_N.size)


@st.composite
def small_rows(draw: st.DrawFn, min_size: int = 0) -> Rows:
    """Few rows with many ties in score, several users, weights of very different size."""
    size = draw(st.integers(min_value=min_size, max_value=25))

    def column(values: st.SearchStrategy[float]) -> NDArray[np.float64]:
        return np.asarray(draw(st.lists(values, min_size=size, max_size=size)), dtype=np.float64)

    return Rows(
        label_N=column(st.sampled_from([0.0, 1.0])),
        prob_N=column(st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.0, 1.0))),
        weight_N=column(st.one_of(st.just(1.0), st.floats(0.01, 100.0))),
        user_N=column(st.sampled_from([3.0, 5.0, 7.0, 11.0])).astype(np.int64),
    )


def simulated_rows(seed: int, *, num_rows: int = 4000, num_users: int = 400) -> tuple[Rows, NDArray[np.float64]]:
    """Rows with a user effect, predictions of a decent model, and the true logits [N]."""
    generator = np.random.default_rng(seed)
    user_N = generator.integers(0, num_users, num_rows)
    logit_N = generator.normal(size=num_users)[user_N] + generator.normal(size=num_rows) - 0.5
    label_N = (generator.random(num_rows) < sigmoid(logit_N)).astype(np.float64)
    prob_N = sigmoid(logit_N + 0.3 * generator.normal(size=num_rows))
    return Rows(label_N=label_N, prob_N=prob_N, weight_N=np.ones(num_rows), user_N=user_N), logit_N


def sigmoid(logit_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of a logit."""
    return 1.0 / (1.0 + np.exp(-logit_N))
