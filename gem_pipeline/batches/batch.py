"""One batch of examples with their histories, jagged, on any device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.layout import InputLayout


@dataclass(frozen=True, kw_only=True)
class SharedHistories:
    """How B examples look into histories that a batch carries once: examples share windows, windows share events.

    The examples of one request (the same user at the same time) see the same events at the same age: they have one
    window. A user's history is the union of his windows, each event once, stored in the row of his first example;
    the rows of his other examples hold no event. Any overlap of windows is shared, also that of impressions a
    second apart, whose windows differ.

    Attributes:
        index_T: int64 [T], the stored event (0 ... U - 1) of each event of each request's window.
        length_R: int64 [R], events of each window; they sum to T.
        log_gap_T: float32 [T], the first event number (`LOG_GAP`), which differs between requests.
        request_B: int64 [B], the request (0 ... R - 1) of each example, in the order of their first examples.
    """

    index_T: Tensor
    length_R: Tensor
    log_gap_T: Tensor
    request_B: Tensor

    def to(self, device: torch.device) -> SharedHistories:
        """Copy every tensor to a device."""
        return SharedHistories(
            index_T=self.index_T.to(device),
            length_R=self.length_R.to(device),
            log_gap_T=self.log_gap_T.to(device),
            request_B=self.request_B.to(device),
        )


@dataclass(frozen=True, kw_only=True)
class VectorInputs:
    """Vectors of B examples.

    Attributes:
        value_BV: float32 [B, V], the numbers of all vectors of the layout, one after the other; 0 where missing.
        present_BF: bool [B, F], whether the example has each vector.
    """

    value_BV: Tensor
    present_BF: Tensor

    def to(self, device: torch.device) -> VectorInputs:
        """Copy every tensor to a device."""
        return VectorInputs(value_BV=self.value_BV.to(device), present_BF=self.present_BF.to(device))


@dataclass(frozen=True, kw_only=True)
class EventVectors:
    """Vectors of the ads that U stored events are about, each one once.

    Attributes:
        values: for each of `InputLayout.event_vectors` its distinct vectors in the batch, float32 [P, D].
        place_UF: int64 [U, F], which of them an event has; -1: none.
    """

    values: tuple[Tensor, ...]
    place_UF: Tensor

    def take(self, events: Tensor) -> EventVectors:
        """Of some events, by their places, int64."""
        return EventVectors(values=self.values, place_UF=self.place_UF.index_select(0, events))

    def to(self, device: torch.device) -> EventVectors:
        """Copy every tensor to a device."""
        return EventVectors(values=tuple(v.to(device) for v in self.values), place_UF=self.place_UF.to(device))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B examples of R requests; T is the number of events of all windows, U of all stored events.

    Without `shared`, R is B, U is T, and the events of a row are its window. With it, they are a user's history:
    `spread_events` lays them out as the windows of requests, `spread_requests` gives each example its request's.

    Attributes:
        ids: KeyedJaggedTensor, keys as `InputLayout.keys`, stride B. The event keys share one jagged
            length a row; events run from the oldest to the newest.
        dense_BF: float32 [B, F], columns as `InputLayout.dense`.
        event_dense_TE: float32 [U, E], columns as `InputLayout.event_dense`, aligned with the event ids; where
            histories are shared, the first column is 0 and stands in `shared`.
        surface_B: int64 [B], position in `InputLayout.surfaces`.
        label_BK: float32 [B, K], 0 or 1; 0 where masked.
        mask_BK: bool [B, K], whether the label exists: the surface optimises the objective.
        user_B: int64 [B], the user, for per-user metrics.
        example_B: int64 [B], row number of the example in its partition (bucket, user, time, id order).
        shared: how examples look into shared histories; None: each row carries its own window.
        vectors: vectors of the ads and users; None: the layout has none.
        event_vectors: vectors of the ads that events are about; None: events bring none.
        weight_BK: float32 [B, K], what each label counts in a loss, 1 on average; None: all count 1.
    """

    ids: KeyedJaggedTensor
    dense_BF: Tensor
    event_dense_TE: Tensor
    surface_B: Tensor
    label_BK: Tensor
    mask_BK: Tensor
    user_B: Tensor
    example_B: Tensor
    shared: SharedHistories | None = None
    vectors: VectorInputs | None = None
    event_vectors: EventVectors | None = None
    weight_BK: Tensor | None = None

    @property
    def size(self) -> int:
        """Number of examples B."""
        return int(self.surface_B.shape[0])

    def spread_events(self, stored_UD: Tensor) -> Tensor:
        """Lay values of the stored events out as windows: [U, ...] -> [T, ...]."""
        return stored_UD if self.shared is None else stored_UD.index_select(0, self.shared.index_T)

    @property
    def requests(self) -> Tensor | None:
        """The request of each example, int64 [B]; None where every example is a request of its own."""
        if self.shared is None or self.shared.length_R.shape[0] == self.size:
            return None
        return self.shared.request_B

    def spread_requests(self, value_RD: Tensor) -> Tensor:
        """Give each example the value of its request: [R, ...] -> [B, ...]."""
        request_B = self.requests
        return value_RD if request_B is None else value_RD.index_select(0, request_B)

    def window_lengths(self, stored_B: Tensor) -> Tensor:
        """Events of each window, int64 [R], given the stored events of each row [B]."""
        return stored_B if self.shared is None else self.shared.length_R

    def window_numbers(self) -> Tensor:
        """Event numbers of all windows, float32 [T, E], columns as `InputLayout.event_dense`."""
        if self.shared is None:
            return self.event_dense_TE
        rest_TE = self.spread_events(self.event_dense_TE[:, 1:])
        return torch.cat([self.shared.log_gap_T.to(rest_TE.dtype)[:, None], rest_TE], dim=1)

    def shown_anywhere(self, token: str) -> Batch:
        """The same examples as if all were shown on the first surface, the id of `token` being the missing value."""
        place = self.ids.keys().index(token)
        start, stop = self.ids.offset_per_key()[place : place + 2]
        value_V = self.ids.values().clone()
        value_V[start:stop] = 0
        ids = KeyedJaggedTensor(keys=self.ids.keys(), values=value_V, lengths=self.ids.lengths())
        return replace(self, ids=ids, surface_B=torch.zeros_like(self.surface_B))

    def to(self, device: torch.device) -> Batch:
        """Copy every tensor to a device."""
        return Batch(
            ids=self.ids.to(device),
            dense_BF=self.dense_BF.to(device),
            event_dense_TE=self.event_dense_TE.to(device),
            surface_B=self.surface_B.to(device),
            label_BK=self.label_BK.to(device),
            mask_BK=self.mask_BK.to(device),
            user_B=self.user_B.to(device),
            example_B=self.example_B.to(device),
            shared=self.shared.to(device) if self.shared is not None else None,
            vectors=self.vectors.to(device) if self.vectors is not None else None,
            event_vectors=self.event_vectors.to(device) if self.event_vectors is not None else None,
            weight_BK=self.weight_BK.to(device) if self.weight_BK is not None else None,
        )


def chosen_events(ids: KeyedJaggedTensor, layout: InputLayout, events: Tensor, length_B: Tensor) -> KeyedJaggedTensor:
    """The same tokens with some of the events.

    Args:
        ids: keys of the layout, stride B.
        layout: names the tokens and the event features.
        events: which of them, by their places, row by row, int64.
        length_B: how many each row has then.
    """
    parts = ids.to_dict()
    tokens = [parts[feature.name] for feature in layout.tokens]
    length_B = length_B.to(ids.lengths().dtype)
    return KeyedJaggedTensor(
        keys=list(layout.keys),
        values=torch.cat(
            [
                *(token.values() for token in tokens),
                *(parts[feature.name].values().index_select(0, events) for feature in layout.event_ids),
            ]
        ),
        lengths=torch.cat([*(token.lengths() for token in tokens), length_B.repeat(len(layout.event_ids))]),
    )
