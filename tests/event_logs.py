"""Random event logs and window specifications for property tests, and their Arrow form."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

from gem_pipeline.batches.windows import EventGroup, WindowSpec
from tests.oracles.history import Event

SECOND = 1_000_000
KINDS, SOURCES, SURFACES = ("click", "like", "share"), ("feed", "import"), ("tab", "reel")
MOMENTS = st.integers(0, 30)  # seconds: few, so that times tie
DELAYS = st.one_of(st.just(0), st.integers(0, 12), st.just(1000))  # the last ones never arrive in time

_drawn = st.tuples(
    st.integers(0, 3), MOMENTS, DELAYS, st.sets(st.sampled_from(KINDS)), st.sampled_from(SOURCES),
    st.sampled_from(SURFACES),
)  # fmt: skip
ages = st.one_of(st.none(), st.integers(1, 20))


@st.composite
def event_logs(draw: st.DrawFn, max_size: int = 40) -> list[Event]:
    """Events of up to four users with ties, late arrivals and every kind, source and surface."""
    drawn = draw(st.lists(_drawn, max_size=max_size))
    return [
        Event(user, at * SECOND, (at + late) * SECOND, key, frozenset(kinds), source, surface)
        for key, (user, at, late, kinds, source, surface) in enumerate(drawn)
    ]


def _some(names: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(names), max_size=2).map(lambda chosen: tuple(sorted(chosen)))


groups = st.builds(
    EventGroup, max_events=st.integers(1, 5), kinds=_some(KINDS), sources=_some(SOURCES), surfaces=_some(SURFACES),
    max_age_s=ages,
)  # fmt: skip
window_specs = st.builds(
    WindowSpec, max_events=st.integers(1, 8), max_age_s=ages, groups=st.lists(groups, max_size=3).map(tuple)
)


def events_table(events: Sequence[Event]) -> pa.Table:
    """The columns of `user_events` that find windows and groups."""
    utc = pa.timestamp("us", tz="UTC")
    bits = [sum(1 << KINDS.index(kind) for kind in e.kinds) for e in events]
    return pa.table(
        {
            "user_id": pa.array([e.user for e in events], pa.int64()),
            "event_ts": pa.array([e.happened for e in events], pa.int64()).cast(utc),
            "ingest_ts": pa.array([e.arrived for e in events], pa.int64()).cast(utc),
            "event_key": pa.array([e.key for e in events], pa.int64()),
            "actions": pa.array(bits, pa.int32()),
            "source": pa.array([e.source for e in events], pa.string()),
            "surface": pa.array([e.surface for e in events], pa.string()),
        }
    )
