"""Kunlun's parts equal their equations, and the schedule skips what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.kunlun import GdpaFeedForward, KunlunConfig, KunlunSettings, KunlunSummary
from gem_pipeline.models.pooling import SeedPooling, SeedPoolingConfig
from gem_pipeline.models.sequence import AttentionPooling
from tests.models.sequence_cases import DIM, TIGHT, by_row, enter, random_context, random_rows
from tests.oracles import sequence_blocks as oracle

SETTINGS = KunlunSettings(pool=SeedPoolingConfig(seeds=5, tokens=2, rank=2))


def shape(**changes: object) -> KunlunConfig:
    return KunlunConfig(dim=DIM, layers=4, heads=2, num_summary=3, num_recent=2, settings=replace(SETTINGS, **changes))


def test_gdpa_equals_its_equation_row_by_row() -> None:
    layer, rows, context = GdpaFeedForward(DIM, 2, "gelu").double(), random_rows(), random_context()
    expected = by_row(rows.value_TD, rows, lambda s, _, row: oracle.gdpa_feed_forward(s, context[row], layer))
    torch.testing.assert_close(layer(rows.value_TD, rows.offsets_B1, context), expected, **TIGHT)


@pytest.mark.parametrize("comp_skip", [True, False])
def test_a_layer_is_gdpa_then_near_attention_or_what_its_level_keeps_of_them(comp_skip: bool) -> None:
    config, rows, context = shape(comp_skip=comp_skip), random_rows(), random_context()
    for level in range(2):
        layer = config.layer(level).double()
        found = layer(enter(config.entry(), rows), context).s_TD

        def twin(s: torch.Tensor, gaps: list[float], row: int, layer: nn.Module = layer) -> torch.Tensor:
            s = s if layer.pffn is None else oracle.gdpa_feed_forward(s, context[row], layer.pffn)
            return s if layer.attention is None else oracle.near_attention(s, gaps, layer.attention, 60.0)

        torch.testing.assert_close(found, by_row(found, rows, twin), **TIGHT)


def test_even_levels_pool_and_personalise_and_odd_levels_attend() -> None:
    config = shape()
    assert [config.reads_context(level) for level in range(4)] == [True, False, True, False]
    assert [isinstance(config.summary(level), KunlunSummary) for level in range(4)] == [True, False, True, False]
    odd = replace(config, layers=3)
    assert isinstance(odd.summary(3), KunlunSummary), "behind the last layer the summary is always fresh"
    assert [config.layer(level).attention is None for level in range(4)] == [True, False, True, False]
    whole = shape(comp_skip=False)
    assert all(whole.reads_context(level) and whole.attends(level) for level in range(4))


def test_a_level_that_skips_keeps_the_pooled_tokens_of_the_level_before() -> None:
    config, rows = shape(), random_rows()
    first = config.summary(0).double()(enter(config.entry(), rows))
    assert config.summary(1)(first) is first


def test_the_ablation_pools_by_plain_learned_queries_into_as_many_tokens() -> None:
    assert isinstance(KunlunSummary(shape()).pool, SeedPooling)
    summary = KunlunSummary(shape(pooling="pma")).double()
    assert isinstance(summary.pool, AttentionPooling)
    assert summary(enter(shape().entry(), random_rows())).summary_BMD.shape[1] == shape().num_sequence_summary


def test_what_was_long_ago_differs_from_what_was_just_now() -> None:
    config, rows = shape(comp_skip=False), random_rows()
    layer, context = config.layer(0).double(), random_context()
    now = layer(enter(config.entry(), rows), context).s_TD
    ago = layer(enter(config.entry(), replace(rows, gap_s_T=rows.gap_s_T * 50)), context).s_TD
    assert not torch.allclose(now, ago)


@pytest.mark.parametrize("change", [{"activation": "softmax"}, {"pooling": "mean"}, {"time_scale_s": 0.0}])
def test_impossible_settings_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        shape(**change)


def test_a_size_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        KunlunConfig(dim=DIM, layers=1, heads=2, num_summary=0, num_recent=2, settings=SETTINGS)
