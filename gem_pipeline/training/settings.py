"""Settings of training, independent of model and machine."""

from __future__ import annotations

from dataclasses import dataclass

from gem_pipeline.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How a model learns from a day.

    Attributes:
        batch_size: examples a step.
        epochs: passes over a day; the first pass of an example is always scored before it is learnt.
        dense_lr: AdamW learning rate of everything but embeddings.
        embedding_lr: row-wise AdaGrad learning rate of embedding tables.
        weight_decay: AdamW decay of matrices (not of biases, norms or embeddings).
        warmup_steps: steps of linear warm-up after a cold start.
        final_rate: share of the learning rates left at the end of a day; they fall linearly over it.
        averaging_horizon: served weights are a running average over up to so many of the newest steps (the
            window grows as a tenth of the steps taken); 0 serves the newest weights. One pass over little data
            leaves noise in the last weights that averaging removes (Polyak and Juditsky, 1992; Shamir and
            Zhang, arXiv 1212.1824, section 4).
        grad_clip: largest norm of the dense gradient.
        max_loss: a batch loss above it, or a non-finite one, stops training.
    """

    batch_size: int
    epochs: int = 1
    dense_lr: float
    embedding_lr: float
    weight_decay: float = 0.0
    warmup_steps: int = 0
    final_rate: float = 1.0
    averaging_horizon: int = 0
    grad_clip: float = 1.0
    max_loss: float = 50.0

    def __post_init__(self) -> None:
        for field in ("batch_size", "epochs", "dense_lr", "embedding_lr", "grad_clip", "max_loss"):
            if getattr(self, field) <= 0:
                raise ConfigError(f"{field} is {getattr(self, field)}.", remedy=f"Set {field} above 0.")
        if self.averaging_horizon < 0:
            raise ConfigError(f"averaging_horizon is {self.averaging_horizon}.", remedy="Set it to 0 or more steps.")
        if not 0 <= self.final_rate <= 1:
            raise ConfigError(f"final_rate is {self.final_rate}.", remedy="Set final_rate between 0 and 1.")
