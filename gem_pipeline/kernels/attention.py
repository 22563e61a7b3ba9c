"""Softmax attention over jagged rows: a row sees its own elements only, whatever shares its batch.

Legend: B rows, Tq / Tk query / key elements of the whole batch, H heads, D head width, L padded length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gem_pipeline.kernels.jagged import jagged_to_padded, max_length, offsets_to_lengths, padded_to_jagged


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
    num_queries = q_THD.shape[0]
    length_k = max_length(kv_offsets_B1)
    if num_queries == 0 or length_k == 0:
        return q_THD.new_zeros(q_THD.shape) + 0.0 * (q_THD.sum() + k_THD.sum() + v_THD.sum())
    q_BHLD = jagged_to_padded(q_THD, q_offsets_B1, max_length(q_offsets_B1)).transpose(1, 2)
    k_BHLD = jagged_to_padded(k_THD, kv_offsets_B1, length_k).transpose(1, 2)
    v_BHLD = jagged_to_padded(v_THD, kv_offsets_B1, length_k).transpose(1, 2)
    length_B = offsets_to_lengths(kv_offsets_B1)
    real_BL = torch.arange(length_k, device=length_B.device) < length_B[:, None]
    # A row without keys averages its padding, which is zeros: no NaN, and the result is zero.
    allowed_B11L = (real_BL | (length_B == 0)[:, None])[:, None, None, :]
    out_BHLD = F.scaled_dot_product_attention(q_BHLD, k_BHLD, v_BHLD, attn_mask=allowed_B11L)
    return padded_to_jagged(out_BHLD.transpose(1, 2), q_offsets_B1, num_queries)


def jagged_softmax_pool(score_TQ: Tensor, x_TD: Tensor, offsets_B1: Tensor) -> Tensor:
    """Pool each row into Q vectors with softmax weights over its own elements.

    out[b, q] = sum_t softmax_t(score[t, q]) x[t], t over row b.

    Args:
        score_TQ: one score an element and query, [T, Q].
        x_TD: elements, [T, D].
        offsets_B1: row offsets, int64 [B + 1].

    Returns:
        [B, Q, D]; zeros for an empty row.

    Source: the attention of a fixed set of seeds, Lee et al., Set Transformer, arXiv 1810.00825, 3.2.
    """
    num_rows, length = offsets_B1.shape[0] - 1, max_length(offsets_B1)
    if length == 0:
        return x_TD.new_zeros(num_rows, score_TQ.shape[1], x_TD.shape[1]) + 0.0 * (score_TQ.sum() + x_TD.sum())
    score_BLQ = jagged_to_padded(score_TQ, offsets_B1, length)
    x_BLD = jagged_to_padded(x_TD, offsets_B1, length)
    length_B = offsets_to_lengths(offsets_B1)
    padding_BL = torch.arange(length, device=length_B.device) >= length_B[:, None].clamp(min=1)
    weight_BLQ = torch.softmax(score_BLQ.masked_fill(padding_BL[:, :, None], float("-inf")), dim=1)
    return torch.bmm(weight_BLQ.transpose(1, 2), x_BLD)
