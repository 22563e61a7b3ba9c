"""Settings that cannot work are refused by name."""

from __future__ import annotations

import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.training.settings import CellShare, NegativeSampling, TrainConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"epochs": 0},
        {"dense_lr": -1.0},
        {"grad_clip": 0.0},
        {"final_rate": 1.5},
        {"averaging_horizon": -1},
    ],
)
def test_a_setting_outside_its_range_is_named(wrong):
    good = {"batch_size": 8, "dense_lr": 1e-3, "embedding_lr": 1e-2}
    TrainConfig(**good)
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TrainConfig(**{**good, **wrong})


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_of_negatives_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match="share of negatives"):
        NegativeSampling(share=share)
    with pytest.raises(ConfigError, match="share of negatives"):
        CellShare(objective="click", share=share)


def test_sampling_is_active_where_any_cell_leaves_something_out():
    assert not NegativeSampling().active
    assert NegativeSampling(share=0.5).active
    assert NegativeSampling(cells=(CellShare(objective="click", share=0.5),)).active
