"""A world's contract is the packaged one with a name and a size; its home keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.template import settle_world, world_contract
from gem_pipeline.errors import ConfigError


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_every_world_has_a_valid_contract_of_its_own(name):
    contract = DataContract.model_validate(yaml.safe_load(world_contract(name, events=50_000)))
    log = WorldLog.of(contract)
    assert (contract.name, log.world.name, contract.world.events) == (name, name, 50_000)
    assert set(log.world.kinds()) == set(contract.sequence.kinds)


def test_an_unknown_world_is_refused_with_the_names_that_there_are():
    with pytest.raises(ConfigError, match="long_range"):
        world_contract("nowhere", events=50_000)


def test_an_impossible_size_is_refused():
    with pytest.raises(ConfigError, match="10 000 or more"):
        world_contract("everyday", events=9)


def test_a_settled_world_keeps_its_size_and_shares_the_jars(tmp_path: Path):
    (tmp_path / "jars").mkdir()
    home, contract = settle_world(tmp_path, "drift", events=50_000)
    assert (home / "jars").resolve() == (tmp_path / "jars").resolve()
    assert settle_world(tmp_path, "drift", events=50_000) == (home, contract)
    with pytest.raises(ConfigError, match="another contract"):
        settle_world(tmp_path, "drift", events=60_000)
