"""DCN V2's interaction: explicit crosses of bounded degree beside a deep network (a baseline on the same inputs).

Legend: B rows, N tokens, T events of the whole batch, D width, X = (N + 1) x D, R rank, H last hidden width.
FLOPs of a row and cross layer: 2 X^2, or 4 R X at low rank; of the deep network: those of its MLP.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import offsets_to_lengths
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.blocks import mlp
from gem_pipeline.models.embeddings import mean_by_segment


class CrossLayer(nn.Module):
    """x_0 * (W x + b) + x: [B, X] and [B, X] -> [B, X]; W = U V^T at low rank.

    Source: Wang et al., DCN V2, arXiv 2008.13535, equations 1 (full matrix) and 2 (low rank).
    """

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        low = 0 < rank < width
        self.narrow = nn.Linear(width, rank, bias=False) if low else nn.Identity()
        self.widen = nn.Linear(rank if low else width, width)

    def forward(self, first_BX: Tensor, x_BX: Tensor) -> Tensor:
        """x_0 [B, X] and x [B, X] -> [B, X]."""
        return first_BX * self.widen(self.narrow(x_BX)) + x_BX


class CrossNetwork(nn.Module):
    """[cross layers || deep network] over all tokens and the mean of the events side by side: -> [B, X + H].

    `rank` 0, or one that is no smaller than X, stands for full matrices.

    Source: Wang et al., DCN V2, arXiv 2008.13535, section 3.4 (parallel structure); the output layer follows in the
    foundation model.
    """

    def __init__(
        self, num_tokens: int, dim: int, *, layers: int, rank: int, hidden: tuple[int, ...], dropout: float
    ) -> None:
        super().__init__()
        if layers < 1 or rank < 0 or not hidden:
            raise ConfigError(
                f"A cross network cannot have {layers} layers, rank {rank} and hidden widths {hidden}.",
                remedy="Choose at least one layer and one hidden width, and rank 0 for full matrices.",
            )
        width = (num_tokens + 1) * dim
        self.crosses = nn.ModuleList(CrossLayer(width, rank) for _ in range(layers))
        self.deep = mlp([width, *hidden], dropout=dropout)
        self.out_width = width + hidden[-1]

    def forward(self, x_BND: Tensor, rows: EventRows, surface_B: Tensor) -> Tensor:
        """Tokens [B, N, D], events [T, D], surfaces int64 [B] -> [B, X + H]."""
        pooled_BD = mean_by_segment(rows.value_TD, offsets_to_lengths(rows.offsets_B1))
        first_BX = torch.cat([x_BND.flatten(1), pooled_BD], dim=1)
        x_BX = first_BX
        for cross in self.crosses:
            x_BX = cross(first_BX, x_BX)
        return torch.cat([x_BX, torch.relu(self.deep(first_BX))], dim=1)
