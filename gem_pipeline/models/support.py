"""The rule of 30: what has too few examples on the first day, on average over its ids, is left out of what learns it.

A weight or a vector of an id that was seen twice is no rule. Ours.

Legend: F what is judged (features, or pairs of features), V ids of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch

EXAMPLES = 30.0  # that are needed on the first day for each id, on average
BUCKETS = 1 << 16

Name = TypeVar("Name", bound=Hashable)


class Supported(nn.Module, ABC, Generic[Name]):
    """A module over things that it hears only where their examples are many for their ids.

    Args:
        names: of the F things that are judged.
    """

    support_F: Tensor

    def __init__(self, names: tuple[Name, ...]) -> None:
        super().__init__()
        self.names = names
        self.register_buffer("support_F", torch.full((len(names),), torch.inf))

    @abstractmethod
    def occurrences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the ids of a batch belong to, a place in `names`, int64 [V], and the ids themselves, int64 [V]."""

    @property
    def is_fitted(self) -> bool:
        """Whether it is known of everything if it is heard."""
        return not torch.isinf(self.support_F).any()

    def fit(self, support_F: Tensor) -> None:
        """Fix, where it is not known yet, how many examples there are for each id, [F]."""
        self.support_F.copy_(torch.where(torch.isinf(self.support_F), support_F.to(self.support_F), self.support_F))

    def is_heard(self) -> Tensor:
        """Whether examples are many enough, or not counted yet, bool [F]."""
        return self.support_F >= EXAMPLES

    @torch.no_grad()
    def largest(self, value_F: Tensor, count: int) -> dict[Name, float]:
        """Of what is heard, those with the largest of some values [F], largest first."""
        value = value_F.tolist()
        heard = torch.nonzero(self.is_heard()).flatten().tolist()
        return {self.names[place]: value[place] for place in sorted(heard, key=lambda place: -value[place])[:count]}


class Support:
    """Counts, batch by batch, how many examples there are for each id of everything that a module judges.

    Ids are told apart up to `BUCKETS`, so that memory stays bounded.
    """

    def __init__(self, module: Supported) -> None:
        self.module = module
        self._seen_F = torch.zeros(len(module.names), dtype=torch.int64)
        self._is_there_FH = torch.zeros(len(module.names), BUCKETS, dtype=torch.bool)

    def add(self, batch: Batch) -> None:
        """Count the ids of a batch as it was read."""
        feature_V, id_V = (part.cpu() for part in self.module.occurrences(batch))
        self._seen_F += torch.bincount(feature_V, minlength=len(self._seen_F))
        self._is_there_FH[feature_V, torch.remainder(id_V, BUCKETS)] = True

    def examples_an_id(self) -> Tensor:
        """On average, float32 [F]; infinite where no id was seen."""
        return self._seen_F.float().where(self._seen_F > 0, torch.inf) / self._is_there_FH.sum(dim=1).clamp(min=1)

    def fix(self) -> None:
        """Tell the module."""
        self.module.fit(self.examples_an_id())
