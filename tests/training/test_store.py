"""Models appear whole or not at all, keep their content, and one is in force a date."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ModelStoreError
from gem_pipeline.training.store import ModelStore

WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1], dtype=torch.int64)}


def save(store, date="2022-05-01", model_id="a1", weights=WEIGHTS, **kinds):
    return store.save("gem", date, model_id, weights=weights, config={"kind": "x"}, report={"loss": 1.5}, **kinds)


def test_what_is_stored_comes_back_bit_by_bit(tmp_path):
    stored = save(ModelStore(tmp_path), optimizer={"steps": torch.tensor([3])})
    assert all(torch.equal(stored.weights()[name], value) for name, value in WEIGHTS.items())
    assert int(stored.optimizer()["steps"][0]) == 3
    assert stored.config() == {"kind": "x"}
    assert stored.report() == {"loss": 1.5}


def test_a_model_that_is_there_is_kept_and_put_in_force(tmp_path):
    store = ModelStore(tmp_path)
    save(store)
    save(store, model_id="b2")
    assert store.require("gem", "2022-05-01").model_id == "b2"
    again = save(store, weights={"w": torch.zeros(1)})
    assert torch.equal(again.weights()["w"], WEIGHTS["w"])
    assert store.require("gem", "2022-05-01").model_id == "a1"


def test_a_half_written_model_is_never_seen(tmp_path, monkeypatch):
    store = ModelStore(tmp_path)

    def die(*_args, **_kinds):
        raise KeyboardInterrupt

    monkeypatch.setattr("gem_pipeline.training.store.save_file", die)
    with pytest.raises(KeyboardInterrupt):
        save(store)
    monkeypatch.undo()
    assert store.current("gem", "2022-05-01") is None
    assert store.find("gem", "2022-05-01", "a1") is None
    assert torch.equal(save(store).weights()["w"], WEIGHTS["w"])


def test_missing_models_and_states_are_plain_errors(tmp_path):
    store = ModelStore(tmp_path)
    with pytest.raises(ModelStoreError, match="Model gem of date 2022-05-01 does not exist"):
        store.require("gem", "2022-05-01")
    with pytest.raises(ModelStoreError, match="without optimiser state"):
        save(store).optimizer()
    (tmp_path / "models" / "gem" / "2022-05-01" / "current.json").write_text("{")
    with pytest.raises(ModelStoreError, match="cannot be read"):
        store.current("gem", "2022-05-01")
