"""The foundation model: embeddings, interleaved trunk, domain heads.

Legend: B rows, N tokens, F dense inputs, T events, D width, R width of the representation, K objectives.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import LOG_GAP_SCALE
from gem_pipeline.batches.layout import DID_PREFIX, InputLayout
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, offsets_to_lengths
from gem_pipeline.models.backbone import EventRows, SequenceBackbone
from gem_pipeline.models.blocks import DenseNormalizer, mlp
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.domains import DomainConfig, DomainTokens
from gem_pipeline.models.embeddings import FeatureEmbeddings
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.first_order import FirstOrderTerms, HistoryStatistics
from gem_pipeline.models.heads import DomainGate, DomainHeads
from gem_pipeline.models.interformer import InterFormerConfig
from gem_pipeline.models.kunlun import KunlunConfig, KunlunSettings
from gem_pipeline.models.peers import PeerConfig
from gem_pipeline.models.pyramid import Pyramid, PyramidConfig
from gem_pipeline.models.sequence import EventEncoder, EventMask
from gem_pipeline.models.trunk import Trunk, TrunkConfig
from gem_pipeline.models.vectors import vector_towers
from gem_pipeline.models.wukong import WukongConfig

Backbone = Literal["interformer", "kunlun", "hstu", "transformer"]
BACKBONES = ("interformer", "kunlun", "hstu", "transformer")
LONGEST_GAP_S = 1e9
TINY_HISTORY = WindowSpec(max_events=64)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationConfig:
    """Shape of the foundation model; the defaults are size `tiny`.

    Attributes:
        dim: width D of every token and event.
        layers: interleaved layers.
        history: events of a row that the reader hands over.
        event_mask: hidden width of the mask that each event puts on itself before all else; 0: none.
        backbone: the sequence side of the trunk.
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
    event_mask: int = 0
    backbone: Backbone = "interformer"
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
        if self.event_mask < 0:
            raise ConfigError(f"event_mask is {self.event_mask}.", remedy="Use 0 for no mask.")
        if self.backbone not in BACKBONES:
            raise ConfigError(f"There is no backbone {self.backbone!r}.", remedy=f"Choose from {', '.join(BACKBONES)}.")
        self.trunk(1)  # its own rules

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
            sequence=self.sequence(),
        )

    def sequence(self) -> SequenceBackbone:
        """Shape of the sequence side."""
        sizes = {"dim": self.dim, "heads": self.heads, "num_recent": self.num_recent}
        if self.backbone == "interformer":
            return InterFormerConfig(
                num_summary=self.num_summary, num_pma=self.num_pma, pffn_hidden=self.pffn_hidden, **sizes
            )
        if self.backbone == "kunlun":
            return KunlunConfig(layers=self.layers, num_summary=self.num_summary, settings=self.kunlun, **sizes)
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


def gap_seconds(event_dense_TE: Tensor) -> Tensor:
    """Seconds from each event to the impression, read back from the first event number, [T, E] -> [T]."""
    return torch.expm1(event_dense_TE[:, 0] * LOG_GAP_SCALE).clamp(0.0, LONGEST_GAP_S)


class FoundationModel(nn.Module):
    """GEM: unified tables, a pyramid, Wukong interleaved with a sequence backbone, domain heads (assembly ours)."""

    def __init__(self, layout: InputLayout, config: FoundationConfig) -> None:
        super().__init__()
        self.layout, self.config = layout, config
        trunk = config.trunk(len(layout.surfaces))
        self.embeddings = FeatureEmbeddings(layout, config.dim, init_std=config.embedding_std)
        self.normalize = DenseNormalizer(len(layout.dense))
        self.statistics = HistoryStatistics(config.statistics_windows, len(layout.event_dense))
        num_numbers = len(layout.dense) + self.statistics.num_numbers
        self.first_order = FirstOrderTerms(layout, num_numbers, config.first_order_history)
        self.dense = mlp([num_numbers, *config.dense_hidden, config.dim])
        self.events = EventEncoder(len(layout.event_dense), config.dim)
        self.kinds = tuple(i for i, name in enumerate(layout.event_dense) if name.startswith(DID_PREFIX))
        pyramid, domain = config.pyramid, config.domain
        if pyramid.branches and not self.kinds:
            raise ConfigError(
                "The pyramid groups events by what was done, but the layout carries no event kind.",
                remedy="Add the kinds to the inputs of the window, or take the pyramid out.",
            )
        self.vectors = vector_towers(layout.vectors, config.dim, init_std=config.embedding_std)
        num_tokens = len(layout.tokens) + 1 + len(layout.vectors) + pyramid.num_tokens + domain.tokens
        self.interformer = Trunk(num_tokens, trunk)
        self.pyramid = Pyramid(config.dim, pyramid) if pyramid.branches else None
        self.domain_tokens = (
            DomainTokens(len(layout.surfaces), domain.tokens, config.dim, init_std=config.embedding_std)
            if domain.tokens
            else None
        )
        self.event_mask = EventMask(config.dim, config.event_mask) if config.event_mask else None
        width = trunk.num_out * config.dim + num_numbers
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
        id_TD = batch.spread_events(torch.stack(embedded.event_TD).sum(dim=0))
        event_TD = self.events(id_TD, event_dense_TE)
        event_TD = event_TD if self.event_mask is None else self.event_mask(event_TD)
        rows = EventRows(value_TD=event_TD, offsets_B1=offsets_B1, gap_s_T=gap_seconds(event_dense_TE))
        tokens = [self.dense(number_BF)[:, None, :], embedded.token_BND]
        if self.vectors is not None:
            tokens.append(self.vectors(batch.vectors))
        if self.pyramid is not None:
            tokens.append(self.pyramid(rows, event_dense_TE[:, self.kinds]))
        if self.domain_tokens is not None:
            tokens.append(self.domain_tokens(batch.surface_B))
        summary_BMD = self.interformer(torch.cat(tokens, dim=1), rows, batch.surface_B)
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
