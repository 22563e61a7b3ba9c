"""Inputs of the logistic baseline: the rows that every model reads, as numpy arrays.

N rows, F dense inputs, E dense event inputs, V ids of a column, K objectives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.errors import ConfigError

HISTORY_EVENTS = 20  # newest events whose ids enter the bag

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdColumn:
    """Jagged ids of one feature, whatever their number a row.

    Attributes:
        name: feature name.
        length_N: ids a row [N].
        id_V: ids of all rows, one after the other [V].
    """

    name: str
    length_N: IntArray
    id_V: IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticInputs:
    """Features of N rows.

    Attributes:
        tokens: id features of the impression, one-hot or multi-hot.
        history: ids of the newest 20 events, a bag.
        surface_N: position of the surface [N].
        dense_NF: dense inputs of the batch, then the mean of each dense event input and the log of the
            history's length [N, F + E + 1]; zeros where there is no history.
        num_surfaces: surfaces of the layout.
    """

    tokens: tuple[IdColumn, ...]
    history: tuple[IdColumn, ...]
    surface_N: IntArray
    dense_NF: FloatArray
    num_surfaces: int

    @property
    def size(self) -> int:
        """Number of rows N."""
        return int(self.surface_N.shape[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticRows:
    """Features and labels of rows to learn from.

    Attributes:
        inputs: their features.
        label_NK: 0 or 1, any value where masked [N, K].
        mask_NK: whether the label exists [N, K].
        day_N: number of the day, a later day has a larger one [N].
        order_N: time within the day, any unit [N]; used only where all rows are of one day.
    """

    inputs: LogisticInputs
    label_NK: FloatArray
    mask_NK: NDArray[np.bool_]
    day_N: IntArray
    order_N: IntArray

    def __post_init__(self) -> None:
        num_rows = self.inputs.size
        fits = self.label_NK.shape == self.mask_NK.shape and self.label_NK.shape[:1] == (num_rows,)
        if not fits or self.day_N.shape != (num_rows,) or self.order_N.shape != (num_rows,):
            raise ConfigError(
                f"Labels, masks, days and order do not fit {num_rows} rows of the logistic baseline.",
                remedy="Pass arrays of the same rows in the same order.",
            )


def inputs_of_batch(batch: Batch, layout: InputLayout) -> LogisticInputs:
    """Turn the tensors of one batch into arrays of the same rows."""
    batch = expand_histories(batch, layout)
    features = batch.ids.to_dict()
    length_N = features[layout.event_ids[0].name].lengths().cpu().numpy().astype(np.int64)
    row_T = np.repeat(np.arange(batch.size), length_N)
    newest_T = _from_the_end(length_N) < HISTORY_EVENTS
    event_dense_TE = batch.event_dense_TE.cpu().numpy()
    mean_NE = np.zeros((batch.size, event_dense_TE.shape[1]), dtype=np.float32)
    for column in range(event_dense_TE.shape[1]):
        sum_N = np.bincount(row_T, weights=event_dense_TE[:, column], minlength=batch.size)
        mean_NE[:, column] = sum_N / np.maximum(length_N, 1)
    log_length_N1 = np.log1p(length_N).astype(np.float32)[:, None]
    dense_BF = batch.dense_BF.cpu().numpy().astype(np.float32)
    return LogisticInputs(
        tokens=tuple(
            IdColumn(
                name=token.name,
                length_N=features[token.name].lengths().cpu().numpy().astype(np.int64),
                id_V=features[token.name].values().cpu().numpy().astype(np.int64),
            )
            for token in layout.tokens
        ),
        history=tuple(
            IdColumn(
                name=event_id.name,
                length_N=np.minimum(length_N, HISTORY_EVENTS),
                id_V=features[event_id.name].values().cpu().numpy().astype(np.int64)[newest_T],
            )
            for event_id in layout.event_ids
        ),
        surface_N=batch.surface_B.cpu().numpy().astype(np.int64),
        dense_NF=np.concatenate([dense_BF, mean_NE, log_length_N1], axis=1),
        num_surfaces=len(layout.surfaces),
    )


def rows_of_batches(
    batches: Iterable[Batch], layout: InputLayout, *, day: int, order_N: IntArray | None = None
) -> LogisticRows:
    """Collect the rows of one day.

    Args:
        batches: the day's batches, at least one.
        layout: names their keys.
        day: number of the day, growing with time.
        order_N: time of each row; by default its place in storage (bucket, user, time), so that a split
            within the day keeps users apart.

    Raises:
        ConfigError: there is no batch, or the order has another length.
    """
    parts: list[LogisticInputs] = []
    labels: list[FloatArray] = []
    masks: list[NDArray[np.bool_]] = []
    places: list[IntArray] = []
    for batch in batches:
        parts.append(inputs_of_batch(batch, layout))
        labels.append(batch.label_BK.cpu().numpy().astype(np.float32))
        masks.append(batch.mask_BK.cpu().numpy().astype(np.bool_))
        places.append(batch.example_B.cpu().numpy().astype(np.int64))
    inputs = concatenate_inputs(parts)
    return LogisticRows(
        inputs=inputs,
        label_NK=np.concatenate(labels),
        mask_NK=np.concatenate(masks),
        day_N=np.full(inputs.size, day, dtype=np.int64),
        order_N=np.concatenate(places) if order_N is None else np.asarray(order_N, dtype=np.int64),
    )


def concatenate_inputs(parts: Sequence[LogisticInputs]) -> LogisticInputs:
    """Put rows of the same layout one after the other.

    Raises:
        ConfigError: there is nothing to put together.
    """
    if not parts:
        raise ConfigError("The logistic baseline got no rows.", remedy="Pass at least one batch of examples.")
    return LogisticInputs(
        tokens=_concatenate_columns([part.tokens for part in parts]),
        history=_concatenate_columns([part.history for part in parts]),
        surface_N=np.concatenate([part.surface_N for part in parts]),
        dense_NF=np.concatenate([part.dense_NF for part in parts]),
        num_surfaces=parts[0].num_surfaces,
    )


def concatenate_rows(parts: Sequence[LogisticRows]) -> LogisticRows:
    """Put the rows of several days one after the other.

    Raises:
        ConfigError: there is nothing to put together.
    """
    return LogisticRows(
        inputs=concatenate_inputs([part.inputs for part in parts]),
        label_NK=np.concatenate([part.label_NK for part in parts]),
        mask_NK=np.concatenate([part.mask_NK for part in parts]),
        day_N=np.concatenate([part.day_N for part in parts]),
        order_N=np.concatenate([part.order_N for part in parts]),
    )


def _concatenate_columns(parts: Sequence[tuple[IdColumn, ...]]) -> tuple[IdColumn, ...]:
    return tuple(
        IdColumn(
            name=columns[0].name,
            length_N=np.concatenate([column.length_N for column in columns]),
            id_V=np.concatenate([column.id_V for column in columns]),
        )
        for columns in zip(*parts, strict=True)
    )


def _from_the_end(length_N: IntArray) -> IntArray:
    """Distance of each jagged element from the last one of its row, [T]."""
    end_N = np.cumsum(length_N)
    return np.repeat(end_N, length_N) - 1 - np.arange(int(length_N.sum()))
