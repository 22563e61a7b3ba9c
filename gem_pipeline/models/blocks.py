"""Small blocks that several models share: a multi-layer perceptron, token compression, the self-gate.

Legend: B rows, N tokens, M output tokens, D width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def mlp(sizes: Sequence[int], *, dropout: float = 0.0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Stack linear layers with an activation (and dropout) between them; the last one stays linear.

    Args:
        sizes: widths from the input to the output, at least two.
        dropout: probability of zeroing a hidden unit in training.
        activation: class of it, made without arguments.
    """
    layers: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(width_in, width_out), activation()]
        if dropout > 0.0:
            layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    return nn.Sequential(*layers)


def steep(log_value: Tensor, steepness: float) -> Tensor:
    """What a factor counts whose logarithm, over `steepness`, is learnt: any shape, 1 at 0 (ours).

    Args:
        log_value: what is learnt.
        steepness: a step of the dense rate changes the factor by so many times the rate.
    """
    return (steepness * log_value).exp()


class DenseNormalizer(nn.Module):
    """Centre and scale dense inputs by moments fixed at the cold start: [B, F] -> [B, F].

    A column without spread says nothing and becomes 0, until a later day gives it some: counters are empty on the
    first day of a log, and a model that starts there must not stay deaf to them. Outliers are cut at five deviations.
    Unlike batch normalisation a row's value does not depend on the batch (ours).
    """

    LIMIT = 5.0  # standard deviations
    CONSTANT = 1e-3  # below this deviation a column counts as constant

    mean_F: Tensor
    scale_F: Tensor

    def __init__(self, num_dense: int, *, smallest: float = CONSTANT) -> None:
        """Normalise F columns; deviations below `smallest` count as `smallest`."""
        super().__init__()
        self.smallest = smallest
        self.register_buffer("mean_F", torch.zeros(num_dense))
        self.register_buffer("scale_F", torch.ones(num_dense))

    def fit(self, mean_F: Tensor, std_F: Tensor, *, late: bool = False) -> None:
        """Fix the moments, [F] each.

        Args:
            mean_F: means of the columns.
            std_F: deviations of the columns.
            late: only of columns that had no spread so far; the others keep their moments.
        """
        chosen_F = self.scale_F == 0.0 if late else torch.ones_like(self.scale_F, dtype=torch.bool)
        scale_F = torch.where(std_F > self.CONSTANT, 1.0 / std_F.clamp(min=self.smallest), 0.0)
        self.mean_F.copy_(torch.where(chosen_F, mean_F.to(self.mean_F), self.mean_F))
        self.scale_F.copy_(torch.where(chosen_F, scale_F.to(self.scale_F), self.scale_F))

    def forward(self, dense_BF: Tensor) -> Tensor:
        """[B, F] -> [B, F]."""
        return ((dense_BF - self.mean_F) * self.scale_F).clamp(-self.LIMIT, self.LIMIT)


class TokenCompression(nn.Module):
    """Mix tokens linearly: X [B, N, D] -> W X [B, M, D], no activation, no bias.

    Source: the linear compress block of Wukong, arXiv 2403.02545, section 3.4; also the LCE of
    InterFormer, arXiv 2411.09852.
    """

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.weight_MN = nn.Parameter(torch.empty(num_out, num_in))
        nn.init.normal_(self.weight_MN, std=1.0 / math.sqrt(num_in))

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, M, D]."""
        return torch.matmul(self.weight_MN, x_BND)


class SelfGate(nn.Module):
    """Scale each entry of a token by a gate read from the token: Z * sigmoid(MLP(Z)).

    InterFormer (arXiv 2411.09852, section 2.2 of our notes) prints sigma(Z * MLP(Z)) with sigma left
    open. We gate by the sigmoid of the MLP: the sign and scale of Z survive, and zeros (a history
    that is not there) stay zeros.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate = mlp([dim, dim, dim])

    def forward(self, z_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, N, D]."""
        return z_BND * torch.sigmoid(self.gate(z_BND))
