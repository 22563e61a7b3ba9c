"""Shape of the foundation model: every width, switch and block that a configuration can choose (ours)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.backbone import SequenceBackbone
from gem_pipeline.models.compressed import CompressedConfig
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.interaction import INTERACTIONS, InteractionName
from gem_pipeline.models.interformer import InterFormerConfig
from gem_pipeline.models.kunlun import KunlunConfig, KunlunSettings
from gem_pipeline.models.peers import PeerConfig
from gem_pipeline.models.pyramid import PyramidConfig
from gem_pipeline.models.separate import SeparateConfig
from gem_pipeline.models.trunk import TrunkConfig
from gem_pipeline.models.wukong import WukongConfig

Backbone = Literal["interformer", "kunlun", "hstu", "transformer", "compressed"]
BACKBONES = ("interformer", "kunlun", "hstu", "transformer", "compressed")
IdTables = Literal["hashed", "lfu", "lru"]
ID_TABLES = ("hashed", "lfu", "lru")
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
        tower_hidden: hidden widths of networks over the vectors of all frequent ids together, whose logits are added
            (`IdTower`); empty: none.
        domain_dim: width of the surface vector in the domain gate.
        embedding_std: spread of the embeddings at the start.
        dropout: on hidden units of the interaction, trunk and tower MLPs, in training only.
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
    tower_hidden: tuple[int, ...] = ()
    embedding_std: float = 0.05
    dropout: float = 0.0

    def __post_init__(self) -> None:
        widths = (*self.dense_hidden, *self.trunk_hidden, *self.tower_hidden)
        if min(self.representation_dim, self.domain_dim, *widths) < 1:
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
