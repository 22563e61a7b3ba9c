"""Rungs of the ladder are whole runs; an unknown rung is refused."""

from __future__ import annotations

import pytest

from gem_pipeline.config.ladder import SIZES, run_config
from gem_pipeline.errors import ConfigError


def test_every_rung_builds():
    for size in SIZES:
        assert run_config(size) == run_config(size)


def test_an_unknown_rung_names_the_known_ones():
    with pytest.raises(ConfigError, match="tiny"):
        run_config("colossal")
