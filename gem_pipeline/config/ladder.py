"""The size ladder: each rung is a function that returns a whole typed run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.config.variants import VARIANTS
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.kunlun import KunlunSettings
from gem_pipeline.models.pooling import SeedPoolingConfig
from gem_pipeline.models.pyramid import BranchConfig, PyramidConfig
from gem_pipeline.models.vertical import VerticalConfig
from gem_pipeline.training.settings import TrainConfig
from gem_pipeline.transfer.distillation import DistillationConfig

MATCH_WINDOWS = (4, 20, 64, 200)  # and all events that are handed over
SIMILAR_SHARE = 0.05  # of the pairs of an ad and an event, where ads have vectors


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """Everything that decides the weights of a day's models, but data and seed."""

    foundation: FoundationConfig
    training: TrainConfig
    vertical: VerticalConfig
    vertical_training: TrainConfig
    distillation: DistillationConfig
    reading: ReaderConfig
    baseline_days: int = 14


def tiny() -> RunConfig:
    """Size of d 32, 2 layers, 64 events (1 024 for matches): a day of KuaiRand in seconds on two CPU cores.

    Rates, batch size and averaging were chosen on KuaiRand's days up to 2022-05-05; later days played no part.
    """
    return RunConfig(
        foundation=FoundationConfig(
            dropout=0.2,
            match_windows=MATCH_WINDOWS,
            matched_events=1024,
            similar_share=SIMILAR_SHARE,
            pair_rows=65_536,
        ),
        training=TrainConfig(
            batch_size=128, epochs=2, dense_lr=7e-4, embedding_lr=0.003, weight_decay=0.01, averaging_horizon=200
        ),
        vertical=VerticalConfig(),
        vertical_training=TrainConfig(
            batch_size=128, dense_lr=2e-3, embedding_lr=0.01, weight_decay=0.01, warmup_steps=20, averaging_horizon=200
        ),
        distillation=DistillationConfig(),
        reading=ReaderConfig(),
    )


def small() -> RunConfig:
    """Size of d 64, 3 layers, 256 events, with every block of `base`; rates are those of `tiny`, not tuned."""
    return _gem(
        FoundationConfig(
            dim=64, layers=3, heads=2, history=WindowSpec(max_events=256),
            match_windows=MATCH_WINDOWS, matched_events=1024, similar_share=SIMILAR_SHARE,
            pair_rows=262_144, event_mask=16, num_summary=8,
            fmb_tokens=16, lcb_tokens=16, rank=16, fmb_hidden=(384,), dense_hidden=(128,), trunk_hidden=(256,),
            representation_dim=64, num_recent=4,
            kunlun=KunlunSettings(pool=SeedPoolingConfig(seeds=16, tokens=4, rank=4)),
            pyramid=_pyramid(256, dim=64, heads=2, tokens=(4, 2)),
            experts=ExpertConfig(count=2, shared_tokens=4), domain=DomainConfig(tokens=1, expert_width=16),
            backbone="kunlun", cross_layer=True, dropout=0.1,
        )
    )  # fmt: skip


def base() -> RunConfig:
    """Size of d 128, 4 layers, 1 024 events: the default of what GEM is; for an accelerator, or patience."""
    return _gem(
        FoundationConfig(
            dim=128, layers=4, heads=4, history=WindowSpec(max_events=1024),
            match_windows=MATCH_WINDOWS, matched_events=4096, similar_share=SIMILAR_SHARE,
            pair_rows=1_048_576, event_mask=32, num_summary=16,
            fmb_tokens=24, lcb_tokens=24, rank=24, fmb_hidden=(768,), dense_hidden=(256,), trunk_hidden=(512,),
            representation_dim=128, num_recent=4,
            kunlun=KunlunSettings(pool=SeedPoolingConfig(seeds=32, tokens=8, rank=8)),
            pyramid=_pyramid(1024, dim=128, heads=4, tokens=(8, 4)),
            experts=ExpertConfig(count=4, shared_tokens=8), domain=DomainConfig(tokens=2, expert_width=32),
            backbone="kunlun", cross_layer=True, dropout=0.1,
        )
    )  # fmt: skip


def large() -> RunConfig:
    """Size of d 256, 8 layers, 4 096 events: an accelerator's."""
    return _gem(
        FoundationConfig(
            dim=256, layers=8, heads=4, history=WindowSpec(max_events=4096),
            match_windows=MATCH_WINDOWS, matched_events=16_384, similar_share=SIMILAR_SHARE,
            pair_rows=4_194_304, event_mask=64, num_summary=32,
            fmb_tokens=32, lcb_tokens=32, rank=32, fmb_hidden=(1280,), dense_hidden=(512,), trunk_hidden=(1024,),
            representation_dim=256, num_recent=8,
            kunlun=KunlunSettings(pool=SeedPoolingConfig(seeds=64, tokens=16, rank=8)),
            pyramid=_pyramid(4096, dim=256, heads=4, tokens=(16, 4)),
            experts=ExpertConfig(count=4, shared_tokens=8), domain=DomainConfig(tokens=4, expert_width=64),
            backbone="kunlun", cross_layer=True, dropout=0.1,
        )
    )  # fmt: skip


def xl() -> RunConfig:
    """Size of d 512, 12 layers, 16 384 events: built on the meta device, counted and planned; many accelerators'."""
    return _gem(
        FoundationConfig(
            dim=512, layers=12, heads=8, history=WindowSpec(max_events=16_384),
            match_windows=MATCH_WINDOWS, matched_events=65_536, similar_share=SIMILAR_SHARE,
            pair_rows=16_777_216, event_mask=128, num_summary=64,
            fmb_tokens=64, lcb_tokens=64, rank=64, fmb_hidden=(2048,), dense_hidden=(1024,), trunk_hidden=(2048,),
            representation_dim=512, num_recent=16,
            kunlun=KunlunSettings(pool=SeedPoolingConfig(seeds=128, tokens=32, rank=8)),
            pyramid=_pyramid(16_384, dim=512, heads=8, tokens=(32, 8)),
            experts=ExpertConfig(count=8, shared_tokens=16), domain=DomainConfig(tokens=4, expert_width=128),
            backbone="kunlun", cross_layer=True, dropout=0.1,
        )
    )  # fmt: skip


def _pyramid(history: int, *, dim: int, heads: int, tokens: tuple[int, ...]) -> PyramidConfig:
    """Three branches: the newest quarter of everything, what was acted on at full width, the rest at half of it.

    Acts are rare and tell more, mere views are many: Kunlun gives clicks twice the width, heads and window of
    impressions (event-level personalisation, arXiv 2602.10016); so does this.
    """
    return PyramidConfig(
        branches=(
            BranchConfig(group="all", newest=history // 4, dim=dim, heads=heads),
            BranchConfig(group="acted", newest=history, dim=dim, heads=heads),
            BranchConfig(group="passive", newest=history // 2, dim=dim // 2, heads=heads // 2),
        ),
        tokens=tokens,
        heads=heads,
    )


def _gem(foundation: FoundationConfig) -> RunConfig:
    """A run of a larger model: rates, batch and vertical models of `tiny`, one pass over a day, requests shared."""
    smallest = tiny()
    return replace(
        smallest,
        foundation=foundation,
        training=replace(smallest.training, epochs=1, warmup_steps=100),
        reading=replace(smallest.reading, share_histories=True, keep_together="request"),
    )


SIZES: dict[str, Callable[[], RunConfig]] = {"tiny": tiny, "small": small, "base": base, "large": large, "xl": xl}


def run_config(size: str) -> RunConfig:
    """The run of a rung, or of a variant of one: `small`, `small+light`, `small+light+static_y`.

    Raises:
        ConfigError: there is no such rung or variant.
    """
    rung, *names = size.split("+")
    if rung not in SIZES:
        raise ConfigError(f"There is no size {rung!r}.", remedy=f"Choose one of {', '.join(SIZES)}.")
    if strangers := [name for name in names if name not in VARIANTS]:
        raise ConfigError(
            f"Size {size!r} names variants that do not exist: {strangers}.",
            remedy=f"Choose among {', '.join(VARIANTS)}, joined by +.",
        )
    run = SIZES[rung]()
    for name in names:
        run = replace(run, foundation=VARIANTS[name](run.foundation))
    return run
