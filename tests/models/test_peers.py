"""HSTU and the Transformer equal their equations."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.peers import PeerConfig
from tests.models.sequence_cases import DIM, LENGTHS, TIGHT, by_row, enter, random_context, random_rows
from tests.oracles import sequence_blocks as oracle


def shape(kind: str) -> PeerConfig:
    return PeerConfig(kind=kind, dim=DIM, heads=2, num_pma=2, num_recent=2, longest=16)


@pytest.mark.parametrize(("kind", "twin"), [("hstu", oracle.hstu), ("transformer", oracle.transformer)])
def test_a_layer_equals_its_equation_row_by_row(kind: str, twin) -> None:
    config = shape(kind)
    layer, rows = config.layer(0).double(), random_rows()
    state = enter(config.entry().double(), rows)
    entered = type(rows)(value_TD=state.s_TD, offsets_B1=rows.offsets_B1, gap_s_T=rows.gap_s_T)
    expected = by_row(state.s_TD, entered, lambda s, _gaps, _row: twin(s, layer))
    torch.testing.assert_close(layer(state, random_context()).s_TD, expected, **TIGHT)


def test_hstu_adds_vectors_of_position_and_gap_in_powers_of_two() -> None:
    rows = random_rows([3])
    rows = type(rows)(value_TD=rows.value_TD, offsets_B1=rows.offsets_B1, gap_s_T=torch.tensor([1e12, 3.0, 0.0]))
    entry = shape("hstu").entry().double()
    added = enter(entry, rows).s_TD - rows.value_TD
    expected = entry.position.weight[[2, 1, 1]] + entry.gap.weight[[31, 2, 0]]
    torch.testing.assert_close(added, expected, **TIGHT)


def test_a_row_without_events_is_summarised_by_zeros() -> None:
    config = shape("transformer")
    summary = config.summary(0).double()(enter(config.entry(), random_rows())).summary_BMD
    assert not summary[LENGTHS.index(0)].any()
    assert not config.reads_context(0)


def test_a_size_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        PeerConfig(kind="hstu", dim=DIM, heads=2, num_pma=0, num_recent=2, longest=16)
