"""The worlds are frozen: a small part of each has the content it had when it was published."""

from __future__ import annotations

import json

import pytest

from gem_pipeline.datasets.worlds.catalog import WORLDS, world_named
from gem_pipeline.errors import ConfigError
from tests.oracles.content_hash import GOLDEN, world_hashes


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_a_world_has_the_content_it_was_published_with(name):
    assert world_hashes(name) == json.loads(GOLDEN.read_text())[name], (
        "A frozen world changed. If that is meant: python -m tests.oracles.content_hash, and a line in CHANGELOG.md."
    )


def test_no_two_worlds_have_the_same_impressions():
    impressions = [hashes["impressions"] for hashes in json.loads(GOLDEN.read_text()).values()]
    assert len(set(impressions)) == len(impressions) == len(WORLDS)


def test_worlds_go_by_their_names_and_say_their_property():
    assert all(name == world.name and world.property.endswith(".") for name, world in WORLDS.items())
    assert world_named("drift") is WORLDS["drift"]


def test_an_unknown_world_is_refused_with_the_names_there_are():
    with pytest.raises(ConfigError, match="cold_start, drift"):
        world_named("flat")
