"""Rungs of the ladder are whole runs of a stated cost; `base` runs every block, and no block idles."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import DID_PREFIX, InputLayout
from gem_pipeline.config.ladder import SIZES, base, run_config
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.flops import count_parameters, forward_flops, without_storage
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.near_attention import NearConfig
from gem_pipeline.models.pyramid import PyramidConfig
from gem_pipeline.training.loop import LossCurve, joint_loss, learn
from gem_pipeline.training.optimizer import ModelOptimizer
from tests.batches_factory import kuairand_layout, random_batch
from tests.style.sources import ROOT

# Dense parameters, and forward FLOPs of an example with a full history, on the packaged contract.
COSTS = {
    "tiny": (0.373e6, 3.8e6),
    "small": (2.96e6, 66.3e6),
    "base": (20.1e6, 1.05e9),
    "large": (145e6, 23.4e9),
    "xl": (1.36e9, 481e9),
}
BASE = base().foundation
ABLATIONS: dict[str, FoundationConfig] = {
    "static Y": replace(BASE, attentive_y=False),
    "no cross-layer attention": replace(BASE, cross_layer=False),
    "no experts": replace(BASE, experts=ExpertConfig()),
    "no domain tokens": replace(BASE, domain=replace(BASE.domain, tokens=0)),
    "no domain experts and norms": replace(BASE, domain=replace(BASE.domain, expert_width=0)),
    "no domain parts": replace(BASE, domain=DomainConfig()),
    "no mask on events": replace(BASE, event_mask=0),
    "no pyramid": replace(BASE, pyramid=PyramidConfig()),
    "one branch less": replace(BASE, pyramid=replace(BASE.pyramid, branches=BASE.pyramid.branches[:2])),
    "learned queries for seed pooling": replace(BASE, kunlun=replace(BASE.kunlun, pooling="pma")),
    "every level does all": replace(BASE, kunlun=replace(BASE.kunlun, comp_skip=False)),
    "a window for blocks": replace(BASE, kunlun=replace(BASE.kunlun, near=NearConfig(kind="window"))),
    "another activation": replace(BASE, kunlun=replace(BASE.kunlun, activation="silu")),
    "another scale of time": replace(BASE, kunlun=replace(BASE.kunlun, time_scale_s=3600.0)),
    "one recent token less": replace(BASE, num_recent=BASE.num_recent - 1),
    "InterFormer": replace(BASE, backbone="interformer"),
    "HSTU": replace(BASE, backbone="hstu"),
    "Transformer": replace(BASE, backbone="transformer"),
}


def small_tables() -> InputLayout:
    """The packaged layout over tables of a few rows."""
    document = kuairand_layout().to_dict()
    tables = [{**table, "rows": min(table["rows"], 40)} for table in document["tables"]]
    return InputLayout.from_dict(document | {"tables": tables})


def realistic_batch(lengths: list[int]) -> Batch:
    """A batch whose events carry few kinds each, so that every branch of the pyramid has events."""
    layout = small_tables()
    batch = random_batch(layout, lengths, multi_hot=())
    kinds = [i for i, name in enumerate(layout.event_dense) if name.startswith(DID_PREFIX)]
    numbers_TE = batch.event_dense_TE.clone()
    numbers_TE[:, kinds] = (numbers_TE[:, kinds] > 1.2).float()
    return replace(batch, event_dense_TE=numbers_TE)


@functools.cache
def built(config: FoundationConfig) -> FoundationModel:
    torch.manual_seed(0)
    return FoundationModel(small_tables(), config).eval()


@torch.no_grad()
def logits(config: FoundationConfig) -> torch.Tensor:
    """Scores of a model that has the weights of `base` wherever it has such weights."""
    model, weights = built(config), built(BASE).state_dict()
    own = model.state_dict()
    model.load_state_dict(
        {n: weights[n] if n in weights and weights[n].shape == w.shape else w for n, w in own.items()}
    )
    return model(realistic_batch([0, 70, 150])).logit_BK


@pytest.mark.parametrize("size", [pytest.param(size, marks=[pytest.mark.slow] * (size == "xl")) for size in SIZES])
def test_a_rung_costs_what_the_ladder_says(size: str) -> None:
    config = run_config(size).foundation
    with torch.device("meta"):
        model = FoundationModel(kuairand_layout(), config)
    num_dense, flops = COSTS[size]
    assert count_parameters(model).dense == pytest.approx(num_dense, rel=0.02)
    batch = random_batch(model.layout, [config.history.max_events], multi_hot=())
    assert forward_flops(without_storage(model), batch) == pytest.approx(flops, rel=0.02)


def test_the_documents_state_these_costs() -> None:
    text = (ROOT / "docs" / "sizes.md").read_text()
    for size, (num_dense, flops) in COSTS.items():
        assert f"| {size} |" in text
        row = next(line for line in text.splitlines() if line.startswith(f"| {size} |"))
        assert f"{num_dense / 1e6:.4g} M" in row
        assert f"{flops / 1e6:.4g} M" in row


def test_one_training_step_of_base_gives_every_parameter_a_gradient() -> None:
    torch.manual_seed(0)
    model = FoundationModel(small_tables(), BASE)
    batch = realistic_batch([0, 1, 200, 33, 90, 5])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    learn(model, ModelOptimizer(model, base().training), [batch, batch], joint_loss, LossCurve())
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []
    assert [name for name, p in model.named_parameters() if torch.equal(p, before[name])] == []


@pytest.mark.parametrize("name", ABLATIONS)
def test_taking_a_block_out_of_base_changes_the_scores(name: str) -> None:
    assert not torch.allclose(logits(ABLATIONS[name]), logits(BASE), rtol=0, atol=1e-6)


def test_base_alone_is_repeatable() -> None:
    assert torch.equal(logits(BASE), logits(BASE))


def test_every_rung_builds_the_same_run_twice() -> None:
    for size in SIZES:
        assert run_config(size) == run_config(size)
        document = run_config(size).foundation.to_dict()
        assert FoundationConfig.from_dict(document) == run_config(size).foundation


def test_an_unknown_rung_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="tiny"):
        run_config("colossal")
