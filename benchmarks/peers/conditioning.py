"""Why GAUC on few rows a user punishes what follows a user's own outcomes, shown without any model.

GAUC keeps users with both classes. Of such a user's few judged rows, one that comes after a positive is less likely
a positive: given that both classes occur, the rest has fewer of them. A score that rises with the user's newest
outcomes then ranks his own rows the wrong way round, even where nothing but chance made them. The check draws
labels that are independent given the user (his rate over the whole log, smoothed) and finds the same (ours).
N rows, U users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.metrics.ranking import auc, gauc, user_aucs

PSEUDO_ROWS = 10.0
DRAWS = 20
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditioning:
    """What the day-lagged rate of the user alone reaches on judged days.

    Attributes:
        auc: of the log's labels.
        gauc: of the log's labels.
        chance_auc: mean over draws of labels that are independent given the user.
        chance_gauc: the same for GAUC, where .5 would be no order at all.
        rows_per_user: judged rows a user.
        ranked_share: judged rows that GAUC keeps.
    """

    auc: float
    gauc: float
    chance_auc: float
    chance_gauc: float
    rows_per_user: float
    ranked_share: float


def lagged_rate(user_N: Longs, day_N: Longs, label_N: Floats) -> Floats:
    """Rate of each row's user over the rows of earlier days, smoothed towards that of all rows [N]."""
    first = int(day_N.min())
    days = int(day_N.max()) - first + 1
    position_N = np.unique(user_N, return_inverse=True)[1]
    slot_N = position_N * days + day_N - first
    size = (int(position_N.max()) + 1) * days
    shown_UD = np.bincount(slot_N, minlength=size).reshape(-1, days)
    done_UD = np.bincount(slot_N, weights=label_N, minlength=size).reshape(-1, days)
    before_N, done_N = ((np.cumsum(x, axis=1) - x).ravel()[slot_N] for x in (shown_UD, done_UD))
    return np.asarray((done_N + PSEUDO_ROWS * label_N.mean()) / (before_N + PSEUDO_ROWS))


def conditioning(export: Path, learnt: Sequence[str], judged: Sequence[str], column: int) -> Conditioning:
    """Score the judged days by the user's rate alone, with the log's labels and with drawn ones."""
    users, days, labels = [], [], []
    for number, day in enumerate((*learnt, *judged)):
        with np.load(export / f"{day}.npz") as arrays:
            users.append(arrays["user"])
            labels.append(arrays["label"][:, column].astype(np.float64))
            days.append(np.full(len(users[-1]), number))
    user_N, day_N, label_N = np.concatenate(users), np.concatenate(days), np.concatenate(labels)
    chosen_N = day_N >= len(learnt)

    def judge(label_N: Floats) -> tuple[float, float]:
        score_n, label_n = lagged_rate(user_N, day_N, label_N)[chosen_N], label_N[chosen_N]
        return float(auc(label_n, score_n)), float(gauc(label_n, score_n, user_N[chosen_N]))

    position_N = np.unique(user_N, return_inverse=True)[1]
    done_U, shown_U = np.bincount(position_N, weights=label_N), np.bincount(position_N)
    rate_N = ((done_U + PSEUDO_ROWS * label_N.mean()) / (shown_U + PSEUDO_ROWS))[position_N]
    rng = np.random.default_rng(0)
    drawn = np.array([judge((rng.random(len(rate_N)) < rate_N).astype(np.float64)) for _ in range(DRAWS)])
    found_auc, found_gauc = judge(label_N)
    judged_U, position_n = np.unique(user_N[chosen_N], return_inverse=True)
    ranked_U = user_aucs(label_N[chosen_N], label_N[chosen_N], position_n, num_users=len(judged_U))[1]
    return Conditioning(
        auc=found_auc, gauc=found_gauc, chance_auc=float(drawn[:, 0].mean()), chance_gauc=float(drawn[:, 1].mean()),
        rows_per_user=float(chosen_N.sum() / len(judged_U)), ranked_share=float(ranked_U.sum() / chosen_N.sum()),
    )  # fmt: skip
