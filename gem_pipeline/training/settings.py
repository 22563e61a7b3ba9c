"""Settings of training, independent of model and machine."""

from __future__ import annotations

from dataclasses import dataclass

from gem_pipeline.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class CellShare:
    """The share of negatives of one objective, on one surface or on all.

    Attributes:
        objective: name in the contract.
        share: of the examples without any positive.
        surface: name in the contract; empty: every surface that no other entry names for the objective.
    """

    objective: str
    share: float
    surface: str = ""

    def __post_init__(self) -> None:
        _check_share(self.share)


@dataclass(frozen=True, kw_only=True, slots=True)
class NegativeSampling:
    """Which share of the examples without any positive is learnt from; those with one always are.

    Kept negatives count 1 / share in the loss, so that predictions are those of the whole log.

    Attributes:
        share: where no entry of `cells` says otherwise; 1: all.
        cells: shares of objectives and surfaces of their own.
    """

    share: float = 1.0
    cells: tuple[CellShare, ...] = ()

    def __post_init__(self) -> None:
        _check_share(self.share)

    @property
    def active(self) -> bool:
        """Whether anything is left out."""
        return min(self.share, *(cell.share for cell in self.cells), 1.0) < 1.0


def _check_share(share: float) -> None:
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"share of negatives is {share}.", remedy="Set it above 0 and at most 1.")


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
        negatives: which negatives are learnt from.
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
    negatives: NegativeSampling = NegativeSampling()

    def __post_init__(self) -> None:
        for field in ("batch_size", "epochs", "dense_lr", "embedding_lr", "grad_clip", "max_loss"):
            if getattr(self, field) <= 0:
                raise ConfigError(f"{field} is {getattr(self, field)}.", remedy=f"Set {field} above 0.")
        if self.averaging_horizon < 0:
            raise ConfigError(f"averaging_horizon is {self.averaging_horizon}.", remedy="Set it to 0 or more steps.")
        if not 0 <= self.final_rate <= 1:
            raise ConfigError(f"final_rate is {self.final_rate}.", remedy="Set final_rate between 0 and 1.")
