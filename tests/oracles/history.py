"""Naive twin of the window search: every rule of visibility as a Python condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Event(NamedTuple):
    """An event; times in microseconds."""

    user: int
    happened: int
    arrived: int
    key: int


def visible_window(events: Sequence[Event], *, user: int, as_of: int, allowance: int, max_events: int) -> list[int]:
    """Keys of the newest visible events, oldest first."""
    seen = [e for e in events if e.user == user and e.happened < as_of and e.arrived <= as_of + allowance]
    seen.sort(key=lambda e: (e.happened, e.arrived, e.key))
    return [e.key for e in seen][max(0, len(seen) - max_events) :]
