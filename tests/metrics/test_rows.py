"""Row checks: what every metric refuses."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.rows import checked_scores, checked_weights, user_positions


def test_users_are_numbered_in_the_order_of_their_ids() -> None:
    position_N, num_users = user_positions([70, -3, 70, 5], num_rows=4)
    assert position_N.tolist() == [2, 0, 2, 1]
    assert num_users == 3


def test_users_of_another_length_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 users for 2 labels"):
        user_positions([1, 2, 3], num_rows=2)


def test_infinite_scores_can_be_ranked_and_nan_cannot() -> None:
    assert checked_scores([-np.inf, np.inf], num_rows=2).size == 2
    with pytest.raises(ConfigError, match="NaN"):
        checked_scores([np.nan, 0.0], num_rows=2)


def test_missing_weights_are_ones() -> None:
    assert checked_weights(None, num_rows=2).tolist() == [1.0, 1.0]
