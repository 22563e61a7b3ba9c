"""Windows into the event history, found just in time: the newest N events visible at each as-of time.

An event is visible to an impression when `event_ts < impression_ts` and `ingest_ts <= impression_ts +
allowance`. Both rules become one number, the first microsecond at which the event is visible:
`max(event_ts + 1, ingest_ts - allowance)`; the event is visible when that is at most `impression_ts`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gem_pipeline.errors import LeakageError

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Events of N impressions: `index_T` are event rows, oldest first, `length_N` events an impression."""

    index_T: Longs
    length_N: Longs


class History:
    """The events of some users, in time order, searchable by (user, as-of time).

    Args:
        events: rows of `user_events` in any order, with user_id, event_ts, ingest_ts and event_key.
        allowance_s: the contract's allowance in seconds.
    """

    def __init__(self, events: pa.Table, *, allowance_s: int) -> None:
        user = _longs(events, "user_id")
        happened, arrived = _longs(events, "event_ts"), _longs(events, "ingest_ts")
        order = np.lexsort((_longs(events, "event_key"), arrived, happened, user))
        self.events = events.take(pa.array(order))
        self._user_E, self._happened_E = user[order], happened[order]
        self._visible_E = np.maximum(happened + 1, arrived - allowance_s * 1_000_000)[order]
        new_user = np.flatnonzero(np.diff(self._user_E, prepend=self._user_E[:1] - 1)) if len(order) else order
        self._users = self._user_E[new_user]
        self._first = np.append(new_user, len(order))
        self._late_users = _users_with_late_events(self._user_E, self._visible_E)

    def window(self, user_N: Longs, as_of_N: Longs, *, max_events: int) -> Window:
        """The newest `max_events` events visible to each impression.

        Args:
            user_N: users, shape [N].
            as_of_N: impression times in microseconds since the epoch (UTC), shape [N].
            max_events: events kept an impression, at least 0.

        Raises:
            LeakageError: an event in a window did not precede its impression (a bug; checked on every call).
        """
        slot_N = np.searchsorted(self._users, user_N)
        known_N = (slot_N < len(self._users)) & (
            self._users[np.minimum(slot_N, len(self._users) - 1)] == user_N if len(self._users) else False
        )
        start_N = np.where(known_N, self._first[np.where(known_N, slot_N, 0)], 0)
        end_N = np.where(known_N, self._first[np.where(known_N, slot_N + 1, 0)], 0)
        stop_N = self._visible_until(start_N, end_N, as_of_N)
        begin_N = np.maximum(start_N, stop_N - max_events)
        pieces = Window(index_T=_ranges(begin_N, stop_N), length_N=stop_N - begin_N)
        if len(self._late_users):
            late_N = known_N & np.isin(user_N, self._late_users)
            pieces = self._with_late(pieces, np.flatnonzero(late_N), start_N, end_N, as_of_N, max_events)
        self._assert_visible(pieces, user_N, as_of_N)
        return pieces

    def _visible_until(self, start_N: Longs, end_N: Longs, as_of_N: Longs) -> Longs:
        """Binary search in each user's rows at once: rows before the result are visible."""
        low_N, high_N = start_N.copy(), end_N.copy()
        while (active := low_N < high_N).any():
            middle_N = (low_N + high_N) // 2
            visible_N = active & (self._visible_E[np.where(active, middle_N, 0)] <= as_of_N)
            low_N = np.where(visible_N, middle_N + 1, low_N)
            high_N = np.where(active & ~visible_N, middle_N, high_N)
        return low_N

    def _with_late(
        self, window: Window, rows: Longs, start_N: Longs, end_N: Longs, as_of_N: Longs, max_events: int
    ) -> Window:
        """Redo the rows of users who have events that arrived out of order: the visible ones are no prefix."""
        parts = np.split(window.index_T, np.cumsum(window.length_N)[:-1])
        length_N = window.length_N.copy()
        for row in rows.tolist():
            visible = np.flatnonzero(self._visible_E[start_N[row] : end_N[row]] <= as_of_N[row])
            parts[row] = start_N[row] + visible[max(0, len(visible) - max_events) :]
            length_N[row] = len(parts[row])
        return Window(index_T=np.concatenate(parts).astype(np.int64), length_N=length_N)

    def _assert_visible(self, window: Window, user_N: Longs, as_of_N: Longs) -> None:
        as_of_T = np.repeat(as_of_N, window.length_N)
        wrong_T = (self._happened_E[window.index_T] >= as_of_T) | (self._visible_E[window.index_T] > as_of_T)
        wrong_T |= self._user_E[window.index_T] != np.repeat(user_N, window.length_N)
        if leaked := int(wrong_T.sum()):
            raise LeakageError(
                f"Table user_events: {leaked} event(s) would be visible to impressions they did not precede.",
                remedy="Report this: the window search is wrong; nothing was trained on.",
            )


def _longs(table: pa.Table, column: str) -> Longs:
    values = table[column]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return values.to_numpy().astype(np.int64)


def _users_with_late_events(user_E: Longs, visible_E: Longs) -> Longs:
    """Users for whom a later event became visible before an earlier one."""
    inverted = (np.diff(visible_E) < 0) & (np.diff(user_E) == 0)
    return np.unique(user_E[1:][inverted])


def _ranges(begin_N: Longs, stop_N: Longs) -> Longs:
    """Concatenate the integer ranges [begin, stop)."""
    length_N = stop_N - begin_N
    offset_N = np.cumsum(length_N) - length_N
    return np.repeat(begin_N - offset_N, length_N) + np.arange(int(length_N.sum()), dtype=np.int64)
