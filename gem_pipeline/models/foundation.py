"""The foundation model: embeddings, interleaved trunk, domain heads.

Legend: B rows, N tokens, F dense inputs, T events, D width, R width of the representation, K objectives.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import gap_seconds
from gem_pipeline.batches.layout import DID_PREFIX, SURFACE, InputLayout
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, offsets_to_lengths
from gem_pipeline.models.backbone import EventRows, SequenceBackbone
from gem_pipeline.models.blocks import DenseNormalizer, mlp
from gem_pipeline.models.compressed import CompressedConfig
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.domains import DomainConfig, DomainTokens
from gem_pipeline.models.embeddings import FeatureEmbeddings
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.first_order import FirstOrderTerms, HistoryStatistics
from gem_pipeline.models.heads import DomainGate, DomainHeads
from gem_pipeline.models.interaction import INTERACTIONS, InteractionName, interaction
from gem_pipeline.models.interformer import InterFormerConfig
from gem_pipeline.models.kunlun import KunlunConfig, KunlunSettings
from gem_pipeline.models.managed_ids import ManagedIds
from gem_pipeline.models.matches import MatchedHistory
from gem_pipeline.models.newest import newest_windows
from gem_pipeline.models.pairs import PairTerms
from gem_pipeline.models.peers import PeerConfig
from gem_pipeline.models.pyramid import Pyramid, PyramidConfig
from gem_pipeline.models.separate import SeparateConfig
from gem_pipeline.models.sequence import EventEncoder, EventMask
from gem_pipeline.models.trunk import TrunkConfig
from gem_pipeline.models.vectors import vector_towers
from gem_pipeline.models.wukong import WukongConfig

Backbone = Literal["interformer", "kunlun", "hstu", "transformer", "compressed"]
BACKBONES = ("interformer", "kunlun", "hstu", "transformer", "compressed")
IdTables = Literal["hashed", "lfu", "lru"]
ID_TABLES = ("hashed", "lfu", "lru")
SMALLEST_DEVIATION = 0.02  # of a number of the history: what is rare on the first day may be less so later
TINY_HISTORY = WindowSpec(max_events=64)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationConfig:
    """Shape of the foundation model; the defaults are size `tiny`.

    Attributes:
        dim: width D of every token and event.
        layers: interleaved layers.
        history: events of a row that are embedded and attended to.
        id_tables: `hashed`: ids that fall on the same row of a table share it; `lfu` or `lru`: ids get rows of their
            own, and where a table is full those seen least often, or longest ago, leave (`ManagedIds`).
        event_mask: hidden width of the mask that each event puts on itself before all else; 0: none.
        interaction: the trunk of Wukong layers interleaved with the sequence side, or one of the baselines, which
            take widths and layers from the fields below.
        cross_rank: rank of DCN V2's cross matrices; 0: full ones.
        backbone: the sequence side of the trunk; `compressed` is one vector, pooled before it.
        separate: the events acted on and the others are two sequences with a backbone each, instead of one.
        one_directional: the sequence is told nothing of the other features.
        kunlun: what the backbone `kunlun` is made of.
        pyramid: parallel branches over the events, whose tokens join the non-sequence side.
        heads: attention heads.
        num_summary: summary tokens of the non-sequence side (InterFormer's CLS tokens, keys of Kunlun's GDPA).
        num_pma: learned pooling queries over the sequence.
        num_recent: newest events read as they are.
        fmb_tokens: tokens out of Wukong's factorization machine block.
        lcb_tokens: tokens out of Wukong's linear compress block.
        rank: columns of Y in Wukong's X (X^T Y).
        fmb_hidden: hidden widths of the MLP in the factorization machine block.
        attentive_y: Y is computed from the input instead of learned once.
        experts: how Wukong is parted among experts.
        cross_layer: layers attend to the stored summaries of earlier layers.
        domain: tokens, norms and experts of a surface's own inside the trunk.
        surfaces_alike: the model is not told the surface of an example: its token is that of a missing one, and
            no gate, slopes or heads are a surface's own. Dense inputs stay, also counters by surface.
        pffn_hidden: hidden width of the MLP that writes a row's matrix.
        dense_hidden: hidden widths of the MLP from all dense inputs to one token.
        trunk_hidden: hidden widths of the MLP from the last summaries to the representation.
        representation_dim: width R of the representation.
        first_order_history: newest events in the first-order terms; 0: no such terms.
        statistics_windows: numbers of newest events over which event numbers are averaged as dense inputs.
        match_windows: numbers of newest events among which those that carry an id of the example are counted and
            averaged as dense inputs (`MatchedHistory`), and besides among all of them; empty: none.
        matched_events: events among which matches are sought, where that is more than `history` holds: counting is
            cheap, so it reaches further back than attention does.
        similar_share: share of the pairs of an example and an event whose vectors are the most alike: such events
            match, too (`SimilarEvents`); 0: events bring no vectors.
        pair_rows: rows of the table of pairs of an id of the ad and one of user or moment, whose weights go straight
            to the logits (`PairTerms`); 0: none.
        domain_dim: width of the surface vector in the domain gate.
        embedding_std: spread of the embeddings at the start.
        dropout: on hidden units of the interaction and trunk MLPs, in training only.
    """

    dim: int = 32
    layers: int = 2
    history: WindowSpec = TINY_HISTORY
    id_tables: IdTables = "hashed"
    event_mask: int = 0
    interaction: InteractionName = "interleaved"
    cross_rank: int = 0
    backbone: Backbone = "interformer"
    separate: bool = False
    one_directional: bool = False
    kunlun: KunlunSettings = KunlunSettings()  # noqa: RUF009
    pyramid: PyramidConfig = PyramidConfig()  # noqa: RUF009
    heads: int = 2
    num_summary: int = 4
    num_pma: int = 2
    num_recent: int = 2
    fmb_tokens: int = 12
    lcb_tokens: int = 12
    rank: int = 8
    fmb_hidden: tuple[int, ...] = (128,)
    attentive_y: bool = True
    experts: ExpertConfig = ExpertConfig()  # noqa: RUF009
    cross_layer: bool = False
    domain: DomainConfig = DomainConfig()  # noqa: RUF009
    surfaces_alike: bool = False
    pffn_hidden: int = 32
    dense_hidden: tuple[int, ...] = (64,)
    trunk_hidden: tuple[int, ...] = (64,)
    representation_dim: int = 32
    domain_dim: int = 8
    first_order_history: int = 20
    statistics_windows: tuple[int, ...] = (4, 20)
    match_windows: tuple[int, ...] = ()
    matched_events: int = 0
    similar_share: float = 0.0
    pair_rows: int = 0
    embedding_std: float = 0.05
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.representation_dim, self.domain_dim, *self.dense_hidden, *self.trunk_hidden) < 1:
            raise ConfigError(f"Model sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        if self.embedding_std <= 0.0:
            raise ConfigError(f"embedding_std {self.embedding_std} must be positive.", remedy="Choose 0.01 to 0.2.")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout {self.dropout} is no probability below 1.", remedy="Choose 0 <= dropout < 1.")
        switches = (self.event_mask, self.cross_rank, self.first_order_history, self.matched_events, self.pair_rows)
        if min(switches) < 0:
            raise ConfigError(f"A switch of {self} is below 0.", remedy="Use 0 to switch a part off.")
        if self.id_tables not in ID_TABLES:
            raise ConfigError(f"There are no {self.id_tables!r} tables.", remedy=f"Choose from {', '.join(ID_TABLES)}.")
        if self.backbone not in BACKBONES:
            raise ConfigError(f"There is no backbone {self.backbone!r}.", remedy=f"Choose from {', '.join(BACKBONES)}.")
        if self.interaction not in INTERACTIONS:
            raise ConfigError(
                f"There is no interaction {self.interaction!r}.", remedy=f"Choose from {', '.join(INTERACTIONS)}."
            )
        if (self.matched_events or self.similar_share) and not self.match_windows:
            raise ConfigError(
                f"matched_events is {self.matched_events} and similar_share {self.similar_share}, but no match_windows "
                "are set: nothing would be counted.",
                remedy="Set match_windows, or leave both at 0.",
            )
        if not 0.0 <= self.similar_share < 1.0:
            raise ConfigError(f"similar_share {self.similar_share} is no share below 1.", remedy="Choose 0.05.")
        if self.interaction != "interleaved" and (self.separate or self.one_directional):
            raise ConfigError(
                f"The interaction {self.interaction!r} has no sequence side to part or to turn deaf.",
                remedy="Leave `separate` and `one_directional` out, or choose the interaction 'interleaved'.",
            )
        self.trunk(1)  # its own rules

    @property
    def manages_ids(self) -> bool:
        """Whether ids must come whole."""
        return self.id_tables != "hashed"

    @property
    def read_window(self) -> WindowSpec:
        """The events that a reader hands over: those of `history`, and older ones that are counted only."""
        most = max(self.history.max_events, self.matched_events)
        return replace(self.history, max_events=most, vectors=self.similar_share > 0.0)

    def trunk(self, num_surfaces: int) -> TrunkConfig:
        """Shape of the interleaved trunk."""
        return TrunkConfig(
            dim=self.dim,
            layers=self.layers,
            num_summary=self.num_summary,
            wukong=WukongConfig(
                fmb_tokens=self.fmb_tokens,
                lcb_tokens=self.lcb_tokens,
                rank=self.rank,
                hidden=self.fmb_hidden,
                attentive_y=self.attentive_y,
                dropout=self.dropout,
            ),
            experts=self.experts,
            cross_layer_heads=self.heads if self.cross_layer else 0,
            domain=self.domain,
            num_surfaces=num_surfaces,
            sequence=SeparateConfig(inner=self.sequence()) if self.separate else self.sequence(),
            one_directional=self.one_directional,
        )

    def sequence(self) -> SequenceBackbone:
        """Shape of the sequence side, or of each of the two."""
        sizes = {"dim": self.dim, "heads": self.heads, "num_recent": self.num_recent}
        if self.backbone == "interformer":
            return InterFormerConfig(
                num_summary=self.num_summary, num_pma=self.num_pma, pffn_hidden=self.pffn_hidden, **sizes
            )
        if self.backbone == "kunlun":
            return KunlunConfig(layers=self.layers, num_summary=self.num_summary, settings=self.kunlun, **sizes)
        if self.backbone == "compressed":
            return CompressedConfig(dim=self.dim, heads=self.heads)
        return PeerConfig(kind=self.backbone, num_pma=self.num_pma, longest=self.history.max_events, **sizes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_dict` reverses it."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> FoundationConfig:
        """Rebuild a configuration from `to_dict`, also after a trip through JSON."""
        return read_config(FoundationConfig, document)


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
