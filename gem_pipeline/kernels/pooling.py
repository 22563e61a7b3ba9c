"""Pooling of jagged rows by shared seeds, and the Kronecker-sum map that shrinks the seeds to few tokens.

Legend: B rows, T elements of the whole batch, P seeds, H heads, D head width, E full width (H x D), Q tokens,
R rank of the Kronecker sum, B1 = B + 1.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from gem_pipeline.kernels.dispatch import fused
from gem_pipeline.kernels.grouping import group_rows, grouped_padding, real_places
from gem_pipeline.kernels.jagged import offsets_to_lengths


def jagged_seed_attention(seed_PHD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor) -> Tensor:
    """Let the same queries attend over the elements of every row.

    out[b, p] = sum_t softmax_t(seed[p] . k[t] / sqrt(D)) v[t], t over row b.

    Args:
        seed_PHD: queries shared by all rows, [P, H, D].
        k_THD: keys, [T, H, D].
        v_THD: values, [T, H, D].
        offsets_B1: row offsets, int64 [B + 1].

    Returns:
        [B, P, H, D]; zeros for an empty row. Padding is masked and reaches no score.

    Source: Lee et al., Set Transformer, arXiv 1810.00825, section 3.2; first step of HSP in Kunlun,
    arXiv 2602.10016.
    """
    kernel = fused("seed", k_THD)
    if kernel is not None:
        return kernel.seed_attention(seed_PHD, k_THD, v_THD, offsets_B1)
    groups = group_rows(offsets_B1)
    padding = grouped_padding(offsets_B1, groups, k_THD.shape[0])
    lengths = groups.cut(offsets_to_lengths(offsets_B1))
    seed_1HPD = seed_PHD.transpose(0, 1)[None]
    pooled: list[Tensor] = []
    for k_RLHD, v_RLHD, length_R in zip(padding.pad(k_THD), padding.pad(v_THD), lengths, strict=True):
        # An empty row averages its padding, which is zeros: no NaN, and the result is zero.
        allowed_RL = real_places(length_R, k_RLHD.shape[1]) | (length_R == 0)[:, None]
        out_RHPD = scaled_dot_product_attention(
            seed_1HPD.expand(k_RLHD.shape[0], -1, -1, -1),
            k_RLHD.transpose(1, 2),
            v_RLHD.transpose(1, 2),
            attn_mask=allowed_RL[:, None, None],
        )
        pooled.append(out_RHPD.transpose(1, 2))
    return groups.join(pooled)


def sum_kron(h_BPE: Tensor, mix_RPQ: Tensor, weight_REE: Tensor) -> Tensor:
    """Map P vectors to Q by a sum of R Kronecker products: sum_r Z_r^T H W_r.

    The token side is contracted first, where Q < P: R (P Q + E^2) numbers instead of the P E x Q E of a full map.

    Args:
        h_BPE: pooled seeds, [B, P, E].
        mix_RPQ: Z, [R, P, Q].
        weight_REE: W, [R, E, E].

    Returns:
        [B, Q, E].

    Source: SumKronLinear of Kunlun, arXiv 2602.10016, hierarchical seed pooling.
    """
    mixed_BRQE = torch.matmul(mix_RPQ.transpose(1, 2), h_BPE[:, None])
    joined_BQX = mixed_BRQE.transpose(1, 2).flatten(2)  # one product over ranks and width sums the ranks
    return torch.matmul(joined_BQX, weight_REE.flatten(0, 1))


def hierarchical_seed_pool(
    seed_PHD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, mix_RPQ: Tensor, weight_REE: Tensor
) -> Tensor:
    """Pool every row into P seeds, then shrink the seeds to Q tokens.

    Args:
        seed_PHD: normalised seeds, [P, H, D].
        k_THD: keys, [T, H, D].
        v_THD: values, [T, H, D].
        offsets_B1: row offsets, int64 [B + 1].
        mix_RPQ: Z of the Kronecker sum, [R, P, Q].
        weight_REE: W of the Kronecker sum, [R, E, E] with E = H x D.

    Returns:
        [B, Q, E]; zeros for an empty row.

    Source: hierarchical seed pooling (HSP) of Kunlun, arXiv 2602.10016.
    """
    pooled_BPHD = jagged_seed_attention(seed_PHD, k_THD, v_THD, offsets_B1)
    return sum_kron(pooled_BPHD.flatten(2), mix_RPQ, weight_REE)
