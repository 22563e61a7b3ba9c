"""Losses of a vertical model, with and without a teacher.

Legend: B examples of one surface; the objective is one of the K of the layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gem_pipeline.batches.batch import Batch
from gem_pipeline.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationConfig:
    """Plain distillation through a separate auxiliary head.

    Attributes:
        weight: factor of the distillation loss; the served head never sees the teacher, so it need not
            be small against the label loss.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ConfigError(f"weight is {self.weight}.", remedy="Set the distillation weight to 0 or more.")


def label_loss(logit_B: Tensor, batch: Batch, objective: int) -> Tensor:
    """Mean binary cross entropy of the served head over the examples that have the label."""
    return _masked_mean(logit_B, batch.label_BK[:, objective], batch, objective)


def distillation_loss(logit_B: Tensor, teacher_prob_B: Tensor, batch: Batch, objective: int) -> Tensor:
    """Mean binary cross entropy of the auxiliary head against the teacher's probability.

    It is smallest where the head equals the teacher, and it sends no gradient to the teacher.
    Source: Liang et al., ExFM, arXiv 2502.17494 (auxiliary head).
    """
    return _masked_mean(logit_B, teacher_prob_B.detach(), batch, objective)


class VerticalLoss:
    """Loss of a vertical model on a batch; with a teacher, the auxiliary head learns from it too.

    Args:
        objective: position in the layout.
        teacher_prob_NK: probabilities of the day's teacher by `Batch.example_B`, shape [N, K], or None.
        config: weight of the distillation loss.
    """

    def __init__(self, objective: int, teacher_prob_NK: Tensor | None, config: DistillationConfig) -> None:
        self.objective, self.teacher_prob_NK, self.config = objective, teacher_prob_NK, config

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Scalar loss."""
        output = model(batch)
        loss = label_loss(output.logit_B, batch, self.objective)
        if self.teacher_prob_NK is None:
            return loss
        teacher_B = self.teacher_prob_NK[batch.example_B, self.objective]
        return loss + self.config.weight * distillation_loss(output.distill_logit_B, teacher_B, batch, self.objective)


def _masked_mean(logit_B: Tensor, target_B: Tensor, batch: Batch, objective: int) -> Tensor:
    there_B = batch.mask_BK[:, objective].to(logit_B.dtype)
    counted_B = there_B if batch.weight_BK is None else there_B * batch.weight_BK[:, objective].to(logit_B.dtype)
    loss_B = binary_cross_entropy_with_logits(logit_B, target_B.to(logit_B.dtype), reduction="none")
    return torch.dot(loss_B, counted_B) / there_B.sum().clamp(min=1.0)
