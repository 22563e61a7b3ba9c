"""Variants of any rung: a block removed, replaced or shrunk, by name, so that what it earns can be measured.

`small+light+static_y` is the rung `small`, at light size, with a static Y. The names are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.foundation_config import Backbone, FoundationConfig
from gem_pipeline.models.interaction import InteractionName
from gem_pipeline.models.kunlun import KunlunSettings
from gem_pipeline.models.pooling import SeedPoolingConfig
from gem_pipeline.models.pyramid import PyramidConfig

Variant = Callable[[FoundationConfig], FoundationConfig]
LIGHT_HISTORY = 4
TOWER_HIDDEN = (128, 128)  # of variant `tower`
LOW_RANK = 4  # in widths of a token: layouts have about 20 tokens


def light(model: FoundationConfig) -> FoundationConfig:
    """Every block at half the width and a quarter of the history: ranks experiments at a fraction of the cost."""
    pool, pyramid, domain = model.kunlun.pool, model.pyramid, model.domain
    tokens = max(1, pool.tokens // 2)
    branches = tuple(
        replace(b, newest=max(1, b.newest // LIGHT_HISTORY), dim=max(b.heads, b.dim // 2)) for b in pyramid.branches
    )
    return replace(
        model,
        dim=model.dim // 2,
        history=replace(model.history, max_events=max(1, model.history.max_events // LIGHT_HISTORY)),
        event_mask=-(-model.event_mask // 2),
        num_summary=max(2, model.num_summary // 2),
        fmb_tokens=max(2, model.fmb_tokens // 2),
        lcb_tokens=max(2, model.lcb_tokens // 2),
        rank=max(2, model.rank // 2),
        cross_rank=-(-model.cross_rank // 2),
        fmb_hidden=_halves(model.fmb_hidden),
        dense_hidden=_halves(model.dense_hidden),
        trunk_hidden=_halves(model.trunk_hidden),
        representation_dim=max(8, model.representation_dim // 2),
        kunlun=replace(
            model.kunlun, pool=SeedPoolingConfig(seeds=max(2 * tokens, pool.seeds // 2), tokens=tokens, rank=pool.rank)
        ),
        pyramid=replace(pyramid, branches=branches),
        domain=replace(domain, expert_width=-(-domain.expert_width // 2)),
    )


def static_y(model: FoundationConfig) -> FoundationConfig:
    """Y of Wukong's X (X^T Y) is learned once instead of computed from the input."""
    return replace(model, attentive_y=False)


def no_cross_layer(model: FoundationConfig) -> FoundationConfig:
    """Layers do not attend to the summaries of earlier layers."""
    return replace(model, cross_layer=False)


def pma_for_hsp(model: FoundationConfig) -> FoundationConfig:
    """Plain learned queries instead of hierarchical seed pooling, as many tokens out."""
    return replace(model, kunlun=replace(model.kunlun, pooling="pma"))


def no_domain_experts(model: FoundationConfig) -> FoundationConfig:
    """No tokens, norms and experts of a surface's own inside the trunk; the gate and the heads stay."""
    return replace(model, domain=DomainConfig())


def one_expert(model: FoundationConfig) -> FoundationConfig:
    """Wukong in one piece."""
    return replace(model, experts=ExpertConfig())


def no_pyramid(model: FoundationConfig) -> FoundationConfig:
    """No parallel branches over parts of the history."""
    return replace(model, pyramid=PyramidConfig())


def no_event_mask(model: FoundationConfig) -> FoundationConfig:
    """Events do not mask themselves."""
    return replace(model, event_mask=0)


def no_compskip(model: FoundationConfig) -> FoundationConfig:
    """Every layer computes all of Kunlun."""
    return replace(model, kunlun=replace(model.kunlun, comp_skip=False))


def _with_backbone(name: Backbone) -> Variant:
    def chosen(model: FoundationConfig) -> FoundationConfig:
        return replace(model, backbone=name)

    chosen.__doc__ = f"The sequence side is {name}."
    return chosen


def early_compression(model: FoundationConfig) -> FoundationConfig:
    """The history is one vector before anything else sees it; no pyramid beside it."""
    return replace(model, backbone="compressed", pyramid=PyramidConfig())


def one_directional(model: FoundationConfig) -> FoundationConfig:
    """The sequence informs the other features and is told nothing of them."""
    return replace(model, one_directional=True)


def separate_sequences(model: FoundationConfig) -> FoundationConfig:
    """Events acted on and mere views are two sequences with a backbone each, instead of OneSeq's one."""
    return replace(model, separate=True)


def identical_treatment(model: FoundationConfig) -> FoundationConfig:
    """One model that treats all surfaces the same: nothing of a surface's own, and no telling which one it is.

    Counters by surface among the dense inputs still tell; leave them out of the contract for a model that cannot know.
    """
    return replace(model, surfaces_alike=True, domain=DomainConfig())


def no_first_order(model: FoundationConfig) -> FoundationConfig:
    """No terms that are linear in the inputs."""
    return replace(model, first_order_history=0)


def no_matches(model: FoundationConfig) -> FoundationConfig:
    """No numbers of the events that carry an id of the example."""
    return replace(model, match_windows=(), matched_events=0, similar_share=0.0)


def no_pairs(model: FoundationConfig) -> FoundationConfig:
    """No weights of pairs of ids."""
    return replace(model, pair_rows=0)


def tower(model: FoundationConfig) -> FoundationConfig:
    """Logits of a network over the vectors of all frequent ids together."""
    return replace(model, tower_hidden=TOWER_HIDDEN)


def wukong_alone(model: FoundationConfig) -> FoundationConfig:
    """Wukong over all tokens and one pooled vector of the history, none of the other blocks."""
    return replace(_plain(model), backbone="compressed")


def _baseline(name: InteractionName) -> Variant:
    def chosen(model: FoundationConfig) -> FoundationConfig:
        return replace(_plain(model), interaction=name)

    chosen.__doc__ = f"The same embeddings, dense inputs and heads around the interaction of {name}."
    return chosen


def dcnv2_low_rank(model: FoundationConfig) -> FoundationConfig:
    """DCN V2 with cross matrices of low rank, about a quarter of what they multiply (the paper's choice)."""
    return replace(_baseline("dcnv2")(model), cross_rank=LOW_RANK * model.dim)


def interformer_alone(model: FoundationConfig) -> FoundationConfig:
    """InterFormer as published: its sequence side and Wukong, none of the other blocks."""
    return replace(_plain(model), backbone="interformer")


def _plain(model: FoundationConfig) -> FoundationConfig:
    return replace(
        model, event_mask=0, cross_layer=False, kunlun=KunlunSettings(), pyramid=PyramidConfig(),
        experts=ExpertConfig(), domain=DomainConfig(), separate=False, one_directional=False, match_windows=(),
        matched_events=0, similar_share=0.0, pair_rows=0, tower_hidden=(),
    )  # fmt: skip


def _halves(widths: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(1, width // 2) for width in widths)


VARIANTS: dict[str, Variant] = {
    "light": light,
    "static_y": static_y,
    "no_cross_layer": no_cross_layer,
    "pma_for_hsp": pma_for_hsp,
    "no_domain_experts": no_domain_experts,
    "one_expert": one_expert,
    "no_pyramid": no_pyramid,
    "no_event_mask": no_event_mask,
    "no_compskip": no_compskip,
    "interformer": _with_backbone("interformer"),
    "hstu": _with_backbone("hstu"),
    "transformer": _with_backbone("transformer"),
    "early_compression": early_compression,
    "one_directional": one_directional,
    "separate_sequences": separate_sequences,
    "identical_treatment": identical_treatment,
    "no_first_order": no_first_order,
    "no_matches": no_matches,
    "no_pairs": no_pairs,
    "tower": tower,
    "interformer_alone": interformer_alone,
    "wukong_alone": wukong_alone,
    "dlrm": _baseline("dlrm"),
    "dcnv2": _baseline("dcnv2"),
    "dcnv2_low_rank": dcnv2_low_rank,
    "din": _baseline("din"),
}
