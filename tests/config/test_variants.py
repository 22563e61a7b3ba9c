"""Every variant of a rung is another model that learns, and all of them are reached by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from gem_pipeline.config.ladder import run_config
from gem_pipeline.config.variants import VARIANTS
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.flops import forward_flops
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from tests.batches_factory import take_rows
from tests.config.test_ladder import realistic_batch, small_tables
from tests.style.sources import ROOT

LENGTHS = [0, 3, 40, 64]
WITHOUT_EFFECT_ON_TINY = {
    "no_cross_layer", "pma_for_hsp", "no_domain_experts", "one_expert", "no_pyramid", "no_event_mask",
    "no_compskip", "interformer",
}  # fmt: skip


def test_names_are_joined_and_apply_in_order() -> None:
    light, static = VARIANTS["light"], VARIANTS["static_y"]
    assert run_config("small+light+static_y").foundation == static(light(run_config("small").foundation))
    assert run_config("small+light").training == run_config("small").training


@pytest.mark.parametrize("size", ["small+dark", "huge", "small+", "small+light+dark"])
def test_an_unknown_name_is_refused_with_the_known_ones(size: str) -> None:
    with pytest.raises(ConfigError, match=r"There is no size|variants that do not exist") as error:
        run_config(size)
    assert "tiny" in error.value.remedy or "static_y" in error.value.remedy


def with_known_pairs(model: FoundationModel) -> FoundationModel:
    """Weights of pairs that are not 0, as they are at the start: their strengths have no gradient there."""
    if model.pairs is not None:
        torch.nn.init.normal_(next(model.pairs.collection.parameters()))
    return model


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "light"])
def test_a_variant_of_the_light_model_differs_from_it_and_every_parameter_learns(name: str) -> None:
    whole, config = run_config("small+light").foundation, run_config(f"small+light+{name}").foundation
    assert config != whole
    assert FoundationConfig.from_dict(config.to_dict()) == config
    torch.manual_seed(0)
    model, batch = with_known_pairs(FoundationModel(small_tables(), config)), realistic_batch(LENGTHS * 4)
    logit_BK = model(batch).logit_BK
    assert logit_BK.isfinite().all()
    functional.binary_cross_entropy_with_logits(logit_BK, batch.label_BK).backward()
    silent = [n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert silent == []


@pytest.mark.parametrize("name", VARIANTS)
def test_a_row_of_a_variant_scores_the_same_alone_and_in_any_order(name: str) -> None:
    torch.manual_seed(0)
    model = FoundationModel(small_tables(), run_config(f"small+light+{name}").foundation).double().eval()
    batch = realistic_batch([0, 3, 64, 17])
    batch = replace(batch, dense_BF=batch.dense_BF.double(), event_dense_TE=batch.event_dense_TE.double())
    together, rows = model(batch).logit_BK, [2, 0, 3]
    moved = model(take_rows(batch, model.layout, rows)).logit_BK
    torch.testing.assert_close(moved, together[rows], rtol=0, atol=1e-10)
    alone = model(take_rows(batch, model.layout, [1])).logit_BK
    torch.testing.assert_close(alone, together[1:2], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_change_tiny_but_for_those_that_take_away_what_it_lacks(name: str) -> None:
    def scores(size: str) -> tuple[set[str], torch.Tensor]:
        torch.manual_seed(0)
        model = FoundationModel(small_tables(), run_config(size).foundation).eval()
        return set(model.state_dict()), model(realistic_batch(LENGTHS)).logit_BK

    (names, logit_BK), (own_names, own_logit_BK) = scores("tiny"), scores(f"tiny+{name}")
    unchanged = names == own_names and torch.equal(logit_BK, own_logit_BK)
    assert unchanged == (name in WITHOUT_EFFECT_ON_TINY)


def test_the_documents_name_every_variant_and_those_without_effect_on_tiny() -> None:
    rows = [line for line in (ROOT / "docs" / "sizes.md").read_text().splitlines() if line.startswith("| `")]
    named = {row.split("`")[1]: row for row in rows}
    assert set(named) == set(VARIANTS)
    assert {name for name, row in named.items() if "as `tiny`" in row} == WITHOUT_EFFECT_ON_TINY


@pytest.mark.parametrize("rung", ["small", "base", "large"])
def test_a_light_model_keeps_every_block_at_a_fraction_of_the_cost(rung: str) -> None:
    whole, light = run_config(rung).foundation, run_config(f"{rung}+light").foundation
    switches = ("backbone", "attentive_y", "cross_layer", "layers", "interaction")
    assert [getattr(whole, s) for s in switches] == [getattr(light, s) for s in switches]
    assert len(light.pyramid.branches) == len(whole.pyramid.branches)
    assert light.event_mask
    assert light.domain.expert_width
    assert light.experts.count == whole.experts.count
    if rung == "small":
        batch = realistic_batch([256] * 2)
        cost = [forward_flops(FoundationModel(small_tables(), config).eval(), batch) for config in (light, whole)]
        assert cost[0] < 0.4 * cost[1]
