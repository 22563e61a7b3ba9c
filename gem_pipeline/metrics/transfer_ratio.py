"""How much of a teacher's advantage reaches its student.

Transfer ratio = (NE of the student alone - NE of the taught student) / (NE of the student alone - NE of the
teacher), on the same rows; the entropy of the base rate cancels, so losses are enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.metrics.comparison import user_sums
from gem_pipeline.metrics.intervals import BootstrapConfig, percentile_interval, resampled_sums
from gem_pipeline.metrics.ne import log_losses
from gem_pipeline.metrics.rows import checked_labels, checked_probs, user_positions
from gem_pipeline.metrics.state import Estimate, MetricState


def transfer_ratio(
    label_N: ArrayLike,
    *,
    alone_N: ArrayLike,
    taught_N: ArrayLike,
    teacher_N: ArrayLike,
    user_N: ArrayLike,
    config: BootstrapConfig,
) -> Estimate | MetricState:
    """Share of the teacher's gain that the student got, with a paired bootstrap over users.

    Args:
        label_N: 0 or 1, shape [N].
        alone_N: probabilities of the student without a teacher, shape [N].
        taught_N: probabilities of the student with it, shape [N].
        teacher_N: probabilities of the teacher, shape [N].
        user_N: the user of each row, shape [N].
        config: replicates, level and seed.

    Returns:
        The ratio; `no_teacher_gain` where the interval of the teacher's own gain holds zero, `no_rows`
        where there is nothing.

    Raises:
        ConfigError: shapes differ, or a value breaks its rule.

    Source: LoopFM (arXiv 2605.29280) and Rec-Distill (arXiv 2605.29755), one generation.
    """
    labels_N = checked_labels(label_N)
    if not labels_N.size:
        return MetricState.NO_ROWS
    position_N, num_users = user_positions(user_N, num_rows=labels_N.size)
    losses = [log_losses(labels_N, checked_probs(p, num_rows=labels_N.size)) for p in (alone_N, taught_N, teacher_N)]
    sums_U3 = np.stack([user_sums(loss_N, position_N, num_users) for loss_N in losses], axis=1)
    alone, taught, teacher = sums_U3.sum(axis=0)
    drawn_R3 = resampled_sums(sums_U3, config=config)
    gain_R = drawn_R3[:, 0] - drawn_R3[:, 2]
    gain = percentile_interval(alone - teacher, gain_R, level=config.level)
    if gain.low <= 0.0:
        return MetricState.NO_TEACHER_GAIN
    ratio_R = (drawn_R3[:, 0] - drawn_R3[:, 1]) / gain_R
    return percentile_interval(float((alone - taught) / (alone - teacher)), ratio_R, level=config.level)
