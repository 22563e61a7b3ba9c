"""Learn from a share of the negatives only, and from their weights what the whole log says.

An example is kept with a probability that its labels and surface decide, and counts the inverse of it (Horvitz and
Thompson, 1952). King and Zeng, "Logistic regression in rare events data", 2001, section 4.2, call this weighting; the
other way, a shift of the logit by log(share) after training (their prior correction; He et al., "Practical lessons
from predicting clicks on ads at Facebook", 2014, section 6.3), needs one share for all that a head has ever learnt
and is wrong where a day, a surface or an objective had another. Legend: N examples, S surfaces, K objectives.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.encoding import hash_rows, string_values
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.sources import PartSource
from gem_pipeline.errors import ConfigError
from gem_pipeline.training.settings import NegativeSampling

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
DRAWS = 2**53  # different draws, all exact as floats


def share_table(sampling: NegativeSampling, layout: InputLayout) -> Floats:
    """The share of negatives by surface and objective, [S, K].

    Raises:
        ConfigError: a cell names a surface or objective that the layout does not have.
    """
    share_SK = np.full((len(layout.surfaces), len(layout.objectives)), sampling.share)
    for cell in sorted(sampling.cells, key=lambda cell: cell.surface != ""):  # the more special one has the last word
        if cell.objective not in layout.objectives or cell.surface not in ("", *layout.surfaces):
            raise ConfigError(
                f"A share of negatives names objective {cell.objective!r} and surface {cell.surface!r}.",
                remedy=f"Choose from {', '.join(layout.objectives)} and {', '.join(layout.surfaces)}.",
            )
        surfaces = layout.surfaces.index(cell.surface) if cell.surface else slice(None)
        share_SK[surfaces, layout.objectives.index(cell.objective)] = cell.share
    return share_SK


def sample_weights(part: EncodedDay, sampling: NegativeSampling, *, seed: int) -> Floats:
    """What each label counts, [N, K]: 0 where it is missing or left out, else the inverse of its chance to be kept.

    An example with a positive is kept, with all its labels. Any other one draws one number by its id: label k stays
    where the number is below the share of its cell. So a larger share keeps whatever a smaller one does, and most of
    the examples that are left out are left out for all objectives.
    """
    share_NK = share_table(sampling, part.layout)[part.surface_N]
    id_N, _ = string_values(part.impression_ids)
    draw_N = (hash_rows(id_N, salt=f"negatives of seed {seed}", rows=DRAWS + 1) - 1) / DRAWS
    positive_N = ((part.label_NK > 0) & part.mask_NK).any(axis=1)
    share_NK[positive_N] = 1.0
    return np.where(part.mask_NK & (draw_N[:, None] < share_NK), 1.0 / share_NK, 0.0)


def sample_negatives(source: PartSource, sampling: NegativeSampling, *, seed: int) -> PartSource:
    """The parts with what each label counts; the source itself where nothing is left out."""
    return SampledParts(source, sampling, seed=seed) if sampling.active else source


class SampledParts:
    """Parts whose labels have weights that average 1 over those kept of an objective.

    The source is gone through once at first, to count what is kept.

    Args:
        source: the parts.
        sampling: what is kept.
        seed: another seed keeps others.
    """

    def __init__(self, source: PartSource, sampling: NegativeSampling, *, seed: int) -> None:
        self._source, self._sampling, self._seed = source, sampling, seed
        self.layout, self.sizes, self.costs = source.layout, [], []
        self.identity: dict[str, Any] = source.identity | {"negatives": asdict(sampling), "seed": seed}
        weight_K, count_K = np.zeros(len(self.layout.objectives)), np.zeros(len(self.layout.objectives))
        for part in source:
            weight_NK = sample_weights(part, sampling, seed=seed)
            kept = np.flatnonzero(weight_NK.any(axis=1))
            self.sizes.append(len(kept))
            self.costs.append(len(kept) + int(part.window.lengths[kept].sum()))
            weight_K += weight_NK.sum(axis=0)
            count_K += (weight_NK > 0).sum(axis=0)
        self._scale_K = count_K / np.maximum(weight_K, 1.0)

    def parts(self, order: Sequence[int]) -> Generator[EncodedDay]:
        """Yield some parts by number, in the given order."""
        inner = self._source.parts(order)
        try:
            yield from map(self._weighted, inner)
        finally:
            inner.close()

    def __iter__(self) -> Iterator[EncodedDay]:
        """Yield all parts."""
        return map(self._weighted, self._source)

    def impression_ids(self) -> pa.Array:
        """Ids of the examples of all parts, in their order, those left out included."""
        return self._source.impression_ids()

    def _weighted(self, part: EncodedDay) -> EncodedDay:
        return _with_weights(part, sample_weights(part, self._sampling, seed=self._seed) * self._scale_K)


def sample_cell(
    rows: list[tuple[EncodedDay, Longs]], objective: int, sampling: NegativeSampling, *, seed: int
) -> list[tuple[EncodedDay, Longs]]:
    """The rows of one surface and objective that are kept, in parts with weights that average 1 over them.

    Args:
        rows: parts and the cell's examples in each.
        objective: position in the layout.
        sampling: what is kept; where that is everything, `rows` is returned.
        seed: another seed keeps others.
    """
    if not sampling.active:
        return rows
    weights = [sample_weights(part, sampling, seed=seed) for part, _ in rows]
    kept = [index[weight_NK[index, objective] > 0] for (_, index), weight_NK in zip(rows, weights, strict=True)]
    total = sum(float(weight_NK[index, objective].sum()) for weight_NK, index in zip(weights, kept, strict=True))
    scale = sum(map(len, kept)) / max(total, 1.0)
    parts = [_with_weights(part, weight_NK * scale) for (part, _), weight_NK in zip(rows, weights, strict=True)]
    return [(part, index) for part, index in zip(parts, kept, strict=True) if len(index)]


def _with_weights(part: EncodedDay, weight_NK: Floats) -> EncodedDay:
    return replace(part, weight_NK=weight_NK.astype(np.float32), mask_NK=part.mask_NK & (weight_NK > 0))
