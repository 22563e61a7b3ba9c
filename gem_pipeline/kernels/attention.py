"""Softmax attention over jagged rows: a row sees its own elements only, whatever shares its batch.

Legend: B rows, Tq / Tk query / key elements of the whole batch, H heads, D head width, Q pooling
queries, R rows and L padded length of one length group.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from gem_pipeline.kernels.grouping import group_rows, grouped_padding, real_places
from gem_pipeline.kernels.jagged import offsets_to_lengths


def jagged_attention(
    q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, q_offsets_B1: Tensor, kv_offsets_B1: Tensor
) -> Tensor:
    """Attend from the queries of each row to the keys of the same row, both ways in time.

    out[i] = sum_j softmax_j(q[i] . k[j] / sqrt(D)) v[j], j over the keys of the row of i.

    Args:
        q_THD: queries, [Tq, H, D].
        k_THD: keys, [Tk, H, D].
        v_THD: values, [Tk, H, D].
        q_offsets_B1: offsets of the query rows, int64 [B + 1].
        kv_offsets_B1: offsets of the key rows, int64 [B + 1].

    Returns:
        [Tq, H, D]; zeros for a query whose row has no key. Padding is masked and reaches no score.

    Source: Vaswani et al., arXiv 1706.03762, section 3.2.1, per row.
    """
    groups = group_rows(kv_offsets_B1)
    q_padding = grouped_padding(q_offsets_B1, groups, q_THD.shape[0])
    kv_padding = grouped_padding(kv_offsets_B1, groups, k_THD.shape[0])
    lengths = groups.cut(offsets_to_lengths(kv_offsets_B1))
    outputs: list[Tensor] = []
    for q_RLHD, k_RLHD, v_RLHD, length_R in zip(
        q_padding.pad(q_THD), kv_padding.pad(k_THD), kv_padding.pad(v_THD), lengths, strict=True
    ):
        # A row without keys averages its padding, which is zeros: no NaN, and the result is zero.
        allowed_RL = real_places(length_R, k_RLHD.shape[1]) | (length_R == 0)[:, None]
        out_RHLD = scaled_dot_product_attention(
            q_RLHD.transpose(1, 2), k_RLHD.transpose(1, 2), v_RLHD.transpose(1, 2), attn_mask=allowed_RL[:, None, None]
        )
        outputs.append(out_RHLD.transpose(1, 2))
    return q_padding.unpad(outputs)


def jagged_softmax_pool(score_TQ: Tensor, x_TD: Tensor, offsets_B1: Tensor) -> Tensor:
    """Pool each row into Q vectors with softmax weights over its own elements.

    out[b, q] = sum_t softmax_t(score[t, q]) x[t], t over row b.

    Args:
        score_TQ: one score an element and query, [T, Q].
        x_TD: elements, [T, D].
        offsets_B1: row offsets, int64 [B + 1].

    Returns:
        [B, Q, D]; zeros for an empty row.

    Source: attention from a fixed set of seeds, Lee et al., Set Transformer, arXiv 1810.00825, 3.2.
    """
    groups = group_rows(offsets_B1)
    padding = grouped_padding(offsets_B1, groups, x_TD.shape[0])
    lengths = groups.cut(offsets_to_lengths(offsets_B1))
    pooled: list[Tensor] = []
    for score_RLQ, x_RLD, length_R in zip(padding.pad(score_TQ), padding.pad(x_TD), lengths, strict=True):
        allowed_RL = real_places(length_R, x_RLD.shape[1]) | (length_R == 0)[:, None]
        weight_RLQ = torch.softmax(score_RLQ.masked_fill(~allowed_RL[:, :, None], float("-inf")), dim=1)
        pooled.append(torch.bmm(weight_RLQ.transpose(1, 2), x_RLD))
    return groups.join(pooled)


def jagged_row_matmul(x_TD: Tensor, weight_BDE: Tensor, offsets_B1: Tensor) -> Tensor:
    """Multiply every element by the matrix of its row: out[t] = x[t] W[row of t].

    Args:
        x_TD: elements, [T, D].
        weight_BDE: one matrix a row, [B, D, E].
        offsets_B1: row offsets, int64 [B + 1].

    Returns:
        [T, E].

    Source: the personalised projection of InterFormer, arXiv 2411.09852, Sequence Arch.
    """
    groups = group_rows(offsets_B1)
    padding = grouped_padding(offsets_B1, groups, x_TD.shape[0])
    pairs = zip(padding.pad(x_TD), groups.cut(weight_BDE), strict=True)
    return padding.unpad([torch.bmm(x_RLD, weight_RDE) for x_RLD, weight_RDE in pairs])
