"""Small blocks that several models share: a multi-layer perceptron, token compression, the self-gate.

Legend: B rows, N tokens, M output tokens, D width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def mlp(sizes: Sequence[int], *, dropout: float = 0.0) -> nn.Sequential:
    """Stack linear layers with ReLU (and dropout) between them; the last one stays linear.

    Args:
        sizes: widths from the input to the output, at least two.
        dropout: probability of zeroing a hidden unit in training.
    """
    layers: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        if dropout > 0.0:
            layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    return nn.Sequential(*layers)


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
