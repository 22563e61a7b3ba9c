"""Pyramid-parallel modules: many branches read parts of a long history side by side, level by level into fewer tokens.

Legend: B rows, T events of the whole batch, E event numbers, D width, N tokens of one level, Q tokens a branch.
Source: Meta's description of GEM (a pyramid of parallel interaction modules over up to thousands of events: one
paragraph, no equation); a branch of its own size for each group of events is Kunlun's event-level personalisation,
arXiv 2602.10016. The rest is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, newest_index, row_of_element
from gem_pipeline.kernels.rotary import log_time_phase
from gem_pipeline.models.backbone import EventRows, recency_position
from gem_pipeline.models.blocks import TokenCompression
from gem_pipeline.models.interformer import check_heads
from gem_pipeline.models.near_attention import NearAttention, NearConfig
from gem_pipeline.models.pooling import SeedPooling, SeedPoolingConfig

GroupName = Literal["all", "acted", "passive"]
GROUPS = ("all", "acted", "passive")
SEEDS_A_TOKEN = 2
TIME_SCALE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchConfig:
    """One branch: which events it reads, and how much it spends on them.

    Attributes:
        group: `all` events, those that the user `acted` on (they carry a kind beyond the first declared one), or
            the `passive` rest.
        newest: events of the group that are read, the newest ones.
        dim: width inside the branch.
        heads: attention heads.
        layers: near-attention layers before pooling.
        reach: block of near attention.
    """

    group: GroupName
    newest: int
    dim: int
    heads: int
    layers: int = 1
    reach: int = 64

    def __post_init__(self) -> None:
        if self.group not in GROUPS or min(self.newest, self.dim, self.heads, self.layers) < 1:
            raise ConfigError(
                f"A pyramid branch cannot be {self}.", remedy=f"Name one of {', '.join(GROUPS)}; sizes are at least 1."
            )
        check_heads(self.dim, self.heads)


@dataclass(frozen=True, kw_only=True, slots=True)
class PyramidConfig:
    """Shape of the pyramid.

    Attributes:
        branches: branches of the first level; empty: no pyramid.
        tokens: tokens out of each branch at each level, falling.
        rank: terms of the Kronecker sums.
        heads: attention heads of the levels behind the first.
    """

    branches: tuple[BranchConfig, ...] = ()
    tokens: tuple[int, ...] = (8, 2)
    rank: int = 2
    heads: int = 2

    def __post_init__(self) -> None:
        falling = all(low < high for high, low in zip(self.tokens, self.tokens[1:], strict=False))
        if not self.tokens or not falling or min(*self.tokens, self.rank, self.heads) < 1:
            raise ConfigError(
                f"The token counts {self.tokens} do not shrink level by level, or a size is 0: {self}.",
                remedy="Give falling counts such as (16, 4), and a rank and heads of at least 1.",
            )

    @property
    def num_tokens(self) -> int:
        """Tokens out of the last level."""
        return len(self.branches) * self.tokens[-1]

    def seed_pooling(self, level: int) -> SeedPoolingConfig:
        """The pooling of a branch at a level."""
        return SeedPoolingConfig(seeds=SEEDS_A_TOKEN * self.tokens[level], tokens=self.tokens[level], rank=self.rank)


def group_members(group: GroupName, did_TK: Tensor) -> Tensor:
    """Whether each event belongs to a group, bool [T].

    Args:
        group: the group.
        did_TK: numbers above 0 where an event carries a kind, [T, K], kinds as the contract lists them: the first is
            the weakest (a mere view), unless it is the only one.
    """
    acted_T = (did_TK[:, 1:] if did_TK.shape[1] > 1 else did_TK).gt(0).any(dim=1)
    return {"all": torch.ones_like(acted_T), "acted": acted_T, "passive": ~acted_T}[group]


def select_rows(rows: EventRows, member_T: Tensor, newest: int) -> EventRows:
    """Keep the newest events among the members of every row.

    Args:
        rows: events [T, D].
        member_T: which may be kept, bool [T].
        newest: events kept a row, at most.
    """
    num_rows = rows.offsets_B1.shape[0] - 1
    row_T = row_of_element(rows.offsets_B1, member_T.shape[0])
    place = torch.nonzero(member_T).flatten()
    length_B = torch.bincount(row_T.index_select(0, place), minlength=num_rows)
    kept, kept_B1 = newest_index(lengths_to_offsets(length_B), newest, place.shape[0])
    chosen = place.index_select(0, kept)
    return EventRows(
        value_TD=rows.value_TD.index_select(0, chosen),
        offsets_B1=kept_B1,
        gap_s_T=rows.gap_s_T.index_select(0, chosen),
        request_B=rows.request_B,
    )


class PyramidBranch(nn.Module):
    """HSP(near attention^L(W_in S_group)) W_out: events of a group -> [B, Q, D]."""

    def __init__(self, dim: int, config: BranchConfig, pool: SeedPoolingConfig) -> None:
        super().__init__()
        self.config = config
        same = config.dim == dim
        self.inward = nn.Identity() if same else nn.Linear(dim, config.dim, bias=False)
        self.outward = nn.Identity() if same else nn.Linear(config.dim, dim, bias=False)
        near = NearConfig(kind="block", reach=config.reach)
        self.layers = nn.ModuleList(NearAttention(config.dim, config.heads, near) for _ in range(config.layers))
        self.pool = SeedPooling(config.dim, config.heads, pool)

    def forward(self, rows: EventRows, did_TK: Tensor) -> Tensor:
        """All events [T, D] and what was done [T, K] -> [B, Q, D]; zeros for a row without such events."""
        own = select_rows(rows, group_members(self.config.group, did_TK), self.config.newest)
        s_TD = self.inward(own.value_TD)
        position_T = recency_position(own.offsets_B1, s_TD.shape[0], 0)
        head_dim = self.config.dim // self.config.heads
        phase_T1H = log_time_phase(position_T, own.gap_s_T, head_dim, s_TD.dtype, time_scale_s=TIME_SCALE_S)
        for layer in self.layers:
            s_TD = layer(s_TD, own.offsets_B1, phase_T1H)
        return self.outward(self.pool(s_TD, own.offsets_B1))


class PyramidLevel(nn.Module):
    """A level behind the first: every branch reads the tokens of all, LN(HSP_j(X) + W_j X), [B, N, D] -> [B, J Q, D].

    The linear path keeps low orders alive, as Wukong's linear compression does.
    """

    def __init__(self, num_in: int, dim: int, num_branches: int, *, heads: int, pool: SeedPoolingConfig) -> None:
        super().__init__()
        self.pools = nn.ModuleList(SeedPooling(dim, heads, pool) for _ in range(num_branches))
        self.linear = TokenCompression(num_in, num_branches * pool.tokens)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, branches x Q, D]."""
        num_rows, num_in = x_BND.shape[:2]
        offsets_B1 = torch.arange(num_rows + 1, device=x_BND.device) * num_in
        pooled_BMD = torch.cat([pool(x_BND.flatten(0, 1), offsets_B1) for pool in self.pools], dim=1)
        return self.norm(pooled_BMD + self.linear(x_BND))


class Pyramid(nn.Module):
    """Branches over events, then levels over their tokens: events -> [B, branches x last tokens, D]."""

    def __init__(self, dim: int, config: PyramidConfig) -> None:
        super().__init__()
        num_branches = len(config.branches)
        self.branches = nn.ModuleList(PyramidBranch(dim, branch, config.seed_pooling(0)) for branch in config.branches)
        self.levels = nn.ModuleList(
            PyramidLevel(
                num_branches * config.tokens[level - 1],
                dim,
                num_branches,
                heads=config.heads,
                pool=config.seed_pooling(level),
            )
            for level in range(1, len(config.tokens))
        )

    def forward(self, rows: EventRows, did_TK: Tensor) -> Tensor:
        """Events [T, D] and what was done [T, K] -> tokens [B, branches x last tokens, D]."""
        x_BND = torch.cat([branch(rows, did_TK) for branch in self.branches], dim=1)
        for level in self.levels:
            x_BND = level(x_BND)
        return x_BND
