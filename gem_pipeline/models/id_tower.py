"""Logits of all frequent ids together: a deep network over their vectors side by side, each feature behind a gate.

What depends on who, what and where at once is neither a sum over columns nor over pairs of them. A network over all
vectors draws it, if two things are seen to: vectors must stand at unit scale, though tables start near zero so that a
new id adds little noise, and features that say nothing must leave, or they drown the few that matter. So only features
whose ids are frequent enter, and each has a gate that is an exponential: it finds those that matter within a day.

Source: the deep part of Wide & Deep, Cheng et al., arXiv 1606.07792, section 3.2, under the same sum of logits
(section 3.3); gates that select follow AutoFIS, Liu et al., arXiv 2003.11235. That they are exponentials, the unit
scale and the choice by frequency are ours.

Legend: B rows, N tokens, D width, K objectives, V ids of a batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.models.blocks import mlp, steep
from gem_pipeline.models.support import Supported


class IdTower(Supported[str]):
    """MLP([gate_n x_n / std for all frequent n]): [B, N, D] -> [B, K].

    A feature is frequent if its examples are many for its ids (`Supported`); the vector of a rare id is noise to
    whatever reads it deeply, and such features have other ways to the logits.

    Args:
        names: of the tokens.
        dim: D.
        hidden: widths of the hidden layers.
        num_objectives: K.
        init_std: spread of the vectors at the start, by which they are divided.
        dropout: on hidden units, in training only.
    """

    def __init__(
        self, names: tuple[str, ...], dim: int, hidden: tuple[int, ...], num_objectives: int, *, init_std: float,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__(names)
        self.scale = 1.0 / init_std
        self.log_gate_N = nn.Parameter(torch.zeros(len(names)))
        self.mlp = mlp([len(names) * dim, *hidden, num_objectives], dropout=dropout)

    def gates(self) -> Tensor:
        """What the vectors of each feature count, [N]; 0 where its ids are rare."""
        return steep(self.log_gate_N) * self.is_heard().to(self.log_gate_N.dtype)

    def widest(self, count: int) -> dict[str, float]:
        """The features with the widest gates, widest first."""
        return self.largest(self.gates(), count)

    def occurrences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Features and ids of the tokens of a batch, [V] each."""
        parts = batch.ids.to_dict()
        id_V = [parts[name].values() for name in self.names]
        length_N = torch.tensor([len(ids) for ids in id_V], device=id_V[0].device)
        return torch.repeat_interleave(length_N), torch.cat(id_V)

    def forward(self, x_BND: Tensor) -> Tensor:
        """Vectors of the tokens, [B, N, D] -> logits [B, K]."""
        return self.mlp((x_BND * (self.scale * self.gates())[:, None]).flatten(1))
