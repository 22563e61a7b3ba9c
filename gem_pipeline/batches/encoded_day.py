"""Encoded examples of a day, from which batches are cut just in time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.batch import Batch, EventVectors, SharedHistories, VectorInputs
from gem_pipeline.batches.history import ranges
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.selection import Window
from gem_pipeline.batches.vectors import VectorRows

Longs = npt.NDArray[np.int64]
LOG_GAP_SCALE = 8.0  # log1p of the gap of an event is divided by this to be of order one
LONGEST_GAP_S = 1e9


@dataclass(frozen=True, kw_only=True)
class EncodedDay:
    """The examples of some users on a day, encoded; their histories by bounds into E events.

    Attributes:
        token_ids: embedding rows of each token feature and the ids a row.
        window: events of each example.
        event_ids: embedding rows of each event-id feature, for every event that a window can hold, shape [E].
        event_dense_EF: dense event inputs but the time gap, shape [E, F - 1].
        vectors: vectors by name, every one of the layout.
        event_vectors: of the ads of the E events, by name, every one of the layout's.
        weight_NK: what each label counts in a loss, shape [N, K]; None: all count 1.
    """

    layout: InputLayout
    token_ids: dict[str, tuple[Longs, Longs]]
    dense_NF: npt.NDArray[np.float32]
    surface_N: Longs
    label_NK: npt.NDArray[np.float32]
    mask_NK: npt.NDArray[np.bool_]
    user_N: Longs
    as_of_N: Longs
    example_N: Longs
    impression_ids: pa.Array
    window: Window
    event_ids: dict[str, Longs]
    event_dense_EF: npt.NDArray[np.float32]
    vectors: dict[str, VectorRows] = field(default_factory=dict)
    event_vectors: dict[str, VectorRows] = field(default_factory=dict)
    weight_NK: npt.NDArray[np.float32] | None = None

    @property
    def learnt_rows(self) -> Longs:
        """Examples that a pass goes through: all, or where labels have weights those with one above 0."""
        return np.arange(self.size) if self.weight_NK is None else np.flatnonzero(self.weight_NK.any(axis=1))

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.surface_N)

    def digest(self) -> str:
        """Content id of everything that a model is given: equal digests are equal bytes of every batch."""
        content = hashlib.sha256(json.dumps(self.layout.to_dict(), sort_keys=True).encode())
        ids = [array for _, pair in sorted(self.token_ids.items()) for array in pair]
        events = [array for _, array in sorted(self.event_ids.items())]
        rows = (self.dense_NF, self.surface_N, self.label_NK, self.mask_NK, self.user_N, self.as_of_N, self.example_N)
        seen = (self.window.lengths, self.window.user_E, self.window.happened_E, self.window.visible_E)
        vectors = [array for feature in self.layout.vectors for array in self.vectors[feature.name].content()]
        vectors += [array for name in self.layout.event_vectors for array in self.event_vectors[name].content()]
        for array in (*ids, *rows, *seen, *events, self.event_dense_EF, *vectors):
            content.update(np.ascontiguousarray(array).tobytes())
        content.update("\n".join(self.impression_ids.to_pylist()).encode())
        return content.hexdigest()[:16]

    def batch(self, rows: Longs, *, share: bool = False) -> Batch:
        """Materialise a batch of the given rows: ids, dense inputs and jagged histories, oldest event first.

        Args:
            rows: examples, shape [B].
            share: the examples of a user share one copy of his history, those of a request one window.
        """
        first_R, request_B = requests(self.user_N[rows], self.as_of_N[rows]) if share else (np.arange(len(rows)), None)
        asked_R = rows[first_R]
        index_T, window_R = self.window.select(asked_R)
        gap_s_T = (np.repeat(self.as_of_N[asked_R], window_R) - self.window.happened_E[index_T]) / 1e6
        log_gap_T = (np.log1p(gap_s_T) / LOG_GAP_SCALE).astype(np.float32)
        if share:
            stored_U, stored_B, place_T = _stored_once(index_T, self.window.user_E, self.user_N[rows])
            first_number_U = np.zeros(len(stored_U), dtype=np.float32)
        else:
            stored_U, stored_B, place_T, first_number_U = index_T, window_R, None, log_gap_T
        values, lengths = self._ids(rows, stored_U, stored_B)
        return Batch(
            ids=KeyedJaggedTensor.from_lengths_sync(
                keys=list(self.layout.keys), values=torch.from_numpy(values), lengths=torch.from_numpy(lengths)
            ),
            dense_BF=torch.from_numpy(self.dense_NF[rows]),
            event_dense_TE=torch.from_numpy(
                np.concatenate([first_number_U[:, None], self.event_dense_EF[stored_U]], axis=1)
            ),
            surface_B=torch.from_numpy(self.surface_N[rows]),
            label_BK=torch.from_numpy(self.label_NK[rows]),
            mask_BK=torch.from_numpy(self.mask_NK[rows]),
            user_B=torch.from_numpy(self.user_N[rows]),
            example_B=torch.from_numpy(self.example_N[rows]),
            shared=None
            if place_T is None or request_B is None
            else SharedHistories(
                index_T=torch.from_numpy(place_T),
                length_R=torch.from_numpy(window_R),
                log_gap_T=torch.from_numpy(log_gap_T),
                request_B=torch.from_numpy(request_B),
            ),
            vectors=self._vector_inputs(rows),
            event_vectors=self._event_vectors(stored_U),
            weight_BK=None if self.weight_NK is None else torch.from_numpy(self.weight_NK[rows]),
        )

    def _vector_inputs(self, rows: Longs) -> VectorInputs | None:
        """Vectors of the given rows in the order of the layout."""
        if not self.layout.vectors:
            return None
        taken = [self.vectors[feature.name].take(rows) for feature in self.layout.vectors]
        return VectorInputs(
            value_BV=torch.from_numpy(np.concatenate([value_BD for value_BD, _ in taken], axis=1)),
            present_BF=torch.from_numpy(np.stack([present_B for _, present_B in taken], axis=1)),
        )

    def _event_vectors(self, stored_U: Longs) -> EventVectors | None:
        """Vectors of the given events in the order of the layout."""
        if not self.layout.event_vectors:
            return None
        found = [self.event_vectors[name].among(stored_U) for name in self.layout.event_vectors]
        return EventVectors(
            values=tuple(torch.from_numpy(value_PD) for value_PD, _ in found),
            place_UF=torch.from_numpy(np.stack([place_U for _, place_U in found], axis=1)),
        )

    @cached_property
    def _token_end(self) -> dict[str, Longs]:
        """Where the ids of each example end, by token feature."""
        return {name: np.cumsum(length_N) for name, (_, length_N) in self.token_ids.items()}

    def _ids(self, rows: Longs, stored_U: Longs, stored_B: Longs) -> tuple[Longs, Longs]:
        """Values and lengths of all keys of the layout."""
        values: list[Longs] = []
        lengths: list[Longs] = []
        for feature in self.layout.tokens:
            ids, length_N = self.token_ids[feature.name]
            end_N = self._token_end[feature.name]
            values.append(ids[ranges(end_N[rows] - length_N[rows], end_N[rows])])
            lengths.append(length_N[rows])
        for feature in self.layout.event_ids:
            values.append(self.event_ids[feature.name][stored_U])
            lengths.append(stored_B)
        return np.concatenate(values), np.concatenate(lengths)


def gap_seconds(event_dense_TE: torch.Tensor) -> torch.Tensor:
    """Seconds from each event to the impression, read back from the first event number, [T, E] -> [T]."""
    return torch.expm1(event_dense_TE[:, 0] * LOG_GAP_SCALE).clamp(0.0, LONGEST_GAP_S)


def requests(user_B: Longs, as_of_B: Longs) -> tuple[Longs, Longs]:
    """Examples of the same user at the same time are one request.

    Returns:
        The first example of each request, ascending [R], and the request of each example [B].
    """
    order = np.lexsort((as_of_B, user_B))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(user_B[order]) != 0) | (np.diff(as_of_B[order]) != 0)
    first = np.minimum.reduceat(order, np.flatnonzero(new))  # the sort is stable: the first of each run
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    request_B = np.empty(len(order), dtype=np.int64)
    request_B[order] = rank[np.cumsum(new) - 1]
    return np.sort(first), request_B


def _stored_once(index_T: Longs, user_E: Longs, user_B: Longs) -> tuple[Longs, Longs, Longs]:
    """Store each event once, in the row of its user's first example.

    Returns:
        The stored events [U], how many each row holds [B], and the stored place of every window's events [T].
    """
    needed = np.zeros(len(user_E), dtype=np.bool_)
    needed[index_T] = True
    event_U = np.flatnonzero(needed)  # by user and time
    users, first_row = np.unique(user_B, return_index=True)
    row_U = first_row[np.searchsorted(users, user_E[event_U])]
    order = np.argsort(row_U, kind="stable")
    place_E = np.empty(len(user_E), dtype=np.int64)
    place_E[event_U[order]] = np.arange(len(order))
    return event_U[order], np.bincount(row_U, minlength=len(user_B)), place_E[index_T]


def day_batches(part: EncodedDay, *, batch_size: int, generator: np.random.Generator | None = None) -> Iterator[Batch]:
    """Cut an encoded part into batches; the last one may be smaller, none is empty."""
    order = np.arange(part.size) if generator is None else generator.permutation(part.size)
    for first in range(0, part.size, batch_size):
        yield part.batch(order[first : first + batch_size])
