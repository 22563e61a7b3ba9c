"""Point-in-time counters: which events are counted by which keys, over which window, and up to when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from gem_pipeline.contracts.parts import Name, Part


class Counter(Part):
    """Point-in-time counts of events by some keys, over a window of days.

    Attributes:
        keys: `user`, `ad`, `surface` or the name of an event attribute; empty: over everything.
        source: the event source that is counted.
        kinds: kinds counted beside the number of events.
        lag: `day`: what was visible when the day opened; `none`: also what became visible since then, up to
            each impression.
        window_days: days that the count looks back; None: the window of all counters.
    """

    name: Name
    keys: tuple[Name, ...]
    source: Name
    kinds: tuple[Name, ...]
    lag: Literal["day", "none"] = "day"
    window_days: int | None = Field(default=None, ge=1)


class Counters(Part):
    """All counters, and the window in days of those that declare none."""

    window_days: int = Field(ge=1)
    groups: tuple[Counter, ...] = ()

    def window_of(self, counter: Counter) -> int:
        """Days that a counter looks back."""
        return counter.window_days or self.window_days

    @property
    def longest_window_days(self) -> int:
        """Days that the counter with the longest window looks back."""
        return max((self.window_of(counter) for counter in self.groups), default=self.window_days)

    @property
    def see_open_day(self) -> bool:
        """Whether a counter sees events that became visible after its day opened."""
        return any(counter.lag == "none" for counter in self.groups)

    @property
    def series(self) -> tuple[Counter, ...]:
        """What is stored by day: counters of the same keys and source are one, under the name of the first.

        Its kinds are those of all of them; windows and lags are matters of adding up.
        """
        same: dict[tuple[tuple[Name, ...], Name], list[Counter]] = {}
        for counter in self.groups:
            same.setdefault((counter.keys, counter.source), []).append(counter)
        return tuple(
            found[0].model_copy(update={"kinds": tuple(dict.fromkeys(kind for c in found for kind in c.kinds))})
            for found in same.values()
        )

    def stored_as(self, counter: Counter) -> Name:
        """Name under which the daily increments of a counter are stored."""
        return next(c.name for c in self.groups if (c.keys, c.source) == (counter.keys, counter.source))

    def prior_of(self, counter: Counter) -> Counter | None:
        """The counter without keys whose rates those of a counter are smoothed towards.

        Of those of the same source that count its kinds: the one of the same lag and window; without it a
        day-lagged one of the same window, a day-lagged one, any, in this order. A prior that lags by a day
        is as good for a strictly-before counter (a rate over everything hardly moves within a day) and cheaper.
        """
        fitting = [
            c for c in self.groups if not c.keys and c.source == counter.source and set(counter.kinds) <= set(c.kinds)
        ]

        def distance(other: Counter) -> tuple[bool, bool, bool]:
            same_window = self.window_of(other) == self.window_of(counter)
            return not (same_window and other.lag == counter.lag), other.lag != "day", not same_window

        return min(fitting, key=distance, default=None)


def counter_faults(
    counters: Counters, *, attributes: Sequence[str], kinds: Sequence[str], sources: Sequence[str]
) -> Iterator[str]:
    """Rules that tie counters to the event sequence.

    Args:
        counters: what is checked.
        attributes: names of the event attributes.
        kinds: kinds of events.
        sources: sources of events.

    Yields:
        What is wrong, in words.
    """
    known = {"user", "ad", "surface", *attributes}
    counted: dict[tuple[object, ...], str] = {}
    for counter in counters.groups:
        who = f"counter {counter.name}"
        if strangers := set(counter.keys) - known:
            yield f"{who}: unknown keys {sorted(strangers)}"
        if len(set(counter.keys)) < len(counter.keys):
            yield f"{who}: a key is named twice"
        if strangers := set(counter.kinds) - set(kinds):
            yield f"{who}: unknown kinds {sorted(strangers)}"
        if counter.source not in sources:
            yield f"{who}: unknown source {counter.source}"
        if counters.prior_of(counter) is None:
            yield (
                f"{who}: source {counter.source} needs a counter without keys "
                "that counts the same kinds, as the prior of its rates"
            )
        meaning = (frozenset(counter.keys), counter.source, counter.lag, counters.window_of(counter))
        if (first := counted.setdefault(meaning, counter.name)) != counter.name:
            yield f"{who}: counts what {first} counts; name all kinds in one of them"
