"""Settings of reading that cannot work are refused."""

from __future__ import annotations

import pytest

from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.errors import ConfigError


@pytest.mark.parametrize(
    "change",
    [
        {"max_resident_bytes": 0},
        {"prefetch": -1},
        {"batch_events": -1},
        {"max_vector_bytes": -1},
        {"keep_together": "surface"},
    ],
)
def test_an_impossible_setting_is_refused(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        ReaderConfig(**change)


def test_the_slice_in_use_is_held_beside_those_that_are_read_ahead():
    assert [ReaderConfig(prefetch=ahead).slices_held for ahead in (0, 1, 3)] == [1, 2, 4]
