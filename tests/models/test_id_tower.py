"""The network over all frequent ids equals its equation, leaves rare features out and finds those that matter."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import IdFeature, TableSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.embeddings import FeatureEmbeddings
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.id_tower import STEEPNESS, IdTower
from gem_pipeline.models.support import EXAMPLES, Support
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.settings import TrainConfig
from tests.batches_factory import batch_of_ids, random_batch, small_layout

NAMES = tuple("abcdefgh")
LAYOUT = replace(
    small_layout(),
    tables=(*small_layout().tables, TableSpec(name="own", rows=64)),
    tokens=tuple(IdFeature(name=name, table="own", origin="users") for name in NAMES),
)


def tower(hidden: tuple[int, ...] = (6, 5), *, names: tuple[str, ...] = NAMES[:3], dim: int = 2) -> IdTower:
    torch.manual_seed(0)
    return IdTower(names, dim, hidden, 2, init_std=0.05, dropout=0.0)


def batch_of(ids: list[dict[str, list[int]]]) -> Batch:
    return batch_of_ids(LAYOUT, ids)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1.0, EXAMPLES - 0.5, EXAMPLES, 500.0]), min_size=3, max_size=3), st.integers(1, 4))
def test_logits_equal_the_network_written_out(support, rows):
    module = tower()
    torch.nn.init.normal_(module.log_gate_KN, std=0.2)
    module.fit(torch.tensor(support))
    x_BND = torch.randn(rows, 3, 2)
    for row, objective in itertools.product(range(rows), range(2)):
        first, second, last = (module.networks[objective][place] for place in (0, 2, 4))
        joined: list[float] = []
        for place in range(3):
            log_gate = STEEPNESS * module.log_gate_KN[objective, place]
            gate = float(torch.exp(log_gate)) if support[place] >= EXAMPLES else 0.0
            joined += [float(value) / 0.05 * gate for value in x_BND[row, place]]
        hidden = torch.nn.functional.silu(second(torch.nn.functional.silu(first(torch.tensor(joined)))))
        torch.testing.assert_close(module(x_BND)[row, objective], last(hidden)[0], atol=1e-4, rtol=1e-4)


def test_an_objective_does_not_disturb_the_network_of_another():
    module, x_BND = tower(), torch.randn(4, 3, 2)
    module(x_BND)[:, 1].sum().backward()
    first, second = ([p.grad for p in network.parameters()] for network in module.networks)
    assert not any(grad is not None and grad.any() for grad in first)
    assert all(grad.any() for grad in second)
    assert not module.log_gate_KN.grad[0].any()
    assert module.log_gate_KN.grad[1].any()


def test_what_is_rare_is_not_heard():
    module, x_BND = tower(), torch.randn(4, 3, 2)
    module.fit(torch.tensor([100.0, 2.0, 100.0]))
    other_BND = x_BND.clone()
    other_BND[:, 1] = torch.randn(4, 2)
    assert torch.equal(module(x_BND), module(other_BND))
    assert set(module.widest(3)) == {"a", "c"}
    other_BND[:, 0] = torch.randn(4, 2)
    assert not torch.allclose(module(x_BND), module(other_BND))


@settings(max_examples=20)
@given(
    st.lists(
        st.fixed_dictionaries({name: st.lists(st.integers(0, 63), max_size=3) for name in NAMES}),
        min_size=1, max_size=12,
    ),
    st.integers(1, 5),
)  # fmt: skip
def test_support_is_what_counting_finds_whatever_the_batches(ids, size):
    module = tower(names=NAMES)
    support = Support(module)
    for first in range(0, len(ids), size):
        support.add(batch_of(ids[first : first + size]))
    support.fix()
    for name, found in zip(NAMES, module.support_F.tolist(), strict=True):
        seen = [value for row in ids for value in row[name]]
        assert found == (pytest.approx(len(seen) / len(set(seen))) if seen else float("inf"))
    assert module.is_fitted == all(any(row[name] for row in ids) for name in NAMES)


def test_gates_open_for_the_features_that_matter_and_close_for_the_others():
    """Clicks depend on three of eight features together, on none of them and no two of them alone."""
    torch.manual_seed(1)
    model = torch.nn.ModuleDict(
        {"ids": FeatureEmbeddings(LAYOUT, 8, init_std=0.05), "tower": tower((64, 64), names=NAMES, dim=8)}
    )
    optimizer = ModelOptimizer(model, TrainConfig(batch_size=256, dense_lr=2e-3, embedding_lr=0.003))
    losses = []
    for step in range(400):
        generator = torch.Generator().manual_seed(step)
        drawn_BN = torch.randint(0, 4, (256, len(NAMES)), generator=generator)
        batch = batch_of(
            [
                {name: [8 * place + int(i)] for place, (name, i) in enumerate(zip(NAMES, row, strict=True))}
                for row in drawn_BN
            ]
        )
        label_B = ((drawn_BN[:, :3] // 2).sum(dim=1) % 2).float()
        logit_B = model["tower"](model["ids"](batch.ids).token_BND)[:, 0]
        losses.append(float(loss := torch.nn.functional.binary_cross_entropy_with_logits(logit_B, label_B)))
        optimizer.step(loss)
    gate = dict(zip(NAMES, model["tower"].gates()[0].tolist(), strict=True))
    assert set(model["tower"].widest(3)) == {"a", "b", "c"}
    assert min(gate[name] for name in "abc") > 2 * max(gate[name] for name in "defgh")
    assert sum(losses[-20:]) / 20 < 0.3  # from 0.69


@pytest.mark.parametrize("id_tables", ["hashed", "lfu"])
def test_a_model_adds_the_logits_of_its_ids(id_tables):
    layout = small_layout() if id_tables == "hashed" else small_layout().managed()
    torch.manual_seed(0)
    model = FoundationModel(layout, FoundationConfig(dim=8, id_tables=id_tables, tower_hidden=(8,))).eval()
    batch = random_batch(small_layout(), [3, 0, 5])
    assert model.tower is not None
    found, heard = model(batch).logit_BK.detach(), []
    model.tower.register_forward_hook(lambda _module, _given, out: heard.append(out))
    told = model(batch).logit_BK
    for network in model.tower.networks:
        torch.nn.init.zeros_(network[-1].weight)
        torch.nn.init.zeros_(network[-1].bias)
    silent = model(batch).logit_BK
    torch.testing.assert_close(told, silent + heard[0])
    torch.testing.assert_close(found, told.detach())
    assert heard[0].any()


def test_a_layer_without_a_unit_is_refused():
    with pytest.raises(ConfigError):
        FoundationConfig(tower_hidden=(8, 0))
