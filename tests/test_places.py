"""Places: the environment wins, an empty variable counts as none."""

from __future__ import annotations

from pathlib import Path

from gem_pipeline import places


def test_environment_names_every_place(monkeypatch):
    for name, value in (("GEM_HOME", "h"), ("GEM_CONTRACT", "c.yaml"), ("GEM_DATA", "generated")):
        monkeypatch.setenv(name, value)
    assert (places.home_path(), places.contract_path()) == (Path("h"), Path("c.yaml"))
    assert places.named_data() == "generated"


def test_empty_variables_mean_the_defaults(monkeypatch):
    for name in ("GEM_HOME", "GEM_CONTRACT", "GEM_DATA"):
        monkeypatch.setenv(name, "")
    assert places.home_path() == Path(".gem")
    assert places.contract_path().read_text().startswith("# The data contract")
    assert places.named_data() is None
