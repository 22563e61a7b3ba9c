"""DIN's interest extraction: events weighed by the ad at hand (a baseline on the same inputs).

Legend: B rows, N tokens, T events of the whole batch, D width, A tokens that describe the ad, H hidden width.
FLOPs of an event: 2 (4 D H + H).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.kernels.jagged import row_of_element
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.blocks import mlp


class TargetAttention(nn.Module):
    """sum_t a(e_t, v) e_t, a an MLP of [e, v, e - v, e * v] without softmax: -> [B, (N + 1) x D].

    v is the sum of the tokens that events carry as well (the ad, its attributes), so target and events lie in one
    space. The weighted sum joins the tokens side by side; the top MLP follows in the foundation model. The sum is
    divided by the square root of the number of events (ours: the paper leaves long histories to its clipping).

    Source: Zhou et al., DIN, arXiv 1706.06978, section 4.3 and figure 2 (right); [e - v, e * v] as in its code.
    """

    place_A: Tensor

    def __init__(self, num_tokens: int, dim: int, *, target: tuple[int, ...], hidden: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("place_A", torch.tensor(target), persistent=False)
        self.unit = mlp([4 * dim, hidden, 1], dropout=dropout)
        self.out_width = (num_tokens + 1) * dim

    def forward(self, x_BND: Tensor, rows: EventRows, surface_B: Tensor) -> Tensor:
        """Tokens [B, N, D], events [T, D], surfaces int64 [B] -> [B, (N + 1) x D]."""
        row_T = row_of_element(rows.offsets_B1, rows.value_TD.shape[0])
        e_TD = rows.value_TD
        v_TD = x_BND.index_select(1, self.place_A).sum(dim=1).index_select(0, row_T)
        weight_T1 = self.unit(torch.cat([e_TD, v_TD, e_TD - v_TD, e_TD * v_TD], dim=1))
        sum_BD = x_BND.new_zeros(x_BND.shape[0], x_BND.shape[2]).index_add(0, row_T, weight_T1 * e_TD)
        length_B1 = (rows.offsets_B1[1:] - rows.offsets_B1[:-1]).clamp(min=1).to(sum_BD.dtype)[:, None]
        return torch.cat([x_BND.flatten(1), sum_BD * length_B1.rsqrt()], dim=1)
