"""Micro-sizes of every architecture, about 0.3 to 50 MFLOP an example forward: width, depth and tokens grow together.

An architecture is the rung `small` with a variant of it; only the fields below differ between its sizes. Every size
sees the same newest 64 events and has the same dropout, embedding rate and first-order terms. The rate of the dense
part is the best of three an architecture, searched at one size and amount of data; that of GEM with a tower the better
of two on 2026-01-16 of the world `entangled`, after eight days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gem_pipeline.config.ladder import MATCH_WINDOWS, SIMILAR_SHARE, run_config
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.kunlun import KunlunSettings
from gem_pipeline.models.pooling import SeedPoolingConfig

GEM, INTERFORMER, WUKONG, DCNV2, DLRM, HSTU = "gem", "interformer_alone", "wukong_alone", "dcnv2", "dlrm", "hstu"
TOWERED = "gem_tower"  # GEM with a network over the vectors of all frequent ids that grows with the size
TOLD = "dcnv2_matches"  # DCN V2 with the numbers of matching events that GEM has
PAIRED = "dcnv2_matches_pairs"  # the same with GEM's weights of pairs of ids as well
BASE = "small"
HISTORY = 64
MATCHED = 1024  # events among which those who count matches on a world do so
PAIR_ROWS = run_config(BASE).foundation.pair_rows
RATES = (1e-3, 2e-3, 4e-3)  # tried for every architecture at one size and amount of data, judged on 2022-05-05


@dataclass(frozen=True, kw_only=True, slots=True)
class Rung:
    """What grows from size to size.

    Attributes:
        dim: width of tokens and events.
        layers: interleaved layers, or cross layers.
        tokens: tokens out of each half of a Wukong layer, and its rank.
        hidden: hidden width of the interaction's MLP.
        trunk: hidden widths of the MLP behind the interaction.
        tower: hidden widths of the network over the vectors of all frequent ids; empty: none.
    """

    dim: int
    layers: int
    tokens: int
    hidden: int
    trunk: tuple[int, ...]
    tower: tuple[int, ...] = ()


def _rungs(*rows: tuple[int, int, int, int, tuple[int, ...]]) -> dict[str, Rung]:
    return {
        f"s{place}": Rung(dim=dim, layers=layers, tokens=tokens, hidden=hidden, trunk=trunk)
        for place, (dim, layers, tokens, hidden, trunk) in enumerate(rows)
    }


# Published advice for Wukong: raise depth first, then tokens, rank and MLP together (arXiv 2403.02545).
INTERLEAVED = _rungs(
    (8, 1, 4, 32, (32,)), (16, 2, 6, 64, (64,)), (32, 2, 8, 128, (128,)), (48, 3, 12, 192, (192,)),
    (64, 4, 16, 384, (256,)), (96, 4, 24, 768, (384,)),
)  # fmt: skip
STACKED = _rungs(
    (16, 2, 8, 96, (64,)), (32, 2, 12, 256, (128,)), (48, 3, 16, 384, (192,)), (64, 4, 16, 512, (256,)),
    (80, 4, 24, 960, (384,)), (112, 4, 32, 1280, (512,)),
)  # fmt: skip
CROSSES = _rungs(
    (8, 2, 4, 64, (64,)), (16, 2, 4, 128, (128,)), (24, 3, 4, 256, (256,)), (48, 3, 4, 512, (256,)),
    (64, 4, 4, 768, (512,)), (88, 5, 4, 1024, (768,)),
)  # fmt: skip
DOTS = _rungs(
    (8, 1, 4, 32, (256, 128)), (16, 1, 4, 32, (512, 512)), (32, 1, 4, 32, (1024, 1024)),
    (64, 1, 4, 32, (2048, 1536)), (96, 1, 4, 32, (3072, 2560, 1536)), (128, 1, 4, 32, (4096, 4096, 2048)),
)  # fmt: skip
TOWERS = ((32,), (64, 64), (128, 128), (192, 192, 192), (256, 256, 256), (384, 384, 384))
TOWERING = {
    size: replace(rung, tower=tower) for (size, rung), tower in zip(INTERLEAVED.items(), TOWERS, strict=True)
}  # fmt: skip
RUNGS = {
    GEM: INTERLEAVED, TOWERED: TOWERING, INTERFORMER: INTERLEAVED, WUKONG: STACKED, DCNV2: CROSSES, DLRM: DOTS,
    HSTU: INTERLEAVED, TOLD: CROSSES, PAIRED: CROSSES,
}  # fmt: skip
MODELS = {
    GEM: BASE, TOWERED: f"{BASE}+tower", INTERFORMER: f"{BASE}+interformer_alone",
    WUKONG: f"{BASE}+wukong_alone", DCNV2: f"{BASE}+dcnv2", DLRM: f"{BASE}+dlrm",
    HSTU: f"{BASE}+interformer_alone+hstu", TOLD: f"{BASE}+dcnv2",
    PAIRED: f"{BASE}+dcnv2",
}  # fmt: skip
RATE = {
    GEM: 2e-3, TOWERED: 1e-3, INTERFORMER: 2e-3, WUKONG: 4e-3, DCNV2: 2e-3, DLRM: 4e-3, HSTU: 2e-3, TOLD: 2e-3,
    PAIRED: 2e-3,
}  # fmt: skip


def training(rate: float, batch_size: int) -> tuple[tuple[str, Any], ...]:
    """Fields of the training configuration that differ: a day of the real log is 67 steps, so warm-up is short."""
    return (("batch_size", batch_size), ("dense_lr", rate), ("warmup_steps", 20))


def overrides(architecture: str, size: str, history: int = HISTORY) -> tuple[tuple[str, Any], ...]:
    """Fields of the model's configuration that a size sets; GEM's pyramid reads shares of the history."""
    rung, dim = RUNGS[architecture][size], RUNGS[architecture][size].dim
    shared = {
        "dim": dim, "layers": rung.layers, "heads": 2, "num_summary": 4, "num_recent": 2, "pffn_hidden": dim,
        "fmb_tokens": rung.tokens, "lcb_tokens": rung.tokens, "rank": rung.tokens, "fmb_hidden": (rung.hidden,),
        "dense_hidden": (max(16, 2 * dim),), "trunk_hidden": rung.trunk, "representation_dim": max(16, dim),
    }  # fmt: skip
    if architecture not in (GEM, TOWERED):
        return tuple(shared.items())
    whole = run_config(BASE).foundation
    scale = whole.history.max_events / history
    branches = tuple(
        replace(branch, newest=max(1, int(branch.newest / scale)), dim=max(4, width), heads=2)
        for branch, width in zip(whole.pyramid.branches, (dim, dim, dim // 2), strict=True)
    )
    own = {
        "event_mask": max(4, dim // 4),
        "kunlun": KunlunSettings(pool=SeedPoolingConfig(seeds=8, tokens=2, rank=4)),
        "pyramid": replace(whole.pyramid, branches=branches),
        "domain": DomainConfig(tokens=1, expert_width=max(4, dim // 4)),
    }
    if rung.tower:
        own["tower_hidden"] = rung.tower
    return tuple((shared | own).items())


def counting(architecture: str) -> tuple[tuple[str, Any], ...]:
    """Fields that let an architecture count matching events further back than it attends, and pair ids as GEM does."""
    if architecture not in (GEM, TOWERED, TOLD, PAIRED):
        return ()
    numbers = (("match_windows", MATCH_WINDOWS), ("matched_events", MATCHED), ("similar_share", SIMILAR_SHARE))
    return numbers + ((("pair_rows", PAIR_ROWS),) if architecture == PAIRED else ())
