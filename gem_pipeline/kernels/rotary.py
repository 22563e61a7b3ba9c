"""Rotary phases that know the time gap of an event beside its position.

Legend: T elements of the whole batch, H pairs of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gem_pipeline.kernels.jagged import rotary_phase

FASTEST = 4.0  # radians an e-fold of the time gap turns the fastest pair
SLOWEST = 0.1  # radians an e-fold of the time gap turns the slowest pair


def log_time_phase(
    position_T: Tensor, gap_s_T: Tensor, head_dim: int, dtype: torch.dtype, *, time_scale_s: float
) -> Tensor:
    """Rotary phase from position and log time: exp(i (position * theta[h] + tau * omega[h])).

    tau = log(1 + gap / time_scale). Where q and k are rotated, a score depends on the differences of positions
    and of tau: on the ratio of two ages, so that a minute matters an hour ago and not a month ago.

    Args:
        position_T: integer positions, at least 0, [T].
        gap_s_T: seconds from the event to the impression, at least 0, [T].
        head_dim: even width of a head.
        dtype: real type of what will be rotated; half types rotate in float32.
        time_scale_s: gaps well below it are alike, seconds.

    Returns:
        Complex [T, 1, head_dim / 2], for `rotate`.

    Source: ROTE of Kunlun, arXiv 2602.10016 (log-scaled time gap next to position); that both turn every pair,
    and the rates omega (geometric from 4 to 0.1), are ours.
    """
    num_pairs = head_dim // 2
    share_H = torch.arange(num_pairs, device=gap_s_T.device, dtype=torch.float64) / max(1, num_pairs - 1)
    omega_H = FASTEST * (SLOWEST / FASTEST) ** share_H
    tau_T = torch.log1p(gap_s_T.to(torch.float64) / time_scale_s)
    angle_TH = tau_T[:, None] * omega_H
    time_T1H = torch.polar(torch.ones_like(angle_TH), angle_TH)[:, None, :]
    place_T1H = rotary_phase(position_T, head_dim, dtype)
    return place_T1H * time_T1H.to(place_T1H.dtype)
