"""DLRM's interaction: the dot products of all pairs of embeddings (a baseline on the same inputs).

Legend: B rows, N tokens, T events of the whole batch, D width, P = N (N + 1) / 2 pairs of tokens and history.
FLOPs of a row: 2 (N + 1)^2 D; the mean over the events has no matrix product.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.kernels.jagged import offsets_to_lengths
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.embeddings import mean_by_segment


def pairwise_dots(x_BND: Tensor) -> Tensor:
    """Dot products of all token pairs i < j: [B, N, D] -> [B, N (N - 1) / 2].

    Source: Naumov et al., DLRM, arXiv 1906.00091, section 2.1.
    """
    num_tokens = x_BND.shape[1]
    first, second = torch.triu_indices(num_tokens, num_tokens, offset=1, device=x_BND.device)
    gram_BNN = torch.bmm(x_BND, x_BND.transpose(1, 2))
    return gram_BNN.flatten(1).index_select(1, first * num_tokens + second)


class DotInteraction(nn.Module):
    """[x_0 || x_i . x_j for i < j]: tokens [B, N, D] and the mean of the events -> [B, D + P].

    x_0, the first token, is the bottom MLP of the dense inputs; the top MLP follows in the foundation model.

    Source: Naumov et al., DLRM, arXiv 1906.00091, section 2.1.3. The history enters as a mean (there: the sum over
    a multi-hot feature).
    """

    def __init__(self, num_tokens: int, dim: int) -> None:
        super().__init__()
        self.out_width = dim + num_tokens * (num_tokens + 1) // 2

    def forward(self, x_BND: Tensor, rows: EventRows, surface_B: Tensor) -> Tensor:
        """Tokens [B, N, D], events [T, D], surfaces int64 [B] -> [B, D + P]."""
        pooled_BD = mean_by_segment(rows.value_TD, offsets_to_lengths(rows.offsets_B1))
        dot_BP = pairwise_dots(torch.cat([x_BND, pooled_BD[:, None, :]], dim=1))
        return torch.cat([x_BND[:, 0], dot_BP], dim=1)
