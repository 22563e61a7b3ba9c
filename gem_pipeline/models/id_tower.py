"""Logits of all frequent ids together: a deep network over their vectors side by side, each feature behind a gate.

What depends on who, what and where at once is neither a sum over columns nor over pairs of them. A network over all
vectors draws it, if two things are seen to: vectors must stand at unit scale, though tables start near zero so that a
new id adds little noise, and features that say nothing must leave, or they drown the few that matter. So only features
whose ids are frequent enter, and each has a gate that is an exponential: it finds those that matter within a day, if
it is not so steep that it closes on the noise of the first steps. Objectives share the vectors and nothing else: in
one network the gradients of the others drown what one of them has to say. SiLU draws a smooth function from fewer
examples than ReLU does.

Source: the deep part of Wide & Deep, Cheng et al., arXiv 1606.07792, section 3.2, under the same sum of logits
(section 3.3); gates that select follow AutoFIS, Liu et al., arXiv 2003.11235. That they are exponentials, the unit
scale, the choice by frequency and a network an objective are ours.

Legend: B rows, N tokens, D width, K objectives, V ids of a batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.models.blocks import mlp, steep
from gem_pipeline.models.support import Supported

STEEPNESS = 5.0  # 50, as strengths of pairs have it, closes gates before what is behind them is learnt


class IdTower(Supported[str]):
    """MLP_k([gate_nk x_n / std for all frequent n]) for each objective k: [B, N, D] -> [B, K].

    A feature is frequent if its examples are many for its ids (`Supported`); the vector of a rare id is noise to
    whatever reads it deeply, and such features have other ways to the logits.

    Args:
        names: of the tokens.
        dim: D.
        hidden: widths of the hidden layers of each network.
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
        self.log_gate_KN = nn.Parameter(torch.zeros(num_objectives, len(names)))
        self.networks = nn.ModuleList(
            mlp([len(names) * dim, *hidden, 1], dropout=dropout, activation=nn.SiLU) for _ in range(num_objectives)
        )

    def gates(self) -> Tensor:
        """What the vectors of each feature count for each objective, [K, N]; 0 where its ids are rare."""
        return steep(self.log_gate_KN, STEEPNESS) * self.is_heard().to(self.log_gate_KN.dtype)

    def widest(self, count: int) -> dict[str, float]:
        """The features with the widest gates on average over objectives, widest first."""
        return self.largest(self.gates().mean(dim=0), count)

    def occurrences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Features and ids of the tokens of a batch, [V] each."""
        parts = batch.ids.to_dict()
        id_V = [parts[name].values() for name in self.names]
        length_N = torch.tensor([len(ids) for ids in id_V], device=id_V[0].device)
        return torch.repeat_interleave(length_N), torch.cat(id_V)

    def forward(self, x_BND: Tensor) -> Tensor:
        """Vectors of the tokens, [B, N, D] -> logits [B, K]."""
        gate_KN1 = (self.scale * self.gates())[:, :, None]
        told = [network((x_BND * gate_N1).flatten(1)) for network, gate_N1 in zip(self.networks, gate_KN1, strict=True)]
        return torch.cat(told, dim=1)
