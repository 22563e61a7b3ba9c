"""Logits of all frequent ids together: a deep network over their vectors side by side, each feature behind a gate.

What depends on who, what and where at once is neither a sum over columns nor over pairs of them. A network over all
vectors draws it, if two things are seen to: vectors must stand at unit scale, though tables start near zero so that a
new id adds little noise, and features that say nothing must leave, or they drown the few that matter. So only features
whose ids are frequent enter, and each has a gate that is an exponential: it finds those that matter within a day.

Source: the deep part of Wide & Deep, Cheng et al., arXiv 1606.07792, section 3.2, under the same sum of logits
(section 3.3); gates that select follow AutoFIS, Liu et al., arXiv 2003.11235. That they are exponentials, the unit
scale and the choice by frequency are ours.

Legend: B rows, N tokens, D width, K objectives, H buckets.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.models.blocks import mlp

EXAMPLES = 30.0  # that a feature needs on the first day for each of its ids, on average, to enter
STEEPNESS = 50.0  # a gate is an exponential: a step of the dense rate changes it by so many times the rate
BUCKETS = 1 << 16


class IdTower(nn.Module):
    """MLP([gate_n x_n / std for all frequent n]): [B, N, D] -> [B, K].

    A feature is frequent if on the first day there are `EXAMPLES` examples for each of its ids; the vector of a rare id
    is noise to whatever reads it deeply, and such features have other ways to the logits.

    Args:
        names: of the tokens.
        dim: D.
        hidden: widths of the hidden layers.
        num_objectives: K.
        init_std: spread of the vectors at the start, by which they are divided.
        dropout: on hidden units, in training only.
    """

    support_N: Tensor

    def __init__(
        self, names: tuple[str, ...], dim: int, hidden: tuple[int, ...], num_objectives: int, *, init_std: float,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.names, self.scale = names, 1.0 / init_std
        self.register_buffer("support_N", torch.full((len(names),), torch.inf))
        self.log_gate_N = nn.Parameter(torch.zeros(len(names)))
        self.mlp = mlp([len(names) * dim, *hidden, num_objectives], dropout=dropout)

    def gates(self) -> Tensor:
        """What the vectors of each feature count, [N]; 0 where its ids are rare."""
        return (STEEPNESS * self.log_gate_N).exp() * (self.support_N >= EXAMPLES).to(self.log_gate_N.dtype)

    @torch.no_grad()
    def widest(self, count: int) -> dict[str, float]:
        """The features with the widest gates, widest first."""
        gate_N = self.gates().tolist()
        first = sorted((place for place, gate in enumerate(gate_N) if gate > 0.0), key=lambda place: -gate_N[place])
        return {self.names[place]: gate_N[place] for place in first[:count]}

    @property
    def is_fitted(self) -> bool:
        """Whether it is known of every feature if its ids are frequent."""
        return not torch.isinf(self.support_N).any()

    def fit(self, support_N: Tensor) -> None:
        """Fix, where it is not known yet, how many examples there are for each id of every feature, [N]."""
        self.support_N.copy_(torch.where(torch.isinf(self.support_N), support_N.to(self.support_N), self.support_N))

    def forward(self, x_BND: Tensor) -> Tensor:
        """Vectors of the tokens, [B, N, D] -> logits [B, K]."""
        return self.mlp((x_BND * (self.scale * self.gates())[:, None]).flatten(1))


class TokenSupport:
    """Counts, batch by batch, how many examples there are for each id of every feature of a tower.

    Ids are told apart up to `BUCKETS`, so that memory stays bounded.
    """

    def __init__(self, tower: IdTower) -> None:
        self.tower = tower
        self._seen_N = torch.zeros(len(tower.names), dtype=torch.int64)
        self._is_there_NH = torch.zeros(len(tower.names), BUCKETS, dtype=torch.bool)

    def add(self, batch: Batch) -> None:
        """Count the ids of a batch as it was read."""
        parts = batch.ids.to_dict()
        for place, name in enumerate(self.tower.names):
            id_V = parts[name].values().cpu()
            self._seen_N[place] += len(id_V)
            self._is_there_NH[place, torch.remainder(id_V, BUCKETS)] = True

    def examples_an_id(self) -> Tensor:
        """On average, float32 [N]; infinite where no id was seen."""
        return self._seen_N.float().where(self._seen_N > 0, torch.inf) / self._is_there_NH.sum(dim=1).clamp(min=1)

    def fix(self) -> None:
        """Tell the tower."""
        self.tower.fit(self.examples_an_id())
