"""Places: the environment wins, an empty variable counts as none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gem_pipeline import places
from gem_pipeline.errors import ConfigError


def test_environment_names_every_place(monkeypatch):
    for name, value in (("GEM_HOME", "h"), ("GEM_CONTRACT", "c.yaml"), ("GEM_DATA", "generated")):
        monkeypatch.setenv(name, value)
    assert (places.home_path(), places.contract_path()) == (Path("h"), Path("c.yaml"))
    assert places.named_data() == "generated"


def test_environment_names_what_runs_are_made_of(monkeypatch):
    monkeypatch.setenv("GEM_SIZE", "small+light")
    monkeypatch.setenv("GEM_REPLAY_DAYS", "5")
    assert (places.run_size(), places.replay_days()) == ("small+light", 5)


@pytest.mark.parametrize("told", ["-1", "two", "1.5"])
def test_an_impossible_number_of_days_is_refused(monkeypatch, told):
    monkeypatch.setenv("GEM_REPLAY_DAYS", told)
    with pytest.raises(ConfigError, match="GEM_REPLAY_DAYS"):
        places.replay_days()


def test_empty_variables_mean_the_defaults(monkeypatch):
    for name in ("GEM_HOME", "GEM_CONTRACT", "GEM_DATA", "GEM_SIZE", "GEM_REPLAY_DAYS"):
        monkeypatch.setenv(name, "")
    assert (places.run_size(), places.replay_days()) == ("tiny", 0)
    assert places.home_path() == Path(".gem")
    assert places.contract_path().read_text().startswith("# The data contract")
    assert places.named_data() is None
