"""What a surface has of its own inside the trunk: tokens, norms and feed-forward experts.

GEM's own mechanism is not published. Legend: B rows, N tokens, S surfaces, G domain tokens, D width, R inner width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.heads import GATE_STD


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainConfig:
    """What a surface has of its own; zeros switch a part off.

    Attributes:
        tokens: G, learned tokens of the surface among the non-sequence tokens.
        expert_width: R, inner width of the surface's feed-forward expert behind each interaction, with a norm of its
            own.
    """

    tokens: int = 0
    expert_width: int = 0

    def __post_init__(self) -> None:
        if min(self.tokens, self.expert_width) < 0:
            raise ConfigError(f"Domain sizes are negative: {self}.", remedy="Use 0 to switch a part off.")


class DomainTokens(nn.Module):
    """Learned tokens of the surface: [B] -> [B, G, D] (ours)."""

    def __init__(self, num_surfaces: int, num_tokens: int, dim: int, *, init_std: float) -> None:
        super().__init__()
        self.token_SGD = nn.Parameter(torch.randn(num_surfaces, num_tokens, dim) * init_std)

    def forward(self, surface_B: Tensor) -> Tensor:
        """Surfaces int64 [B] -> [B, G, D]."""
        return self.token_SGD.index_select(0, surface_B)


class DomainNorm(nn.Module):
    """(gamma * gamma_s) norm(x) + beta + beta_s, the norm taken over the width of a token: [B, N, D] -> [B, N, D].

    Source: partitioned normalisation of STAR, Sheng et al., arXiv 2101.11427, section 3.2; a norm within the token
    instead of over the batch is ours, so that a row does not depend on its batch.
    """

    def __init__(self, num_surfaces: int, dim: int) -> None:
        super().__init__()
        self.gain_D, self.shift_D = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.gain_SD = nn.Parameter(torch.ones(num_surfaces, dim))
        self.shift_SD = nn.Parameter(torch.zeros(num_surfaces, dim))

    def forward(self, x_BND: Tensor, surface_B: Tensor) -> Tensor:
        """[B, N, D] and surfaces int64 [B] -> [B, N, D]."""
        gain_BD = self.gain_D * self.gain_SD.index_select(0, surface_B)
        shift_BD = self.shift_D + self.shift_SD.index_select(0, surface_B)
        return layer_norm(x_BND, (x_BND.shape[-1],)) * gain_BD[:, None] + shift_BD[:, None]


class DomainExpert(nn.Module):
    """X + relu(Norm_s(X) (W_in (1 + F_s))) W_out: a token-wise expert for each surface, [B, N, D] -> [B, N, D].

    Weights follow STAR, arXiv 2101.11427, equation 4: shared times the surface's own; its factor starts at one, so a
    new surface behaves as the shared expert does. Residual and size are ours.
    """

    def __init__(self, num_surfaces: int, dim: int, width: int) -> None:
        super().__init__()
        self.norm = DomainNorm(num_surfaces, dim)
        self.inward_DR = nn.Parameter(torch.randn(dim, width) / math.sqrt(dim))
        self.factor_SDR = nn.Parameter(torch.zeros(num_surfaces, dim, width))
        self.outward = nn.Linear(width, dim)
        nn.init.normal_(self.outward.weight, std=GATE_STD)

    def forward(self, x_BND: Tensor, surface_B: Tensor) -> Tensor:
        """[B, N, D] and surfaces int64 [B] -> [B, N, D]."""
        weight_BDR = self.inward_DR * (1.0 + self.factor_SDR.index_select(0, surface_B))
        return x_BND + self.outward(torch.relu(torch.bmm(self.norm(x_BND, surface_B), weight_BDR)))
