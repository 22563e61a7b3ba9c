"""Embeddings average multi-hot ids, share tables and take empty histories."""

from __future__ import annotations

import pytest
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.layout import IdFeature, InputLayout
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.embeddings import FeatureEmbeddings, mean_by_segment, newest_events
from tests.batches_factory import random_batch, small_layout


def table(model: FeatureEmbeddings, name: str) -> torch.Tensor:
    return model.collection.embeddings[name].weight


def test_tokens_average_their_ids_and_events_keep_one_vector_an_id() -> None:
    layout = small_layout()
    batch, model = random_batch(layout, [2, 0, 3]), FeatureEmbeddings(layout, 4, init_std=0.1)
    embedded = model(batch.ids)
    parts = batch.ids.to_dict()
    for place, feature in enumerate(layout.tokens):
        rows = torch.split(parts[feature.name].values(), parts[feature.name].lengths().tolist())
        expected = torch.stack([table(model, feature.table)[row].mean(dim=0) for row in rows])
        torch.testing.assert_close(embedded.token_BND[:, place], expected)
    for vectors, feature in zip(embedded.event_TD, layout.event_ids, strict=True):
        assert torch.equal(vectors, table(model, feature.table)[parts[feature.name].values()])
    assert embedded.offsets_B1.tolist() == [0, 2, 2, 5]


def test_features_that_name_one_table_share_its_rows() -> None:
    model = FeatureEmbeddings(small_layout(), 4, init_std=0.1)
    names = [name for name, _ in model.named_parameters()]
    assert names == [f"collection.embeddings.{name}.weight" for name in ("ad", "content", "place")]


def test_a_token_without_any_id_gives_zeros() -> None:
    layout = small_layout()
    ids = KeyedJaggedTensor(
        keys=list(layout.keys), values=torch.tensor([3, 1]), lengths=torch.tensor([1, 1, 0, 0, 0], dtype=torch.int64)
    )
    embedded = FeatureEmbeddings(layout, 4, init_std=0.1)(ids)
    assert not embedded.token_BND[0, 2].any()
    assert embedded.event_TD[0].shape == (0, 4)


def test_embeddings_of_a_batch_without_events_send_gradients_to_the_tokens() -> None:
    layout = small_layout()
    model = FeatureEmbeddings(layout, 4, init_std=0.1)
    model(random_batch(layout, [0, 0]).ids).token_BND.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_the_mean_of_an_empty_segment_is_zero() -> None:
    means = mean_by_segment(torch.tensor([[2.0], [4.0]]), torch.tensor([0, 2, 0]))
    assert means.tolist() == [[0.0], [3.0], [0.0]]


def test_the_newest_events_are_kept_and_the_tokens_stay() -> None:
    layout = small_layout()
    batch = random_batch(layout, [4, 0, 1])
    shorter, kept = newest_events(batch.ids, layout, 2)
    assert kept.tolist() == [2, 3, 4]
    old, new = batch.ids.to_dict(), shorter.to_dict()
    for feature in layout.event_ids:
        assert torch.equal(new[feature.name].values(), old[feature.name].values()[kept])
        assert new[feature.name].lengths().tolist() == [2, 0, 1]
    for feature in layout.tokens:
        assert torch.equal(new[feature.name].values(), old[feature.name].values())


def test_the_same_seed_gives_the_same_tables() -> None:
    def draw() -> torch.Tensor:
        torch.manual_seed(3)
        return table(FeatureEmbeddings(small_layout(), 4, init_std=0.1), "ad")

    assert torch.equal(draw(), draw())


def test_a_feature_of_an_undeclared_table_is_refused() -> None:
    document = small_layout().to_dict()
    layout = InputLayout.from_dict(document | {"tokens": [{"name": "ad", "table": "nowhere"}]})
    assert layout.tokens == (IdFeature(name="ad", table="nowhere"),)
    with pytest.raises(ConfigError, match="nowhere"):
        FeatureEmbeddings(layout, 4, init_std=0.1)
