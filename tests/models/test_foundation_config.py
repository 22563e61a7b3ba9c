"""Shapes that cannot be are refused; a shape survives JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.config.ladder import SIZES
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation_config import FoundationConfig


@pytest.mark.parametrize(
    "change",
    [
        {"dense_hidden": (0,)},
        {"dropout": 1.0},
        {"embedding_std": 0.0},
        {"dim": 0},
        {"heads": 5},
        {"rank": 0},
        {"interaction": "deepfm"},
        {"interaction": "dlrm", "separate": True},
        {"interaction": "din", "one_directional": True},
    ],
)
def test_an_impossible_shape_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        FoundationConfig(**change)


@pytest.mark.parametrize("size", SIZES)
def test_the_shape_of_every_rung_survives_json(size: str) -> None:
    shape = SIZES[size]().foundation
    assert FoundationConfig.from_dict(json.loads(json.dumps(shape.to_dict()))) == shape


def test_a_reader_hands_over_what_is_attended_to_or_counted_whichever_is_more() -> None:
    shape = FoundationConfig(history=WindowSpec(max_events=64), match_windows=(4,), matched_events=1024)
    assert shape.read_window.max_events == 1024
    assert replace(shape, matched_events=0).read_window.max_events == 64
