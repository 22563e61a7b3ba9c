"""A stored configuration is read back whole, or refused by name."""

from __future__ import annotations

import json

import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.vertical import VerticalConfig


def test_a_configuration_survives_json() -> None:
    config = VerticalConfig(dim=4, hidden=(8, 4))
    document = json.loads(json.dumps(config.to_dict())) | {"history": config.history}
    assert read_config(VerticalConfig, document) == config


@pytest.mark.parametrize(("change", "named"), [({"surprise": 1}, "surprise"), ({"dim": None}, "dim")])
def test_unknown_and_missing_entries_are_named(change: dict[str, int | None], named: str) -> None:
    document = {key: value for key, value in {**VerticalConfig().to_dict(), **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=named):
        read_config(VerticalConfig, document)
