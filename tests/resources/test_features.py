"""The derivation as a resource: making it starts no Spark."""

from __future__ import annotations

from resources.features import FeatureDerivation
from resources.settings import GemSettings


def test_making_a_derivation_starts_no_session(tmp_path, monkeypatch):
    started: list[str] = []
    monkeypatch.setattr("resources.spark_session.spark_session", lambda home, master: started.append(master))
    derivation = FeatureDerivation(master="local[1]").derivation(GemSettings(home=str(tmp_path)))
    assert started == []
    assert derivation.home == tmp_path
