"""The events of some users in time order, and where each impression's window lies in them.

An event is visible to an impression when `event_ts < impression_ts` and `ingest_ts <= impression_ts +
allowance`. Both rules become one number, the first microsecond at which the event is visible:
`max(event_ts + 1, ingest_ts - allowance)`; the event is visible when that is at most `impression_ts`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gem_pipeline.batches.windows import EventGroup

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Track:
    """The events of one group, in the order (user, time); positions count from 0 within the track.

    Attributes:
        position_E: place of each event in the history.
        happened_E: when it happened, microseconds.
        visible_E: the first microsecond at which it is visible.
        settled_E: the first microsecond at which it and every older event of its user are visible.
    """

    position_E: Longs
    happened_E: Longs
    visible_E: Longs
    settled_E: Longs


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where the windows of N impressions lie in a track.

    Rows `low ... sure - 1` are visible. Of `sure ... stop - 1` some have not arrived yet; `sure` equals `stop`
    unless the user has events that became visible after a later one did.
    """

    low_N: Longs
    sure_N: Longs
    stop_N: Longs


class History:
    """Events sorted by user, time of happening, time of arrival and key.

    Args:
        events: rows of `user_events` in any order, with user_id, event_ts, ingest_ts and event_key.
        allowance_s: the contract's allowance in seconds.
    """

    def __init__(self, events: pa.Table, *, allowance_s: int) -> None:
        user, happened, arrived = (longs(events, name) for name in ("user_id", "event_ts", "ingest_ts"))
        order = _time_order(user, happened, arrived, longs(events, "event_key"))
        self._events, self._order = events, order
        self.user_E, self.happened_E = user[order], happened[order]
        self.visible_E = np.maximum(happened + 1, arrived - allowance_s * 1_000_000)[order]
        new_user = np.flatnonzero(np.diff(self.user_E, prepend=self.user_E[:1] - 1)) if len(order) else order
        self._users = self.user_E[new_user]
        self._first = np.append(new_user, len(order))

    def rows(self, position_E: Longs) -> pa.Table:
        """Rows of `user_events` at some positions of the time order."""
        return self._events.take(pa.array(self._order[position_E]))

    def track(self, group: EventGroup, kinds: tuple[str, ...]) -> Track:
        """The events of a group; `kinds` are the contract's."""
        position_E = np.flatnonzero(group.members(self._events, kinds)[self._order])
        visible_E = self.visible_E[position_E]
        return Track(
            position_E=position_E,
            happened_E=self.happened_E[position_E],
            visible_E=visible_E,
            settled_E=_running_maximum(visible_E, self.user_E[position_E]),
        )

    def bounds(self, track: Track, group: EventGroup, user_N: Longs, as_of_N: Longs) -> Bounds:
        """Where the group's events of each user lie that are old enough and not too old.

        Args:
            track: the group's events.
            group: its age and number of events.
            user_N: users, shape [N]; unknown ones have no events.
            as_of_N: impression times in microseconds since the epoch (UTC), shape [N].
        """
        slot_N = np.searchsorted(self._users, user_N)
        known_N = np.append(self._users, 0)[slot_N] == user_N
        known_N &= slot_N < len(self._users)
        first = np.searchsorted(track.position_E, self._first)
        start_N = np.where(known_N, first[np.where(known_N, slot_N, 0)], 0)
        end_N = np.where(known_N, first[np.where(known_N, slot_N + 1, 0)], 0)
        stop_N = count_until(track.happened_E, start_N, end_N, as_of_N - 1)
        sure_N = count_until(track.settled_E, start_N, stop_N, as_of_N)
        low_N = np.maximum(start_N, sure_N - group.max_events)
        if group.max_age_s is not None:
            too_old_N = as_of_N - group.max_age_s * 1_000_000 - 1
            low_N = np.maximum(low_N, count_until(track.happened_E, start_N, stop_N, too_old_N))
        return Bounds(low_N=low_N, sure_N=np.maximum(sure_N, low_N), stop_N=stop_N)


def ranges(begin_N: Longs, stop_N: Longs) -> Longs:
    """Concatenate the integer ranges [begin, stop)."""
    length_N = stop_N - begin_N
    offset_N = np.cumsum(length_N) - length_N
    return np.repeat(begin_N - offset_N, length_N) + np.arange(int(length_N.sum()), dtype=np.int64)


def longs(table: pa.Table, column: str) -> Longs:
    """A column of ids or times as integers; times in microseconds since the epoch (UTC)."""
    values = table[column]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return values.to_numpy().astype(np.int64)


def _time_order(user: Longs, happened: Longs, arrived: Longs, key: Longs) -> Longs:
    """Order by user, time, arrival and key. Stored runs are sorted already, so only ties need the random keys."""
    order = np.lexsort((happened, user))
    same = (np.diff(user[order]) == 0) & (np.diff(happened[order]) == 0)
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        rows = order[tied]
        order[tied] = rows[np.lexsort((key[rows], arrived[rows], happened[rows], user[rows]))]
    return order


def _running_maximum(value_E: Longs, user_E: Longs) -> Longs:
    """Largest value among the elements of the same user up to each element; users stand together."""
    inverted = (np.diff(value_E) < 0) & (np.diff(user_E) == 0)
    if not inverted.any():
        return value_E
    order = np.argsort(value_E, kind="stable")
    rank_E = np.empty_like(order)
    rank_E[order] = np.arange(len(order))
    base_E = np.cumsum(np.diff(user_E, prepend=user_E[:1]) != 0) * len(order)  # every user above the one before
    return value_E[order][np.maximum.accumulate(base_E + rank_E) - base_E]


def count_until(value_E: Longs, start_N: Longs, end_N: Longs, limit_N: Longs) -> Longs:
    """Binary search in many ascending ranges at once: the first position in [start, end) whose value exceeds limit."""
    low_N, high_N = start_N.copy(), end_N.copy()
    while (active := low_N < high_N).any():
        middle_N = (low_N + high_N) // 2
        within_N = active & (value_E[np.where(active, middle_N, 0)] <= limit_N)
        low_N = np.where(within_N, middle_N + 1, low_N)
        high_N = np.where(active & ~within_N, middle_N, high_N)
    return low_N
