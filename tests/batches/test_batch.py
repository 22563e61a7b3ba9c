"""A batch moves as a whole."""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import VectorFeature
from tests.batches_factory import random_batch, small_layout

LENGTHS = [2, 0, 3]


def weighted_batch() -> Batch:
    batch = random_batch(small_layout(), LENGTHS)
    return replace(batch, weight_BK=torch.ones_like(batch.label_BK))


def test_size_is_the_number_of_examples_also_without_any_event():
    assert random_batch(small_layout(), LENGTHS).size == 3
    assert random_batch(small_layout(), [0]).size == 1


def test_every_tensor_moves_to_the_device():
    moved = weighted_batch().to(torch.device("meta"))
    for field in fields(moved):
        value = getattr(moved, field.name)
        if field.name in ("shared", "vectors", "event_vectors"):
            continue
        device = value.values().device if field.name == "ids" else value.device
        assert device.type == "meta", field.name


def test_values_and_types_stay_as_they_are():
    batch = weighted_batch()
    moved = batch.to(torch.device("cpu"))
    assert torch.equal(moved.ids.values(), batch.ids.values())
    assert torch.equal(moved.ids.lengths(), batch.ids.lengths())
    for field in fields(batch):
        if field.name not in ("ids", "shared", "vectors", "event_vectors"):
            before, after = getattr(batch, field.name), getattr(moved, field.name)
            assert before.dtype == after.dtype
            assert torch.equal(before, after), field.name


def test_vectors_move_along():
    layout = replace(small_layout(), vectors=(VectorFeature(name="image", dim=3),))
    vectors = random_batch(layout, LENGTHS).to(torch.device("meta")).vectors
    assert vectors is not None
    assert (vectors.value_BV.device.type, vectors.present_BF.device.type) == ("meta", "meta")
    assert vectors.value_BV.shape == (3, 3)


def test_a_batch_shown_anywhere_hides_the_surface_and_nothing_else():
    batch = random_batch(small_layout(), LENGTHS)
    hidden = batch.shown_anywhere("surface")
    assert not hidden.surface_B.any()
    before, after = batch.ids.to_dict(), hidden.ids.to_dict()
    assert not after["surface"].values().any()
    assert before["surface"].values().any()
    assert all(torch.equal(before[key].values(), after[key].values()) for key in before if key != "surface")
    assert all(torch.equal(before[key].lengths(), after[key].lengths()) for key in before)
    same = {field.name for field in fields(batch)} - {"ids", "surface_B"}
    assert all(getattr(hidden, name) is getattr(batch, name) for name in same)
