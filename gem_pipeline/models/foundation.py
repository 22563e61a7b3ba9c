"""The foundation model: embeddings, interleaved trunk, domain heads.

Legend: B rows, N tokens, F dense inputs, T events, D width, R width of the representation, K objectives.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, offsets_to_lengths
from gem_pipeline.models.blocks import DenseNormalizer, mlp
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.embeddings import FeatureEmbeddings
from gem_pipeline.models.first_order import FirstOrderTerms, HistoryStatistics
from gem_pipeline.models.heads import DomainGate, DomainHeads
from gem_pipeline.models.interformer import InterFormer, InterFormerConfig
from gem_pipeline.models.sequence import EventEncoder
from gem_pipeline.models.wukong import WukongConfig

TINY_HISTORY = WindowSpec(max_events=64)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationConfig:
    """Shape of the foundation model; the defaults are size `tiny`.

    Attributes:
        dim: width D of every token and event.
        layers: interleaved layers.
        history: events of a row that the reader hands over.
        heads: attention heads.
        num_summary: summary tokens of the non-sequence side (CLS tokens of the sequence).
        num_pma: learned pooling queries over the sequence.
        num_recent: newest events read as they are.
        fmb_tokens: tokens out of Wukong's factorization machine block.
        lcb_tokens: tokens out of Wukong's linear compress block.
        rank: columns of Y in Wukong's X (X^T Y).
        fmb_hidden: hidden widths of the MLP in the factorization machine block.
        attentive_y: Y is computed from the input instead of learned once.
        pffn_hidden: hidden width of the MLP that writes a row's matrix.
        dense_hidden: hidden widths of the MLP from all dense inputs to one token.
        trunk_hidden: hidden widths of the MLP from the last summaries to the representation.
        representation_dim: width R of the representation.
        first_order_history: newest events in the first-order terms.
        statistics_windows: numbers of newest events over which event numbers are averaged as dense inputs.
        domain_dim: width of the surface vector in the domain gate.
        embedding_std: spread of the embeddings at the start.
        dropout: on hidden units of the interaction and trunk MLPs, in training only.
    """

    dim: int = 32
    layers: int = 2
    history: WindowSpec = TINY_HISTORY
    heads: int = 2
    num_summary: int = 4
    num_pma: int = 2
    num_recent: int = 2
    fmb_tokens: int = 12
    lcb_tokens: int = 12
    rank: int = 8
    fmb_hidden: tuple[int, ...] = (128,)
    attentive_y: bool = True
    pffn_hidden: int = 32
    dense_hidden: tuple[int, ...] = (64,)
    trunk_hidden: tuple[int, ...] = (64,)
    representation_dim: int = 32
    domain_dim: int = 8
    first_order_history: int = 20
    statistics_windows: tuple[int, ...] = (4, 20)
    embedding_std: float = 0.05
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.representation_dim, self.domain_dim, *self.dense_hidden, *self.trunk_hidden) < 1:
            raise ConfigError(f"Model sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        if self.embedding_std <= 0.0:
            raise ConfigError(f"embedding_std {self.embedding_std} must be positive.", remedy="Choose 0.01 to 0.2.")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout {self.dropout} is no probability below 1.", remedy="Choose 0 <= dropout < 1.")
        self.trunk()  # its own rules

    def trunk(self) -> InterFormerConfig:
        """Shape of the interleaved trunk."""
        return InterFormerConfig(
            dim=self.dim,
            layers=self.layers,
            heads=self.heads,
            num_summary=self.num_summary,
            num_pma=self.num_pma,
            num_recent=self.num_recent,
            pffn_hidden=self.pffn_hidden,
            wukong=WukongConfig(
                fmb_tokens=self.fmb_tokens,
                lcb_tokens=self.lcb_tokens,
                rank=self.rank,
                hidden=self.fmb_hidden,
                attentive_y=self.attentive_y,
                dropout=self.dropout,
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_dict` reverses it."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> FoundationConfig:
        """Rebuild a configuration from `to_dict`, also after a trip through JSON."""
        return read_config(FoundationConfig, document | {"history": WindowSpec.from_dict(document["history"])})


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """What the foundation model says about B examples.

    Attributes:
        logit_BK: logits of all objectives on the example's own surface, [B, K].
        representation_BD: example-side representation (gated trunk output), [B, R].
    """

    logit_BK: Tensor
    representation_BD: Tensor


class FoundationModel(nn.Module):
    """GEM: unified tables, Wukong and jagged attention interleaved by InterFormer, domain heads (ours)."""

    def __init__(self, layout: InputLayout, config: FoundationConfig) -> None:
        super().__init__()
        self.layout, self.config = layout, config
        trunk = config.trunk()
        self.embeddings = FeatureEmbeddings(layout, config.dim, init_std=config.embedding_std)
        self.normalize = DenseNormalizer(len(layout.dense))
        self.statistics = HistoryStatistics(config.statistics_windows, len(layout.event_dense))
        num_numbers = len(layout.dense) + self.statistics.num_numbers
        self.first_order = FirstOrderTerms(layout, num_numbers, config.first_order_history)
        self.dense = mlp([num_numbers, *config.dense_hidden, config.dim])
        self.events = EventEncoder(len(layout.event_dense), config.dim)
        self.interformer = InterFormer(len(layout.tokens) + 1, trunk)
        width = (trunk.num_summary + trunk.num_sequence_summary) * config.dim + num_numbers
        self.trunk = mlp([width, *config.trunk_hidden, config.representation_dim], dropout=config.dropout)
        self.gate = DomainGate(len(layout.surfaces), config.representation_dim, config.domain_dim)
        self.heads = DomainHeads(len(layout.surfaces), len(layout.objectives), config.representation_dim)

    def forward(self, batch: Batch) -> ModelOutput:
        """Score a batch: ids, dense [B, F], event numbers [T, E] -> logits [B, K], representation [B, R]."""
        embedded = self.embeddings(batch.ids)  # a shared history is looked up once
        event_dense_TE = batch.window_numbers()
        offsets_B1 = lengths_to_offsets(batch.window_lengths(offsets_to_lengths(embedded.offsets_B1)))
        statistics_BF = self.statistics(event_dense_TE, offsets_B1)
        number_BF = torch.cat([self.normalize(batch.dense_BF), statistics_BF], dim=1)
        x_BND = torch.cat([self.dense(number_BF)[:, None, :], embedded.token_BND], dim=1)
        id_TD = batch.spread_events(torch.stack(embedded.event_TD).sum(dim=0))
        summary_BMD = self.interformer(x_BND, self.events(id_TD, event_dense_TE), offsets_B1)
        # A token of D numbers is too narrow for the counters: the trunk sees them directly as well (ours).
        hidden_BR = torch.relu(self.trunk(torch.cat([summary_BMD.flatten(1), number_BF], dim=1)))
        representation_BR = self.gate(hidden_BR, batch.surface_B)
        logit_BK = self.heads(representation_BR, batch.surface_B) + self.first_order(batch, number_BF)
        return ModelOutput(logit_BK=logit_BK, representation_BD=representation_BR)

    def init_bias(self, base_rate: Tensor) -> None:
        """Start the heads from known base rates, [K], or [S, K] with NaN where an objective is absent."""
        self.heads.init_bias(base_rate)

    def init_dense(self, mean_F: Tensor, std_F: Tensor) -> None:
        """Fix the moments of the dense inputs, [F] each."""
        self.normalize.fit(mean_F, std_F)
