"""The sequence side: events to vectors, personalised projection, attention, pooling.

Legend: B rows, T elements of the whole batch (CLS tokens and events), H heads, D width, C summary
tokens, P pooled tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gem_pipeline.kernels.attention import jagged_attention, jagged_row_matmul, jagged_softmax_pool
from gem_pipeline.kernels.jagged import rotate
from gem_pipeline.models.blocks import mlp


class EventEncoder(nn.Module):
    """One vector an event of any kind and surface: LN(sum of its id vectors + linear of its numbers).

    All event streams of a user lie on one time line, in one vector space (ours, after the name OneSeq
    in Meta's GEM posts; no equation is published).
    """

    def __init__(self, num_dense: int, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(num_dense, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, id_TD: Tensor, dense_TE: Tensor) -> Tensor:
        """Sum of the id vectors [T, D] and numbers [T, E] -> events [T, D]."""
        return self.norm(id_TD + self.dense(dense_TE))

    def stored(self, id_UD: Tensor, dense_UE: Tensor) -> Tensor:
        """The part of stored events that no impression changes: ids [U, D] and all numbers but the first -> [U, D]."""
        return id_UD + linear(dense_UE[:, 1:], self.dense.weight[:, 1:], self.dense.bias)

    def seen(self, stored_TD: Tensor, log_gap_T: Tensor) -> Tensor:
        """Events of windows from their stored parts [T, D] and their first number, the time gap [T] -> [T, D].

        LN(W [gap || rest] + b + ids) with the columns of W parted: what follows the norm knows the impression's time.
        """
        return self.norm(stored_TD + log_gap_T.to(stored_TD.dtype)[:, None] * self.dense.weight[:, 0])


class EventMask(nn.Module):
    """LN(E + W (E * MLP_mask(E))): an event hides what in it is noise, [T, D] -> [T, D].

    Source: MaskNet(S) = MLP_lce(S * MLP_mask(S)) of InterFormer, arXiv 2411.09852, section 4.1. There S joins several
    aligned sequences side by side; OneSeq is one sequence of width D, so W keeps the width. Residual and norm are ours.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.mask = mlp([dim, hidden, dim])
        self.compress = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, event_TD: Tensor) -> Tensor:
        """Events [T, D] -> events [T, D]."""
        return self.norm(event_TD + self.compress(event_TD * self.mask(event_TD)))


class PersonalizedProjection(nn.Module):
    """PFFN with pre-norm and residual: S + LN(S) f(X_sum), f(X_sum) a [D, D] matrix for each row.

    Source: InterFormer, arXiv 2411.09852, equation of the Sequence Arch; norm and residual are ours
    (the paper leaves them open).
    """

    def __init__(self, num_summary: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.dim = dim
        self.norm = nn.LayerNorm(dim)
        self.weights = mlp([num_summary * dim, hidden, dim * dim])

    def forward(self, s_TD: Tensor, offsets_B1: Tensor, x_sum_BCD: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1] and summaries [B, C, D] -> elements [T, D]."""
        weight_BDD = self.weights(x_sum_BCD.flatten(1)).unflatten(1, (self.dim, self.dim)) / math.sqrt(self.dim)
        return s_TD + jagged_row_matmul(self.norm(s_TD), weight_BDD, offsets_B1)


class JaggedSelfAttention(nn.Module):
    """Multi-head attention within each row, rotary positions, pre-norm and residual.

    Source: Vaswani et al., arXiv 1706.03762; Su et al., arXiv 2104.09864; the norm placement is ours.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.query_key = nn.Linear(dim, 2 * dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor, phase_T1H: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1], rotary phases [T, 1, D / H / 2] -> elements [T, D]."""
        normed_TD = self.norm(s_TD)
        both_TGD = rotate(self.query_key(normed_TD).unflatten(1, (2 * self.heads, -1)), phase_T1H)
        q_THD, k_THD = both_TGD.chunk(2, dim=1)
        v_THD = self.value(normed_TD).unflatten(1, (self.heads, -1))
        mixed_THD = jagged_attention(q_THD, k_THD, v_THD, offsets_B1, offsets_B1)
        return s_TD + self.out(mixed_THD.flatten(1))


class AttentionPooling(nn.Module):
    """PMA: P learned queries attend over the elements of a row, MHA(Q, S, S).

    A learned query needs no query projection, and K = W_k S enters its scores only as
    q . (W_k s) = (W_k^T q) . s, so the keys are never formed; likewise V is projected after pooling.
    The result equals plain multi-head attention (tested) at a fraction of its cost (ours).

    Source: Lee et al., Set Transformer, arXiv 1810.00825, section 3.2; InterFormer, arXiv 2411.09852.
    """

    def __init__(self, num_queries: int, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        head_dim = dim // heads
        self.norm = nn.LayerNorm(dim)
        self.query_PHE = nn.Parameter(torch.randn(num_queries, heads, head_dim))
        self.key_HED = nn.Parameter(torch.randn(heads, head_dim, dim) / math.sqrt(dim))
        self.value_HED = nn.Parameter(torch.randn(heads, head_dim, dim) / math.sqrt(dim))
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1] -> pooled [B, P, D]; zeros for an empty row."""
        normed_TD = self.norm(s_TD)
        probe_PHD = torch.einsum("phe,hed->phd", self.query_PHE, self.key_HED) / math.sqrt(self.query_PHE.shape[2])
        score_TQ = normed_TD @ probe_PHD.flatten(0, 1).T
        pooled_BPHD = jagged_softmax_pool(score_TQ, normed_TD, offsets_B1).unflatten(1, (-1, self.heads))
        return self.out(torch.einsum("bphd,hed->bphe", pooled_BPHD, self.value_HED).flatten(2))
