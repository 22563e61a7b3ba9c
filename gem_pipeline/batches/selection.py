"""Windows, cut just in time: an impression holds bounds into the history, a batch the events themselves.

Memory is proportional to events and impressions; only the rows of one batch are ever multiplied by the length
of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gem_pipeline.batches.history import Bounds, History, Longs, Track, ranges
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.errors import LeakageError

BLOCK_EVENTS = 1 << 22  # events looked at together while lengths are counted or late events are sorted out


@dataclass(frozen=True, kw_only=True)
class Window:
    """The windows of N impressions over E events.

    Attributes:
        user_N: user of each impression.
        as_of_N: its time, microseconds.
        user_E: user of each event, in the order (user, time).
        happened_E: when it happened.
        visible_E: the first microsecond at which it is visible.
        parts: for each event group its events, its bounds an impression and its limits.
        max_events: events an impression sees of all groups together.
    """

    user_N: Longs
    as_of_N: Longs
    user_E: Longs
    happened_E: Longs
    visible_E: Longs
    parts: tuple[tuple[Track, Bounds, EventGroup], ...]
    max_events: int

    @cached_property
    def lengths(self) -> Longs:
        """Events of each impression, int64 [N]."""
        num_rows = len(self.user_N)
        step = max(1, BLOCK_EVENTS // (self.max_events * len(self.parts)))
        blocks = (np.arange(first, min(first + step, num_rows)) for first in range(0, num_rows, step))
        return np.concatenate([np.zeros(0, dtype=np.int64), *(self.select(rows)[1] for rows in blocks)])

    def select(self, rows: Longs) -> tuple[Longs, Longs]:
        """Events of some impressions, oldest first.

        Args:
            rows: impressions, shape [B].

        Returns:
            Positions in the history of all their events, [T], and events an impression, [B].

        Raises:
            LeakageError: an event in a window did not precede its impression (a bug; checked on every call).
        """
        found = [_newest(track, bounds, group, rows, self.as_of_N[rows]) for track, bounds, group in self.parts]
        index_T, length_B = found[0] if len(found) == 1 else self._union(found)
        self._assert_visible(index_T, length_B, rows)
        return index_T, length_B

    def _union(self, found: list[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
        """Merge groups in time order, each event once, and keep the newest ones."""
        num_rows, num_events = len(found[0][1]), max(1, len(self.user_E))
        row_T = np.concatenate([np.repeat(np.arange(num_rows), length_B) for _, length_B in found])
        index_T = np.concatenate([index for index, _ in found])
        row_T, index_T = np.divmod(np.unique(row_T * num_events + index_T), num_events)
        return _keep_newest(index_T, np.bincount(row_T, minlength=num_rows), self.max_events)

    def _assert_visible(self, index_T: Longs, length_B: Longs, rows: Longs) -> None:
        as_of_T = np.repeat(self.as_of_N[rows], length_B)
        wrong_T = (self.happened_E[index_T] >= as_of_T) | (self.visible_E[index_T] > as_of_T)
        wrong_T |= self.user_E[index_T] != np.repeat(self.user_N[rows], length_B)
        if leaked := int(wrong_T.sum()):
            raise LeakageError(
                f"Table user_events: {leaked} event(s) would be visible to impressions they did not precede.",
                remedy="Report this: the window search is wrong; nothing was trained on.",
            )


def find_windows(
    history: History, spec: WindowSpec, user_N: Longs, as_of_N: Longs, *, kinds: tuple[str, ...] = ()
) -> tuple[Window, Longs]:
    """Find the window of each impression and drop the events that no window can hold.

    Args:
        history: events of at least these users.
        spec: what a window holds.
        user_N: user of each impression.
        as_of_N: its time, microseconds since the epoch (UTC).
        kinds: the contract's event kinds; needed where a group names kinds.

    Returns:
        The windows, and the positions in `history` of the E events that they are about, ascending.
    """
    tracks = [(history.track(group, kinds), group) for group in spec.selections]
    parts = [(track, history.bounds(track, group, user_N, as_of_N), group) for track, group in tracks]
    seen_parts = [_reachable(track, bounds) for track, bounds, _ in parts]
    kept = np.zeros(len(history.user_E), dtype=np.bool_)
    for (track, _, _), seen_P in zip(parts, seen_parts, strict=True):
        kept[track.position_E[seen_P]] = True
    kept_E = np.flatnonzero(kept)
    window = Window(
        user_N=user_N,
        as_of_N=as_of_N,
        user_E=history.user_E[kept_E],
        happened_E=history.happened_E[kept_E],
        visible_E=history.visible_E[kept_E],
        parts=tuple(
            (*_squeeze(track, bounds, seen_P, kept_E), group)
            for (track, bounds, group), seen_P in zip(parts, seen_parts, strict=True)
        ),
        max_events=spec.max_events,
    )
    return window, kept_E


def _reachable(track: Track, bounds: Bounds) -> np.ndarray:
    """Whether each event of a track lies between the bounds of any impression, bool [P]."""
    size = len(track.position_E) + 1
    some = bounds.low_N < bounds.stop_N
    opened = np.bincount(bounds.low_N[some], minlength=size) - np.bincount(bounds.stop_N[some], minlength=size)
    return np.cumsum(opened)[:-1] > 0


def _squeeze(track: Track, bounds: Bounds, seen_P: np.ndarray, kept_E: Longs) -> tuple[Track, Bounds]:
    """The same track and bounds without the events that no bounds enclose."""
    rank_P1 = np.concatenate([[0], np.cumsum(seen_P)])
    smaller = Track(
        position_E=np.searchsorted(kept_E, track.position_E[seen_P]),
        happened_E=track.happened_E[seen_P],
        visible_E=track.visible_E[seen_P],
        settled_E=track.settled_E[seen_P],
    )
    moved = Bounds(low_N=rank_P1[bounds.low_N], sure_N=rank_P1[bounds.sure_N], stop_N=rank_P1[bounds.stop_N])
    return smaller, moved


def _newest(track: Track, bounds: Bounds, group: EventGroup, rows: Longs, as_of_B: Longs) -> tuple[Longs, Longs]:
    """The newest visible events of a group for some impressions: positions in the history, and events a row."""
    low_B, sure_B, stop_B = bounds.low_N[rows], bounds.sure_N[rows], bounds.stop_N[rows]
    unsure = np.flatnonzero(sure_B < stop_B)
    if not len(unsure):
        return track.position_E[ranges(low_B, stop_B)], stop_B - low_B
    begin_B = low_B.copy()
    begin_B[unsure] = _far_enough_back(track, low_B[unsure], stop_B[unsure], as_of_B[unsure], group.max_events)
    parts: list[Longs] = []
    length_B = np.zeros(len(rows), dtype=np.int64)
    for block in _blocks(stop_B - begin_B):
        place = ranges(begin_B[block], stop_B[block])
        row = np.repeat(block, stop_B[block] - begin_B[block])
        seen = track.visible_E[place] <= as_of_B[row]
        count = np.bincount(row[seen] - block[0], minlength=len(block))
        kept, length_B[block] = _keep_newest(place[seen], count, group.max_events)
        parts.append(track.position_E[kept])
    return np.concatenate(parts), length_B


def _far_enough_back(track: Track, low_R: Longs, stop_R: Longs, as_of_R: Longs, wanted: int) -> Longs:
    """How far back to look for `wanted` visible events when some have not arrived: steps double until it is enough.

    So the work is at most twice the events between the impression and the oldest one it sees, whatever the
    length of the history and the number of users with late events.
    """
    begin_R = low_R.copy()
    pending, width = np.arange(len(low_R)), 2 * wanted
    while len(pending):
        first = np.maximum(low_R[pending], stop_R[pending] - width)
        seen = np.empty(len(pending), dtype=np.int64)
        for block in _blocks(stop_R[pending] - first):
            own = pending[block]
            row = np.repeat(np.arange(len(block)), stop_R[own] - first[block])
            visible = track.visible_E[ranges(first[block], stop_R[own])] <= as_of_R[own][row]
            seen[block] = np.bincount(row[visible], minlength=len(block))
        begin_R[pending] = first
        pending = pending[(seen < wanted) & (first > low_R[pending])]
        width *= 2
    return begin_R


def _blocks(size_R: Longs) -> list[Longs]:
    """Cut rows into runs of about BLOCK_EVENTS elements; a larger row is a run of its own."""
    run_R = (np.cumsum(size_R) - size_R) // BLOCK_EVENTS
    return np.split(np.arange(len(size_R)), np.flatnonzero(np.diff(run_R)) + 1) if len(size_R) else []


def _keep_newest(index_T: Longs, length_B: Longs, max_events: int) -> tuple[Longs, Longs]:
    """Keep the last `max_events` elements of each row."""
    kept_B = np.minimum(length_B, max_events)
    end_B = np.cumsum(length_B)
    return index_T[ranges(end_B - kept_B, end_B)], kept_B
