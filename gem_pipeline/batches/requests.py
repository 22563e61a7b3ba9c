"""Requests and their examples: those of the same user at the same time see the same events at the same age."""

from __future__ import annotations

import torch
from torch import Tensor


def window_places(length_R: Tensor, request_B: Tensor, length_B: Tensor) -> Tensor:
    """Where the events of each example's window stand among those of all requests, int64 [events of all examples].

    Args:
        length_R: events of each request's window.
        request_B: request of each example.
        length_B: events of each example, `length_R[request_B]`.
    """
    first_B = (torch.cumsum(length_R, 0) - length_R).index_select(0, request_B)
    shift_B = first_B - (torch.cumsum(length_B, 0) - length_B)
    total = int(length_B.sum())
    return torch.repeat_interleave(shift_B, length_B, output_size=total) + torch.arange(total, device=length_B.device)
