"""The foundation model: embeddings, interleaved trunk, domain heads.

Legend: B rows, N tokens, F dense inputs, T events, D width, R width of the representation, K objectives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import gap_seconds
from gem_pipeline.batches.layout import DID_PREFIX, SURFACE, InputLayout
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, offsets_to_lengths
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.blocks import DenseNormalizer, mlp
from gem_pipeline.models.domains import DomainTokens
from gem_pipeline.models.embeddings import FeatureEmbeddings
from gem_pipeline.models.first_order import FirstOrderTerms, HistoryStatistics
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.heads import DomainGate, DomainHeads
from gem_pipeline.models.id_tower import IdTower
from gem_pipeline.models.interaction import interaction
from gem_pipeline.models.managed_ids import ManagedIds
from gem_pipeline.models.matches import MatchedHistory
from gem_pipeline.models.newest import newest_windows
from gem_pipeline.models.pairs import PairTerms
from gem_pipeline.models.pyramid import Pyramid
from gem_pipeline.models.sequence import EventEncoder, EventMask
from gem_pipeline.models.vectors import vector_towers

SMALLEST_DEVIATION = 0.02  # of a number of the history: what is rare on the first day may be less so later


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
    """GEM: unified tables, a pyramid, Wukong interleaved with a sequence backbone, domain heads (assembly ours)."""

    def __init__(self, layout: InputLayout, config: FoundationConfig) -> None:
        super().__init__()
        self.layout, self.config = layout, config
        layout = replace(layout, surfaces=("any",)) if config.surfaces_alike else layout
        if config.manages_ids != layout.whole_ids:
            raise ConfigError(
                f"id_tables is {config.id_tables!r}, but ids come {'whole' if layout.whole_ids else 'hashed'}.",
                remedy="Read with whole_ids where, and only where, the model manages its tables.",
            )
        self.managed = None if config.id_tables == "hashed" else ManagedIds(layout, config.id_tables)
        self.embeddings = FeatureEmbeddings(layout, config.dim, init_std=config.embedding_std)
        self.normalize = DenseNormalizer(len(layout.dense))
        self.statistics = HistoryStatistics(config.statistics_windows, len(layout.event_dense))
        self.matches = (
            MatchedHistory(layout, config.match_windows, config.similar_share) if config.match_windows else None
        )
        told = self.statistics.num_numbers + (self.matches.num_numbers if self.matches is not None else 0)
        self.normalize_history = DenseNormalizer(told, smallest=SMALLEST_DEVIATION)
        num_numbers = len(layout.dense) + told
        self.first_order = (
            FirstOrderTerms(layout, num_numbers, config.first_order_history) if config.first_order_history else None
        )
        self.pairs = PairTerms(layout, config.pair_rows) if config.pair_rows else None
        self.dense = mlp([num_numbers, *config.dense_hidden, config.dim])
        self.events = EventEncoder(len(layout.event_dense), config.dim)
        self.kinds = tuple(i for i, name in enumerate(layout.event_dense) if name.startswith(DID_PREFIX))
        pyramid, domain = config.pyramid, config.domain
        if (pyramid.branches or config.separate) and not self.kinds:
            raise ConfigError(
                "Events are grouped by what was done, but the layout carries no event kind.",
                remedy="Add the kinds to the inputs of the window, or take the pyramid and separate sequences out.",
            )
        self.vectors = vector_towers(layout.vectors, config.dim, init_std=config.embedding_std)
        num_tokens = len(layout.tokens) + 1 + len(layout.vectors) + pyramid.num_tokens + domain.tokens
        self.interformer = interaction(num_tokens, layout, config)
        self.pyramid = Pyramid(config.dim, pyramid) if pyramid.branches else None
        self.domain_tokens = (
            DomainTokens(len(layout.surfaces), domain.tokens, config.dim, init_std=config.embedding_std)
            if domain.tokens
            else None
        )
        self.event_mask = EventMask(config.dim, config.event_mask) if config.event_mask else None
        width = self.interformer.out_width + num_numbers
        self.trunk = mlp([width, *config.trunk_hidden, config.representation_dim], dropout=config.dropout)
        self.gate = (
            None
            if config.surfaces_alike
            else DomainGate(len(layout.surfaces), config.representation_dim, config.domain_dim)
        )
        self.heads = DomainHeads(len(layout.surfaces), len(layout.objectives), config.representation_dim)
        self.tower = (
            IdTower(
                self.embeddings.token_names, config.dim, config.tower_hidden, len(layout.objectives),
                init_std=config.embedding_std, dropout=config.dropout,
            )
            if config.tower_hidden
            else None
        )  # fmt: skip

    def forward(self, batch: Batch) -> ModelOutput:
        """Score a batch: ids, dense [B, F], event numbers [T, E] -> logits [B, K], representation [B, R].

        Of shared histories, a stored event is looked up and embedded once, up to its time gap; a window is encoded
        once a request: statistics, mask, pyramid, and the sequence side until it reads X_sum (see `Trunk`).
        """
        if self.config.surfaces_alike:
            batch = batch.shown_anywhere(SURFACE)
        read, batch = batch, self.attended(batch)
        if self.managed is not None:
            batch = replace(batch, ids=self.managed(batch.ids))
        embedded = self.embeddings(batch.ids)
        event_dense_TE = batch.window_numbers()
        offsets_R1 = lengths_to_offsets(batch.window_lengths(offsets_to_lengths(embedded.offsets_B1)))
        told_BH = self.normalize_history(self._told(read, batch, event_dense_TE, offsets_R1))
        number_BF = torch.cat([self.normalize(batch.dense_BF), told_BH], dim=1)
        event_TD = self._embedded_events(batch, torch.stack(embedded.event_TD).sum(dim=0))
        rows = EventRows(
            value_TD=event_TD,
            offsets_B1=offsets_R1,
            gap_s_T=gap_seconds(event_dense_TE),
            request_B=batch.requests,
            did_TK=event_dense_TE[:, self.kinds] if self.config.separate else None,
        )
        tokens = [self.dense(number_BF)[:, None, :], embedded.token_BND]
        if self.vectors is not None:
            tokens.append(self.vectors(batch.vectors))
        if self.pyramid is not None:
            tokens.append(batch.spread_requests(self.pyramid(rows, event_dense_TE[:, self.kinds])))
        if self.domain_tokens is not None:
            tokens.append(self.domain_tokens(batch.surface_B))
        if self.config.interaction != "interleaved":
            rows = rows.spread()  # the baselines read a row an example
        summary_BX = self.interformer(torch.cat(tokens, dim=1), rows, batch.surface_B).flatten(1)
        # A token of D numbers is too narrow for the counters: the trunk sees them directly as well (ours).
        hidden_BR = torch.relu(self.trunk(torch.cat([summary_BX, number_BF], dim=1)))
        representation_BR = hidden_BR if self.gate is None else self.gate(hidden_BR, batch.surface_B)
        logit_BK = self.heads(representation_BR, batch.surface_B)
        if self.first_order is not None:
            logit_BK = logit_BK + self.first_order(batch, number_BF)
        if self.pairs is not None:
            logit_BK = logit_BK + self.pairs(read)
        if self.tower is not None:
            logit_BK = logit_BK + self.tower(embedded.token_BND)
        return ModelOutput(logit_BK=logit_BK, representation_BD=representation_BR)

    def history_numbers(self, batch: Batch) -> Tensor:
        """What is averaged and counted over the histories of a batch as it was read, not normalised, [B, H]."""
        batch = batch.shown_anywhere(SURFACE) if self.config.surfaces_alike else batch
        near = self.attended(batch)
        length_R = near.window_lengths(near.ids[self.layout.event_ids[0].name].lengths())
        return self._told(batch, near, near.window_numbers(), lengths_to_offsets(length_R))

    @torch.no_grad()
    def _told(self, read: Batch, near: Batch, event_dense_TE: Tensor, offsets_R1: Tensor) -> Tensor:
        told = [near.spread_requests(self.statistics(event_dense_TE, offsets_R1))]
        if self.matches is not None:
            told.append(self.matches(read))
        return torch.cat(told, dim=1)

    def attended(self, batch: Batch) -> Batch:
        """The batch without the events that are only counted: `history` of each window."""
        if self.config.matched_events <= self.config.history.max_events:
            return batch
        return newest_windows(batch, self.layout, self.config.history.max_events)

    def _embedded_events(self, batch: Batch, id_UD: Tensor) -> Tensor:
        """Sums of id vectors of the stored events [U, D] -> events of all windows [T, D]."""
        if batch.shared is None:
            event_TD = self.events(id_UD, batch.event_dense_TE)
        else:
            stored_UD = self.events.stored(id_UD, batch.event_dense_TE)
            event_TD = self.events.seen(batch.spread_events(stored_UD), batch.shared.log_gap_T)
        return event_TD if self.event_mask is None else self.event_mask(event_TD)

    def expect_news(self, news: bool) -> None:
        """Say whether the next batches are read for the first time: pairs of ids learn from such batches alone."""
        if self.pairs is not None:
            self.pairs.learning = news

    def init_bias(self, base_rate: Tensor) -> None:
        """Start the heads from known base rates, [K], or [S, K] with NaN where an objective is absent.

        A model that treats surfaces alike has one rate an objective: give it pooled ones, or it takes the mean of S.
        """
        pool = self.config.surfaces_alike and base_rate.dim() == 2
        self.heads.init_bias(base_rate.nanmean(dim=0) if pool else base_rate)

    def init_dense(self, mean_F: Tensor, std_F: Tensor, *, late: bool = False) -> None:
        """Fix the moments of the dense inputs, [F] each; late: only of those that never had any spread."""
        self.normalize.fit(mean_F, std_F, late=late)

    def init_history(self, mean_H: Tensor, std_H: Tensor, *, late: bool = False) -> None:
        """Fix the moments of `history_numbers`, [H] each, likewise."""
        self.normalize_history.fit(mean_H, std_H, late=late)
