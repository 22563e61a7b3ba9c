"""Learn from the batches of a day, and score a day with a frozen model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gem_pipeline.batches.batch import Batch
from gem_pipeline.errors import DivergenceError
from gem_pipeline.training.optimizer import ModelOptimizer

Loss = Callable[[nn.Module, Batch], Tensor]


@dataclass(kw_only=True)
class LossCurve:
    """Losses and gradient norms by step."""

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    num_examples: int = 0


def masked_bce(logit_BK: Tensor, target_BK: Tensor, mask_BK: Tensor, weight_BK: Tensor | None = None) -> Tensor:
    """Sum over objectives of the mean binary cross entropy over the examples that have the objective.

    Args:
        logit_BK: logits, shape [B, K].
        target_BK: labels or soft labels in [0, 1], shape [B, K].
        mask_BK: bool, whether the target exists, shape [B, K].
        weight_BK: what each target counts, 1 on average, shape [B, K]; None: all count 1.

    Returns:
        Scalar; an objective without any target in the batch contributes 0.
    """
    loss_BK = binary_cross_entropy_with_logits(logit_BK, target_BK, reduction="none")
    there_BK = mask_BK.to(loss_BK.dtype)
    counted_BK = there_BK if weight_BK is None else there_BK * weight_BK
    # Divided by how many there are, not by their weights: these would favour the classes that weigh less.
    return ((loss_BK * counted_BK).sum(0) / there_BK.sum(0).clamp(min=1.0)).sum()


def joint_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Loss of the foundation model: every objective of every surface at once."""
    return masked_bce(model(batch).logit_BK, batch.label_BK, batch.mask_BK, batch.weight_BK)


def learn(
    model: nn.Module, optimizer: ModelOptimizer, batches: Iterable[Batch], loss_of: Loss, curve: LossCurve
) -> None:
    """Take one step a batch.

    Args:
        model: in any mode; it is put into training mode.
        optimizer: of this model.
        batches: none of them empty.
        loss_of: scalar loss of a batch.
        curve: gets one entry a step.

    Raises:
        DivergenceError: the loss or gradient is not finite or exceeds the limit; the step is not taken
            further and the caller's stored model is untouched.
    """
    model.train()
    limit = optimizer.config.max_loss
    for batch in batches:
        loss = loss_of(model, batch)
        value = float(loss.detach())
        if not math.isfinite(value) or value > limit:
            raise _diverged("loss", value, len(curve.losses), batch)
        norm = optimizer.step(loss)
        if not math.isfinite(norm):
            raise _diverged("gradient norm", norm, len(curve.losses), batch)
        curve.losses.append(value)
        curve.grad_norms.append(norm)
        curve.num_examples += batch.size


def _diverged(what: str, value: float, step: int, batch: Batch) -> DivergenceError:
    rows = f"{int(batch.example_B.min())} ... {int(batch.example_B.max())}"
    return DivergenceError(
        f"The {what} became {value} at step {step} (examples {rows} of the day).",
        remedy="The last stored model is untouched; lower the learning rate or inspect these examples.",
    )


@dataclass(frozen=True, kw_only=True)
class DayScores:
    """Frozen-model outputs for every example of a day, in storage order.

    Attributes:
        prob_NK: probabilities, shape [N, K].
        representation_ND: example-side representation, shape [N, D].
    """

    prob_NK: npt.NDArray[np.float32]
    representation_ND: npt.NDArray[np.float32]


@torch.no_grad()
def score(model: nn.Module, batches: Iterable[Batch]) -> DayScores:
    """Score batches in order with a frozen model; labels are not read."""
    model.eval()
    outputs = [model(batch) for batch in batches]
    return DayScores(
        prob_NK=torch.cat([torch.sigmoid(output.logit_BK) for output in outputs]).numpy(),
        representation_ND=torch.cat([output.representation_BD for output in outputs]).numpy(),
    )
