"""What maps the tokens of an example, its events and its surface to the numbers that the heads' MLP reads.

Sources are those of the parts: InterFormer, arXiv 2411.09852; DLRM, arXiv 1906.00091; DCN V2, arXiv 2008.13535; DIN,
arXiv 1706.06978.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.models.dcn import CrossNetwork
from gem_pipeline.models.din import TargetAttention
from gem_pipeline.models.dlrm import DotInteraction
from gem_pipeline.models.trunk import Trunk

if TYPE_CHECKING:
    from gem_pipeline.models.foundation_config import FoundationConfig

InteractionName = Literal["interleaved", "dlrm", "dcnv2", "din"]
INTERACTIONS = ("interleaved", "dlrm", "dcnv2", "din")


def interaction(
    num_tokens: int, layout: InputLayout, config: FoundationConfig
) -> Trunk | DotInteraction | CrossNetwork | TargetAttention:
    """The interleaved trunk or one of the baselines, by name."""
    if config.interaction == "dlrm":
        return DotInteraction(num_tokens, config.dim)
    if config.interaction == "dcnv2":
        return CrossNetwork(
            num_tokens, config.dim, layers=config.layers, rank=config.cross_rank, hidden=config.fmb_hidden,
            dropout=config.dropout,
        )  # fmt: skip
    if config.interaction == "din":
        target = tuple(1 + layout.tokens.index(token) for token, _ in layout.carried)
        return TargetAttention(num_tokens, config.dim, target=target, hidden=config.dim, dropout=config.dropout)
    return Trunk(num_tokens, config.trunk(len(layout.surfaces)))
