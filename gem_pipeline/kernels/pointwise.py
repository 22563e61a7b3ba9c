"""Generalised dot-product attention: two products with an activation between them, no softmax.

Legend: B rows, Tq / Tk query / key elements of the whole batch, H heads, D head width, B1 = B + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, silu

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.dispatch import fused
from gem_pipeline.kernels.grouping import group_rows, grouped_padding
from gem_pipeline.kernels.jagged import jagged_to_padded, max_length
from gem_pipeline.kernels.windowed import block_offsets

Activation = Literal["gelu", "silu", "relu", "squared_relu"]
Map = Callable[[Tensor], Tensor]
TILE = 64
FEW_KEYS = 128  # a copy of more keys for every tile would cost more than the padding it saves


def _squared_relu(x: Tensor) -> Tensor:
    return relu(x).square()


ACTIVATIONS: dict[str, Map] = {
    "gelu": partial(gelu, approximate="tanh"),
    "silu": silu,
    "relu": relu,
    "squared_relu": _squared_relu,
}


def gdpa(
    q_THD: Tensor,
    k_THD: Tensor,
    v_THD: Tensor,
    q_offsets_B1: Tensor,
    kv_offsets_B1: Tensor,
    *,
    activation: Activation,
    scale: float,
) -> Tensor:
    """Read the values of the own row with weights act(q . k) * scale.

    out[i] = scale * sum_j act(q[i] . k[j]) v[j], j over the keys of the row of i. No softmax, so the strength
    of a match survives and nothing has to be masked: padding is zero keys and zero values, which add zero.
    With few keys a row this is the personalised feed-forward of Kunlun, with the row's own elements as keys
    and SiLU it is the attention of HSTU. The caller adds the query where a residual is wanted.

    Args:
        q_THD: queries, [Tq, H, D].
        k_THD: keys, [Tk, H, D].
        v_THD: values, [Tk, H, D].
        q_offsets_B1: rows of the queries, int64 [B + 1].
        kv_offsets_B1: rows of the keys, int64 [B + 1].
        activation: applied to the scores before the scale, as the official kernel does.
        scale: multiplies the activated scores.

    Returns:
        [Tq, H, D]; zeros for a query whose row has no key.

    Raises:
        ConfigError: the activation is unknown.

    Source: GDPA of Kunlun, arXiv 2602.10016, as in facebookresearch/ads_model_kernel_library.
    """
    if activation not in ACTIVATIONS:
        raise ConfigError(
            f"GDPA knows no activation {activation!r}.", remedy=f"Choose one of {', '.join(ACTIVATIONS)}."
        )
    kernel = fused("gdpa", q_THD)
    if kernel is not None:
        return kernel.gdpa(q_THD, k_THD, v_THD, q_offsets_B1, kv_offsets_B1, activation=activation, scale=scale)
    act = ACTIVATIONS[activation]
    longest = max_length(kv_offsets_B1)
    if longest <= FEW_KEYS:
        return _few_keys(q_THD, (k_THD, v_THD), q_offsets_B1, kv_offsets_B1, act, longest) * scale
    groups = group_rows(q_offsets_B1)
    q_padding = grouped_padding(q_offsets_B1, groups, q_THD.shape[0])
    kv_padding = grouped_padding(kv_offsets_B1, groups, k_THD.shape[0])
    parts = zip(q_padding.pad(q_THD), kv_padding.pad(k_THD), kv_padding.pad(v_THD), strict=True)
    return q_padding.unpad([_read(q, k, v, act) for q, k, v in parts]) * scale


def _few_keys(
    q_THD: Tensor, kv_THD: tuple[Tensor, Tensor], q_offsets_B1: Tensor, kv_offsets_B1: Tensor, act: Map, longest: int
) -> Tensor:
    """Cut the queries of every row into tiles, each with a copy of the row's few keys: hardly anything is padded."""
    tile_S1 = block_offsets(q_offsets_B1, TILE)
    row_S = torch.searchsorted(q_offsets_B1, tile_S1[:-1], right=True) - 1
    k_BMHD, v_BMHD = (jagged_to_padded(x, kv_offsets_B1, max(1, longest)) for x in kv_THD)
    groups = group_rows(tile_S1)
    padding = grouped_padding(tile_S1, groups, q_THD.shape[0])
    parts = zip(padding.pad(q_THD), groups.cut(row_S), strict=True)
    return padding.unpad([_read(q, k_BMHD.index_select(0, r), v_BMHD.index_select(0, r), act) for q, r in parts])


def _read(q_RLHD: Tensor, k_RMHD: Tensor, v_RMHD: Tensor, act: Map) -> Tensor:
    """act(q k^T) v of padded rows, [R, L, H, D]."""
    score_RHLM = torch.matmul(q_RLHD.transpose(1, 2), k_RMHD.permute(0, 2, 3, 1))
    return torch.matmul(act(score_RHLM), v_RMHD.transpose(1, 2)).transpose(1, 2)
