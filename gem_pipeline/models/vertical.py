"""Vertical models: small students, one for a surface x objective.

Legend: B rows, N tokens, D width, T events kept, P token pairs, R trunk width.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import offsets_to_lengths
from gem_pipeline.models.blocks import DenseNormalizer, mlp
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.dlrm import pairwise_dots
from gem_pipeline.models.embeddings import FeatureEmbeddings, mean_by_segment, newest_events
from gem_pipeline.models.heads import GATE_STD, RATE_FLOOR
from gem_pipeline.models.vectors import vector_towers

RECENT_EVENTS = WindowSpec(max_events=16)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerticalConfig:
    """Shape of a vertical model.

    Attributes:
        dim: width of its own embeddings.
        history: events of a row that are pooled.
        hidden: widths of the trunk, the last one feeds both heads.
        embedding_std: spread of the embeddings at the start.
        dropout: on hidden units of the trunk, in training only.
    """

    dim: int = 8
    history: WindowSpec = RECENT_EVENTS
    hidden: tuple[int, ...] = (64, 32)
    embedding_std: float = 0.05
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not self.hidden or min(self.dim, *self.hidden) < 1:
            raise ConfigError(f"Model sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        if self.embedding_std <= 0.0:
            raise ConfigError(f"embedding_std {self.embedding_std} must be positive.", remedy="Choose 0.01 to 0.2.")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout {self.dropout} is no probability below 1.", remedy="Choose 0 <= dropout < 1.")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_dict` reverses it."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> VerticalConfig:
        """Rebuild a configuration from `to_dict`, also after a trip through JSON."""
        return read_config(VerticalConfig, document | {"history": WindowSpec.from_dict(document["history"])})


@dataclass(frozen=True, kw_only=True)
class VerticalOutput:
    """What a vertical model says about B examples.

    Attributes:
        logit_B: the serving head, [B]; its loss sees labels only.
        distill_logit_B: the auxiliary head, [B]; its loss sees the teacher only; never served.
    """

    logit_B: Tensor
    distill_logit_B: Tensor


class VerticalModel(nn.Module):
    """A DLRM with a pooled recent history, a serving head and an auxiliary distillation head.

    The heads share the trunk, so that the teacher shapes the features while its errors never reach the
    served logit directly.

    Source: DLRM, arXiv 1906.00091; auxiliary head of ExFM, arXiv 2502.17494, section 3.2.
    """

    def __init__(self, layout: InputLayout, config: VerticalConfig) -> None:
        super().__init__()
        self.layout, self.config = layout, config
        self.embeddings = FeatureEmbeddings(layout, config.dim, init_std=config.embedding_std)
        self.event_dense = nn.Linear(len(layout.event_dense), config.dim)
        self.normalize = DenseNormalizer(len(layout.dense))
        self.dense = mlp([len(layout.dense), config.hidden[-1], config.dim])
        self.vectors = vector_towers(layout.vectors, config.dim, init_std=config.embedding_std)
        num_tokens = len(layout.tokens) + 2 + len(layout.vectors)
        width = num_tokens * (num_tokens - 1) // 2 + num_tokens * config.dim + len(layout.dense)
        self.trunk = mlp([width, *config.hidden], dropout=config.dropout)
        self.serving_head = nn.Linear(config.hidden[-1], 1)
        self.distill_head = nn.Linear(config.hidden[-1], 1)
        for head in (self.serving_head, self.distill_head):
            nn.init.normal_(head.weight, std=GATE_STD)
            nn.init.zeros_(head.bias)

    def forward(self, batch: Batch) -> VerticalOutput:
        """Score a batch: ids, dense [B, F], event numbers [T, E] -> two logits [B]."""
        batch = expand_histories(batch, self.layout)  # windows of a few events overlap little
        ids, kept = newest_events(batch.ids, self.layout, self.config.history.max_events)
        embedded = self.embeddings(ids)
        event_dense_TE = batch.event_dense_TE.index_select(0, kept)
        event_TD = torch.stack(embedded.event_TD).sum(dim=0) + self.event_dense(event_dense_TE)
        history_BD = mean_by_segment(event_TD, offsets_to_lengths(embedded.offsets_B1))
        dense_BF = self.normalize(batch.dense_BF)
        tokens = [self.dense(dense_BF)[:, None], history_BD[:, None], embedded.token_BND]
        if self.vectors is not None:
            tokens.append(self.vectors(batch.vectors))
        x_BND = torch.cat(tokens, dim=1)
        features = torch.cat([dense_BF, x_BND.flatten(1), pairwise_dots(x_BND)], dim=1)
        hidden_BR = torch.relu(self.trunk(features))
        return VerticalOutput(
            logit_B=self.serving_head(hidden_BR).squeeze(1), distill_logit_B=self.distill_head(hidden_BR).squeeze(1)
        )

    def init_bias(self, base_rate: float) -> None:
        """Start both heads from the base rate, a probability."""
        logit = torch.logit(torch.tensor(base_rate, dtype=torch.float64), eps=RATE_FLOOR).item()
        for head in (self.serving_head, self.distill_head):
            nn.init.constant_(head.bias, logit)

    def init_dense(self, mean_F: Tensor, std_F: Tensor, *, late: bool = False) -> None:
        """Fix the moments of the dense inputs, [F] each; late: only of those that never had any spread."""
        self.normalize.fit(mean_F, std_F, late=late)
