"""One batch of examples with their histories, jagged, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B examples of one or more surfaces; T is the number of events of the whole batch.

    Attributes:
        ids: KeyedJaggedTensor, keys as `InputLayout.keys`, stride B. The event keys share one jagged
            length a row; events run from the oldest to the newest.
        dense_BF: float32 [B, F], columns as `InputLayout.dense`.
        event_dense_TE: float32 [T, E], columns as `InputLayout.event_dense`, aligned with the event ids.
        surface_B: int64 [B], position in `InputLayout.surfaces`.
        label_BK: float32 [B, K], 0 or 1; 0 where masked.
        mask_BK: bool [B, K], whether the label exists: the surface optimises the objective.
        user_B: int64 [B], the user, for per-user metrics.
        example_B: int64 [B], row number of the example in its partition (bucket, user, time, id order).
    """

    ids: KeyedJaggedTensor
    dense_BF: Tensor
    event_dense_TE: Tensor
    surface_B: Tensor
    label_BK: Tensor
    mask_BK: Tensor
    user_B: Tensor
    example_B: Tensor

    @property
    def size(self) -> int:
        """Number of examples B."""
        return int(self.surface_B.shape[0])

    def to(self, device: torch.device) -> Batch:
        """Copy every tensor to a device."""
        return Batch(
            ids=self.ids.to(device),
            dense_BF=self.dense_BF.to(device),
            event_dense_TE=self.event_dense_TE.to(device),
            surface_B=self.surface_B.to(device),
            label_BK=self.label_BK.to(device),
            mask_BK=self.mask_BK.to(device),
            user_B=self.user_B.to(device),
            example_B=self.example_B.to(device),
        )
