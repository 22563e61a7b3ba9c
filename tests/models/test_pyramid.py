"""Branches read their own events only, and token counts shrink level by level."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.pyramid import (
    BranchConfig,
    Pyramid,
    PyramidBranch,
    PyramidConfig,
    PyramidLevel,
    group_members,
    select_rows,
)
from tests.models.sequence_cases import DIM, LENGTHS, TIGHT, elements_by_row, random_rows, take
from tests.oracles import sequence_blocks as oracle
from tests.oracles.attention import rows_of

SHAPE = PyramidConfig(
    branches=(
        BranchConfig(group="all", newest=4, dim=DIM, heads=2, reach=2),
        BranchConfig(group="acted", newest=3, dim=4, heads=1, layers=2),
        BranchConfig(group="passive", newest=2, dim=DIM, heads=2),
    ),
    tokens=(3, 1),
)


def kinds(rows: EventRows, num_kinds: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(rows.value_TD.shape[0], num_kinds, generator=generator) < 0.5).double()


def test_the_weakest_kind_alone_is_no_act() -> None:
    did_TK = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert group_members("acted", did_TK).tolist() == [False, True, False]
    assert group_members("passive", did_TK).tolist() == [True, False, True]
    assert group_members("all", did_TK).all()
    assert group_members("acted", did_TK[:, :1]).tolist() == [True, True, False]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.integers(1, 4))
def test_the_newest_members_of_each_row_remain_in_order(lengths: list[int], newest: int) -> None:
    rows = random_rows(lengths)
    member_T = kinds(rows)[:, 0].bool()
    kept = select_rows(rows, member_T, newest)
    members = rows_of(member_T, rows.offsets_B1)
    expected = [s[m][-newest:] for (s, _), m in zip(elements_by_row(rows), members, strict=True)]
    assert torch.equal(kept.value_TD, torch.cat(expected))
    assert (kept.offsets_B1[1:] - kept.offsets_B1[:-1]).tolist() == [part.shape[0] for part in expected]


@pytest.mark.parametrize("branch", SHAPE.branches, ids=lambda branch: branch.group)
def test_a_branch_equals_its_equation_on_its_own_events(branch: BranchConfig) -> None:
    module, rows = PyramidBranch(DIM, branch, SHAPE.seed_pooling(0)).double(), random_rows()
    did_TK = kinds(rows)
    found = module(rows, did_TK)
    kept = select_rows(rows, group_members(branch.group, did_TK), branch.newest)
    for row, (s, gaps) in enumerate(elements_by_row(kept)):
        inner = s if branch.dim == DIM else s @ module.inward.weight.T
        for layer in module.layers if s.shape[0] else []:
            inner = oracle.near_attention(inner, gaps, layer, 60.0)
        pooled = oracle.seed_pooling(inner, module.pool)
        torch.testing.assert_close(
            found[row], pooled if branch.dim == DIM else pooled @ module.outward.weight.T, **TIGHT
        )


def test_a_level_equals_its_equation() -> None:
    level = PyramidLevel(6, DIM, 2, heads=2, pool=SHAPE.seed_pooling(1)).double()
    x_BND = torch.randn(3, 6, DIM, dtype=torch.float64)
    expected = torch.stack([oracle.pyramid_level(x, level) for x in x_BND])
    torch.testing.assert_close(level(x_BND), expected, **TIGHT)


def test_a_row_is_summarised_alike_in_any_batch_and_tokens_shrink() -> None:
    pyramid, rows = Pyramid(DIM, SHAPE).double(), random_rows()
    did_TK = kinds(rows)
    whole = pyramid(rows, did_TK)
    assert whole.shape == (len(LENGTHS), SHAPE.num_tokens, DIM) == (4, 3, DIM)
    order = [3, 1, 0]
    did = rows_of(did_TK, rows.offsets_B1)
    moved = pyramid(take(rows, order), torch.cat([did[row] for row in order]))
    torch.testing.assert_close(moved, whole[order], **TIGHT)


@pytest.mark.parametrize("tokens", [(), (2, 2), (1, 3), (2, 0)])
def test_counts_that_do_not_shrink_are_refused(tokens: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError):
        PyramidConfig(tokens=tokens)


@pytest.mark.parametrize("change", [{"group": "some"}, {"newest": 0}, {"heads": 3}])
def test_an_impossible_branch_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        BranchConfig(**{"group": "all", "newest": 4, "dim": DIM, "heads": 2} | change)
