"""Naive twins of the window search: every rule of visibility and selection as a Python condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gem_pipeline.batches.windows import EventGroup, WindowSpec


class Event(NamedTuple):
    """An event; times in microseconds."""

    user: int
    happened: int
    arrived: int
    key: int
    kinds: frozenset[str] = frozenset()
    source: str = ""
    surface: str = ""


def visible(events: Sequence[Event], *, user: int, as_of: int, allowance: int) -> list[Event]:
    """Events that a user's impression may see, oldest first."""
    seen = [e for e in events if e.user == user and e.happened < as_of and e.arrived <= as_of + allowance]
    return sorted(seen, key=lambda e: (e.happened, e.arrived, e.key))


def visible_window(events: Sequence[Event], *, user: int, as_of: int, allowance: int, max_events: int) -> list[int]:
    """Keys of the newest visible events, oldest first."""
    seen = visible(events, user=user, as_of=as_of, allowance=allowance)
    return [e.key for e in seen][max(0, len(seen) - max_events) :]


def belongs(event: Event, group: EventGroup, *, as_of: int) -> bool:
    """Whether a group holds an event."""
    return (
        (not group.kinds or bool(event.kinds & set(group.kinds)))
        and (not group.sources or event.source in group.sources)
        and (not group.surfaces or event.surface in group.surfaces)
        and (group.max_age_s is None or as_of - event.happened <= group.max_age_s * 1_000_000)
    )


def selected_window(events: Sequence[Event], spec: WindowSpec, *, user: int, as_of: int, allowance: int) -> list[int]:
    """Keys of the events of a specified window, oldest first."""
    seen = visible(events, user=user, as_of=as_of, allowance=allowance)
    young = [e for e in seen if spec.max_age_s is None or as_of - e.happened <= spec.max_age_s * 1_000_000]
    chosen: set[int] = set()
    for group in spec.groups or (EventGroup(max_events=spec.max_events),):
        chosen |= {e.key for e in [e for e in young if belongs(e, group, as_of=as_of)][-group.max_events :]}
    return [e.key for e in young if e.key in chosen][-spec.max_events :]
