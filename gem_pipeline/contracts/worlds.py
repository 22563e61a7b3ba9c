"""The choice of a simulated world in the contract, and the faults that are put into its log on purpose."""

from __future__ import annotations

from pydantic import Field

from gem_pipeline.contracts.parts import Day, Name, Part


class Faults(Part):
    """Faults put into the log of a simulated world on purpose; none by default.

    Attributes:
        duplicates: share of engagement rows that are delivered twice.
        late: share of engagement rows that are delivered with the next day's partition, a day after they happened.
        nulls: share of engagement rows that lose their user, content or time.
        reordered: rows are written in an order that has nothing to do with time or user.
        drift_from: from this day on engagements carry one more column and no longer `scroll_depth`.
        corrupt_days: days whose engagements name surfaces that do not exist.
    """

    duplicates: float = Field(default=0.0, ge=0, le=0.5)
    late: float = Field(default=0.0, ge=0, le=0.5)
    nulls: float = Field(default=0.0, ge=0, le=0.5)
    reordered: bool = False
    drift_from: Day | None = None
    corrupt_days: tuple[Day, ...] = ()


class WorldChoice(Part):
    """A simulated world with known truth, generated between the contract's first and last day.

    Attributes:
        name: one of the worlds of docs/worlds.md.
        events: wanted over all days, organic and ads; the users follow from it.
        history_days: first days, with organic events only.
        events_a_day: mean events of a user and day.
        seed: another seed makes another population of the same world.
    """

    name: Name
    events: int = Field(ge=10_000, le=10**10)
    history_days: int = Field(default=7, ge=0)
    events_a_day: float = Field(default=20.0, ge=1, le=500)
    seed: int = Field(default=0, ge=0)
    faults: Faults = Faults()
