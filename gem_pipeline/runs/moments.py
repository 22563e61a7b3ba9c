"""How widely inputs spread on a day: what a model normalises by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.support import Support

HISTORY_ROWS = 4096  # of every part: histories are costlier to look at than columns
HISTORY_BATCH = 512


def dense_moments(parts: Iterable[EncodedDay]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Mean and standard deviation of the dense inputs, shape [F] each."""
    dense_NF = np.concatenate([part.dense_NF for part in parts]).astype(np.float64)
    return dense_NF.mean(axis=0).astype(np.float32), dense_NF.std(axis=0).astype(np.float32)


def fit_moments(model: FoundationModel, parts: Iterable[EncodedDay], *, late: bool = False) -> None:
    """Fix the moments of a foundation model's dense inputs and of what it counts over histories, in one pass.

    Which features it crosses, which ids are frequent and which vectors are alike is fixed likewise, once.

    Args:
        model: whose moments are fixed.
        parts: of the day; of each all dense inputs are measured, and up to 4 096 rows for all else.
        late: only of numbers that never had any spread.
    """
    told: list[Tensor] = []
    judging = [module for module in (model.pairs, model.tower) if module is not None and not module.is_fitted]
    supports = [Support(module) for module in judging]
    mean_F, std_F = dense_moments(_noting(model, parts, told, supports))
    model.init_dense(torch.from_numpy(mean_F), torch.from_numpy(std_F), late=late)
    told_NH = torch.cat(told)
    model.init_history(told_NH.mean(dim=0), told_NH.std(dim=0, correction=0), late=late)
    for support in supports:
        support.fix()


def _noting(
    model: FoundationModel, parts: Iterable[EncodedDay], told: list[Tensor], supports: list[Support]
) -> Iterator[EncodedDay]:
    """The parts as they come; what the model counts over the histories of each is added to `told`, ids to supports."""
    for part in parts:
        rows_N = np.unique(np.linspace(0, part.size - 1, min(part.size, HISTORY_ROWS)).astype(np.int64))
        for first in range(0, len(rows_N), HISTORY_BATCH):
            batch = part.batch(rows_N[first : first + HISTORY_BATCH])
            if model.matches is not None and not first:
                model.matches.fit(batch)
            for support in supports:
                support.add(batch)
            told.append(model.history_numbers(batch).double())
        yield part
