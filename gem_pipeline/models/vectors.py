"""Vectors that other models computed, to tokens: a small tower for each.

Legend: B rows, V numbers of all vectors, F vectors, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import VectorInputs
from gem_pipeline.batches.layout import VectorFeature
from gem_pipeline.models.blocks import mlp

SMALLEST_RMS = 1e-6  # a shorter vector counts as zero


class VectorTower(nn.Module):
    """One vector to one token: LN(MLP([direction, log length])), or a learned token where it is missing (ours).

    A vector is scaled to root mean square 1, and its scale is an input of its own, so that a unit vector of 768
    numbers and one of 8 numbers of any scale start alike.
    """

    def __init__(self, num_numbers: int, dim: int, *, init_std: float) -> None:
        super().__init__()
        self.project = mlp([num_numbers + 1, 2 * dim, dim])
        self.norm = nn.LayerNorm(dim)
        self.missing_D = nn.Parameter(torch.randn(dim) * init_std)

    def forward(self, value_BV: Tensor, present_B: Tensor) -> Tensor:
        """Vectors [B, V] and whether there is one [B] -> tokens [B, D]."""
        rms_B1 = value_BV.square().mean(dim=1, keepdim=True).sqrt()
        inputs_BV = torch.cat([value_BV / rms_B1.clamp(min=SMALLEST_RMS), torch.log1p(rms_B1)], dim=1)
        return torch.where(present_B[:, None], self.norm(self.project(inputs_BV)), self.missing_D)


class VectorTowers(nn.Module):
    """All vectors of a layout to one token each."""

    def __init__(self, features: tuple[VectorFeature, ...], dim: int, *, init_std: float) -> None:
        super().__init__()
        self.dims = [feature.dim for feature in features]
        self.towers = nn.ModuleList(VectorTower(num, dim, init_std=init_std) for num in self.dims)

    def forward(self, vectors: VectorInputs) -> Tensor:
        """Numbers [B, V] and presence [B, F] -> tokens [B, F, D], order of the layout."""
        values = vectors.value_BV.to(next(self.parameters()).dtype).split(self.dims, dim=1)
        present = vectors.present_BF.unbind(dim=1)
        tokens = [tower(*one) for tower, *one in zip(self.towers, values, present, strict=True)]
        return torch.stack(tokens, dim=1)


def vector_towers(features: tuple[VectorFeature, ...], dim: int, *, init_std: float) -> VectorTowers | None:
    """The towers of a layout; None, and not a single random number drawn, where it has no vector."""
    return VectorTowers(features, dim, init_std=init_std) if features else None
