"""The size ladder: each rung is a function that returns a whole typed run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationConfig
from gem_pipeline.models.vertical import VerticalConfig
from gem_pipeline.training.settings import TrainConfig
from gem_pipeline.transfer.distillation import DistillationConfig


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
    """Size of d 32, 2 layers, 64 events: a day of KuaiRand in seconds on two CPU cores.

    Rates, batch size and averaging were chosen on KuaiRand's days up to 2022-05-05; later days played no part.
    """
    return RunConfig(
        foundation=FoundationConfig(dropout=0.2),
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


SIZES: dict[str, Callable[[], RunConfig]] = {"tiny": tiny}


def run_config(size: str) -> RunConfig:
    """The run of a rung.

    Raises:
        ConfigError: there is no such rung.
    """
    if size not in SIZES:
        raise ConfigError(f"There is no size {size!r}.", remedy=f"Choose one of {', '.join(SIZES)}.")
    return SIZES[size]()
