"""A small everyday world, its users and some served days, made once."""

from __future__ import annotations

import pytest

from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.population import users
from gem_pipeline.datasets.worlds.serve import logged_day
from gem_pipeline.datasets.worlds.world import Scale


@pytest.fixture(scope="session")
def everyday():
    return WORLDS["everyday"]


@pytest.fixture(scope="session")
def scale():
    return Scale(users=1000)


@pytest.fixture(scope="session")
def who(everyday, scale):
    return users(everyday, scale, 0, scale.users)


@pytest.fixture(scope="session")
def served(everyday, scale, who):
    """Impressions of three days, about 11 000."""
    return [logged_day(everyday, scale, who, day) for day in (0, 5, 9)]
