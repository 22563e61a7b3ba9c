"""Attention that stays near: inside blocks, or inside a sliding window; the cost is linear in the length of a row.

Legend: B rows, T elements of the whole batch, H heads, D head width, S sub-rows, P pieces of keys, B1 = B + 1.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.attention import jagged_attention
from gem_pipeline.kernels.dispatch import fused
from gem_pipeline.kernels.grouping import group_rows, grouped_padding, real_places
from gem_pipeline.kernels.jagged import lengths_to_offsets, offsets_to_lengths, row_of_element

LARGEST_FUSED_BLOCK = 64  # a block must fit into one program of the fused kernel


def block_offsets(offsets_B1: Tensor, block: int) -> Tensor:
    """Cut every row into blocks of `block` elements, counted from the newest; the oldest block may be shorter.

    Counting from the newest end is ours: the newest block is always full, and what an event sees depends on
    how recent it is, not on how long the row is.

    Returns:
        Offsets of the blocks of all rows, int64 [S + 1]; an empty row has no block.
    """
    length_B = offsets_to_lengths(offsets_B1)
    count_B = torch.div(length_B + block - 1, block, rounding_mode="floor")
    num_blocks = int(count_B.sum())
    row_S = torch.repeat_interleave(torch.arange(length_B.shape[0], device=length_B.device), count_B)
    first_S = (torch.cumsum(count_B, dim=0) - count_B).index_select(0, row_S)
    older_S = count_B.index_select(0, row_S) - 1 - (torch.arange(num_blocks, device=length_B.device) - first_S)
    end_S = offsets_B1[1:].index_select(0, row_S) - older_S * block
    return torch.cat([offsets_B1[:1], end_S])


def jagged_block_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, *, block: int) -> Tensor:
    """Softmax attention inside non-overlapping blocks of every row.

    out[i] = sum_j softmax_j(q[i] . k[j] / sqrt(D)) v[j], j over the block of i.

    Args:
        q_THD: queries, [T, H, D].
        k_THD: keys, [T, H, D].
        v_THD: values, [T, H, D].
        offsets_B1: row offsets, int64 [B + 1].
        block: elements of a block, at least 1.

    Returns:
        [T, H, D]; at most T x block scores are formed.

    Raises:
        ConfigError: the block is empty.

    Source: block attention of Kunlun's kernels (blocks of 64, facebookresearch/ads_model_kernel_library).
    """
    if block < 1:
        raise ConfigError(f"A block of {block} elements holds nothing.", remedy="Choose a block of at least 1.")
    inner_S1 = block_offsets(offsets_B1, block)
    kernel = fused("block", q_THD) if block <= LARGEST_FUSED_BLOCK else None
    if kernel is not None:
        return kernel.block_attention(q_THD, k_THD, v_THD, inner_S1, block=block)
    return jagged_attention(q_THD, k_THD, v_THD, inner_S1, inner_S1)


def jagged_window_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, *, window: int) -> Tensor:
    """Softmax attention of every element to its neighbours of the same row, |i - j| <= window, both ways in time.

    Rows are cut into sub-rows of `window` elements; a sub-row reads the keys of itself and of its two
    neighbours, so 3 x window scores are formed an element and those out of reach are masked (ours).

    Args:
        q_THD: queries, [T, H, D].
        k_THD: keys, [T, H, D].
        v_THD: values, [T, H, D].
        offsets_B1: row offsets, int64 [B + 1].
        window: reach on either side, at least 1.

    Returns:
        [T, H, D].

    Raises:
        ConfigError: the window reaches nobody.

    Source: sliding-window attention of Kunlun, arXiv 2602.10016, bidirectional [t - w, t + w].
    """
    if window < 1:
        raise ConfigError(f"A window of {window} reaches nobody.", remedy="Choose a window of at least 1.")
    num_elements = q_THD.shape[0]
    inner_S1 = block_offsets(offsets_B1, window)
    row_S = row_of_element(offsets_B1, num_elements).index_select(0, inner_S1[:-1])
    first_S = torch.maximum(inner_S1[:-1] - window, offsets_B1[:-1].index_select(0, row_S))
    last_S = torch.minimum(inner_S1[1:] + window, offsets_B1[1:].index_select(0, row_S))
    key_S1 = lengths_to_offsets(last_S - first_S)
    num_keys = int(key_S1[-1])
    sub_P = row_of_element(key_S1, num_keys)
    source_P = torch.arange(num_keys, device=q_THD.device) + (first_S - key_S1[:-1]).index_select(0, sub_P)
    groups = group_rows(key_S1)
    q_padding = grouped_padding(inner_S1, groups, num_elements)
    kv_padding = grouped_padding(key_S1, groups, num_keys)
    lead = groups.cut(inner_S1[:-1] - first_S)  # how far the first query stands behind the first key
    lengths = groups.cut(last_S - first_S)
    outputs: list[Tensor] = []
    parts = zip(
        q_padding.pad(q_THD),
        kv_padding.pad(k_THD.index_select(0, source_P)),
        kv_padding.pad(v_THD.index_select(0, source_P)),
        lead,
        lengths,
        strict=True,
    )
    for q_RLHD, k_RLHD, v_RLHD, lead_R, length_R in parts:
        query_L = torch.arange(q_RLHD.shape[1], device=q_THD.device)
        key_L = torch.arange(k_RLHD.shape[1], device=q_THD.device)
        apart_RLL = (query_L[:, None] - key_L) + lead_R[:, None, None]
        near_RLL = (apart_RLL.abs() <= window) & real_places(length_R, k_RLHD.shape[1])[:, None, :]
        near_RLL |= ~near_RLL.any(dim=2, keepdim=True)  # a padded query may see anything: it is dropped
        out_RHLD = scaled_dot_product_attention(
            q_RLHD.transpose(1, 2), k_RLHD.transpose(1, 2), v_RLHD.transpose(1, 2), attn_mask=near_RLL[:, None]
        )
        outputs.append(out_RHLD.transpose(1, 2))
    return q_padding.unpad(outputs)
