"""Domain conditioning: a gate on the trunk's output and heads for every surface x objective.

Legend: B rows, R width of the representation, S surfaces, K objectives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

RATE_FLOOR = 1e-6
GATE_STD = 0.02  # a new gate stands close to 1


class DomainGate(nn.Module):
    """h * 2 sigmoid(W' relu(W [domain || stopgrad(h)])): [B, R] -> [B, R].

    Source: PEPNet, Chang et al., arXiv 2302.01115, section 2.3 (gate unit, gamma = 2).
    """

    def __init__(self, num_surfaces: int, width: int, domain_dim: int) -> None:
        super().__init__()
        self.domain = nn.Embedding(num_surfaces, domain_dim)
        self.inner = nn.Linear(domain_dim + width, width)
        self.outer = nn.Linear(width, width)
        nn.init.normal_(self.outer.weight, std=GATE_STD)
        nn.init.zeros_(self.outer.bias)

    def forward(self, h_BR: Tensor, surface_B: Tensor) -> Tensor:
        """[B, R] and surfaces int64 [B] -> [B, R]."""
        told = torch.cat([self.domain(surface_B), h_BR.detach()], dim=1)
        return h_BR * 2.0 * torch.sigmoid(self.outer(torch.relu(self.inner(told))))


class DomainHeads(nn.Module):
    """Logits of all objectives on the example's own surface.

    logit[k] = (w[k] * (1 + g[s])) . h + b[k] + c[s, k]: shared weights, corrected by a factor g of the
    surface and a bias c; both start at zero, so a new surface predicts as the shared head does.

    Source: STAR, Sheng et al., arXiv 2101.11427, equation 4 (W_shared * W_domain, b_shared + b_domain);
    one factor for all objectives of a surface is ours.
    """

    def __init__(self, num_surfaces: int, num_objectives: int, width: int) -> None:
        super().__init__()
        self.shared = nn.Linear(width, num_objectives)
        nn.init.normal_(self.shared.weight, std=GATE_STD)
        nn.init.zeros_(self.shared.bias)
        self.factor_SR = nn.Parameter(torch.zeros(num_surfaces, width))
        self.bias_SK = nn.Parameter(torch.zeros(num_surfaces, num_objectives))

    def forward(self, h_BR: Tensor, surface_B: Tensor) -> Tensor:
        """[B, R] and surfaces int64 [B] -> logits [B, K]."""
        own_BR = h_BR * (1.0 + self.factor_SR.index_select(0, surface_B))
        return self.shared(own_BR) + self.bias_SK.index_select(0, surface_B)

    def init_bias(self, base_rate: Tensor) -> None:
        """Start from known base rates, so that the first predictions are calibrated.

        Args:
            base_rate: probabilities, [K], or [S, K] with NaN where a surface lacks the objective; an objective
                that no surface has a rate of keeps its biases.
        """
        logit = torch.logit(base_rate.to(self.bias_SK), eps=RATE_FLOOR)
        logit_SK = logit.expand_as(self.bias_SK)
        known_K = ~logit_SK.isnan().all(dim=0)
        shared_K = logit if logit.dim() == 1 else logit.nanmean(dim=0)
        with torch.no_grad():
            self.shared.bias.copy_(torch.where(known_K, shared_K, self.shared.bias))
            self.bias_SK.copy_(torch.where(known_K, (logit_SK - shared_K).nan_to_num(), self.bias_SK))
