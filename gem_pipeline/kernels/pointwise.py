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
from gem_pipeline.kernels.grouping import group_rows, grouped_padding

Activation = Literal["gelu", "silu", "relu", "squared_relu"]


def _squared_relu(x: Tensor) -> Tensor:
    return relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
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
    act = ACTIVATIONS[activation]
    groups = group_rows(q_offsets_B1)
    q_padding = grouped_padding(q_offsets_B1, groups, q_THD.shape[0])
    kv_padding = grouped_padding(kv_offsets_B1, groups, k_THD.shape[0])
    outputs: list[Tensor] = []
    for q_RLHD, k_RLHD, v_RLHD in zip(q_padding.pad(q_THD), kv_padding.pad(k_THD), kv_padding.pad(v_THD), strict=True):
        score_RHLL = torch.matmul(q_RLHD.transpose(1, 2), k_RLHD.permute(0, 2, 3, 1))
        out_RHLD = torch.matmul(act(score_RHLL), v_RLHD.transpose(1, 2)) * scale
        outputs.append(out_RHLD.transpose(1, 2))
    return q_padding.unpad(outputs)
