"""Separate sequences: each group is treated as if the other were not there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch

from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.peers import PeerConfig
from gem_pipeline.models.separate import SeparateConfig
from tests.models.sequence_cases import DIM, LENGTHS, TIGHT, enter, random_context, random_rows, take

INNER = PeerConfig(kind="transformer", dim=DIM, heads=2, num_pma=2, num_recent=1, longest=64)


def kinds(rows: EventRows) -> torch.Tensor:
    """A mere view always, an action with every third event."""
    acted_T = (torch.arange(rows.value_TD.shape[0]) % 3 == 0).double()
    return torch.stack([torch.ones_like(acted_T), acted_T], dim=1)


def summary(rows: EventRows) -> torch.Tensor:
    torch.manual_seed(0)
    config = SeparateConfig(inner=INNER)
    entry, first, layer, last = (part.double() for part in (config.entry(), config.summary(0), config.layer(0), config.summary(1)))  # fmt: skip # noqa: E501
    state = first(enter(entry, rows, random_context(rows.offsets_B1.shape[0] - 1)))
    return last(layer(state, random_context(rows.offsets_B1.shape[0] - 1))).summary_BMD


def test_the_tokens_of_a_group_do_not_see_the_other_group() -> None:
    rows = random_rows()
    rows = replace(rows, did_TK=kinds(rows))
    before = summary(rows)
    changed_TD = torch.where(rows.did_TK[:, 1:] > 0, rows.value_TD, -rows.value_TD)
    after = summary(replace(rows, value_TD=changed_TD))
    own = INNER.num_sequence_summary
    torch.testing.assert_close(after[:, :own], before[:, :own], **TIGHT)
    assert not torch.allclose(after[:, own:], before[:, own:])


def test_both_groups_stand_side_by_side_and_an_empty_group_is_zero() -> None:
    rows = random_rows([3, 0])
    nothing_TK = torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64)
    found = summary(replace(rows, did_TK=nothing_TK))
    own = INNER.num_sequence_summary
    assert found.shape == (2, 2 * own, DIM)
    assert not found[0, :own].any()
    assert found[0, own:].any()
    assert not found[1].any()


def test_each_group_has_what_its_backbone_makes_of_a_log_of_that_group_alone() -> None:
    rows = random_rows()
    rows = replace(rows, did_TK=kinds(rows))
    acted_T = rows.did_TK[:, 1] > 0
    bounds = rows.offsets_B1.tolist()
    alone = []
    for start, stop in pairwise(bounds):
        own = acted_T[start:stop]
        alone.append((rows.value_TD[start:stop][own], rows.gap_s_T[start:stop][own]))
    lengths = torch.tensor([len(value) for value, _ in alone])
    only = EventRows(
        value_TD=torch.cat([value for value, _ in alone]), offsets_B1=lengths_to_offsets(lengths),
        gap_s_T=torch.cat([gap for _, gap in alone]),
    )  # fmt: skip
    torch.manual_seed(0)
    entry = SeparateConfig(inner=INNER).entry().double()
    expected = entry.parts[0](random_context(len(LENGTHS)), only)
    found = enter(entry, rows).parts[0]
    assert torch.equal(found.s_TD, expected.s_TD)
    assert torch.equal(found.offsets_B1, expected.offsets_B1)
    torch.testing.assert_close(found.phase_T1H, expected.phase_T1H, **TIGHT)


def test_a_row_does_not_depend_on_the_others() -> None:
    rows = random_rows()
    rows = replace(rows, did_TK=kinds(rows))
    order = list(reversed(range(len(LENGTHS))))
    bounds = rows.offsets_B1.tolist()
    did = torch.cat([rows.did_TK[bounds[i] : bounds[i + 1]] for i in order])
    moved = summary(replace(take(rows, order), did_TK=did))
    # the context differs by row, and this backbone does not read it
    torch.testing.assert_close(moved, summary(rows)[order], **TIGHT)
