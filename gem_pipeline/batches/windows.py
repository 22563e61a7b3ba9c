"""What a model sees of a user's history: declared selections over the one event table.

A selection is part of the model's configuration, not of the data: the same `user_events` serve a student
of 16 events and a foundation model of 16 384 (versioned late materialisation, arXiv 2604.24806).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class EventGroup:
    """Events that belong together; each impression sees the newest of them.

    Attributes:
        max_events: events of the group an impression sees, the newest ones.
        kinds: an event belongs if it carries at least one of them; empty: any.
        sources: streams it may come from; empty: any.
        surfaces: surfaces it may have happened on; empty: any.
        max_age_s: seconds before the impression at which the oldest event may have happened; None: any age.
    """

    max_events: int
    kinds: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ()
    max_age_s: int | None = None

    def __post_init__(self) -> None:
        _check_limits("EventGroup", self.max_events, self.max_age_s)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `user_events` that decide whether an event belongs."""
        declared = (("actions", self.kinds), ("source", self.sources), ("surface", self.surfaces))
        return tuple(column for column, names in declared if names)

    def members(self, events: pa.Table, kinds: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Whether each event belongs, bool [E].

        Args:
            events: rows of `user_events` with at least `columns`.
            kinds: the contract's kinds; the position of a kind is its bit in `actions`.
        """
        belongs_E = np.ones(events.num_rows, dtype=np.bool_)
        if self.kinds:
            bits = sum(1 << kinds.index(kind) for kind in self.kinds)
            belongs_E &= (events["actions"].to_numpy() & bits) != 0
        for column, names in (("source", self.sources), ("surface", self.surfaces)):
            if names:
                named = pc.is_in(events[column], value_set=pa.array(names, pa.string()))
                belongs_E &= named.to_numpy()
        return belongs_E


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowSpec:
    """The history of one model.

    Without groups: the newest `max_events` events. With groups: the union of their newest events, each event
    once, in time order, of which the newest `max_events` remain.

    Attributes:
        max_events: events an impression sees, the newest ones.
        max_age_s: seconds before the impression at which the oldest event may have happened; None: any age.
            It bounds which date partitions are read.
        groups: event groups; empty: one group of all events.
        inputs: event inputs that the model reads, by their names in `InputLayout` (`event_ids` and
            `event_dense`); empty: all. Columns that no input needs are not read.
        vectors: events bring the vectors of the ads that they are about, as of the event.
    """

    max_events: int
    max_age_s: int | None = None
    groups: tuple[EventGroup, ...] = ()
    inputs: tuple[str, ...] = ()
    vectors: bool = False

    def __post_init__(self) -> None:
        _check_limits("WindowSpec", self.max_events, self.max_age_s)

    @property
    def selections(self) -> tuple[EventGroup, ...]:
        """The groups with the limits of the whole window applied; one group of all events where none is declared."""
        declared = self.groups or (EventGroup(max_events=self.max_events),)
        return tuple(
            EventGroup(
                max_events=min(group.max_events, self.max_events), kinds=group.kinds, sources=group.sources,
                surfaces=group.surfaces, max_age_s=_smaller(group.max_age_s, self.max_age_s),
            )
            for group in declared
        )  # fmt: skip

    @property
    def look_back_s(self) -> int | None:
        """Age in seconds beyond which no event is ever seen; None: any age may be seen."""
        ages = [group.max_age_s for group in self.selections]
        return None if None in ages else max(age for age in ages if age is not None)

    def check(self, contract: DataContract) -> None:
        """Refuse names that the contract does not declare.

        Raises:
            ConfigError: a group names an unknown kind, source or surface.
        """
        known = {
            "kinds": contract.sequence.kinds, "sources": contract.sequence.sources, "surfaces": contract.surfaces
        }  # fmt: skip
        for group in self.groups:
            for field, names in known.items():
                if strangers := sorted(set(getattr(group, field)) - set(names)):
                    raise ConfigError(
                        f"An event group names the {field} {strangers} that the contract does not declare.",
                        remedy=f"Choose from {', '.join(names)}.",
                    )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_dict` reverses it."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> WindowSpec:
        """Rebuild a specification from `to_dict`, also after a trip through JSON."""
        names = ("kinds", "sources", "surfaces")
        groups = (g | {name: tuple(g[name]) for name in names} for g in document["groups"])
        return WindowSpec(
            max_events=document["max_events"],
            max_age_s=document["max_age_s"],
            groups=tuple(EventGroup(**group) for group in groups),
            inputs=tuple(document["inputs"]),
            vectors=document.get("vectors", False),  # windows from before had none
        )


def _check_limits(where: str, max_events: int, max_age_s: int | None) -> None:
    if max_events < 1:
        raise ConfigError(f"{where}: max_events is {max_events}.", remedy="Let a window hold at least one event.")
    if max_age_s is not None and max_age_s < 1:
        raise ConfigError(f"{where}: max_age_s is {max_age_s}.", remedy="Give an age of at least a second, or none.")


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((age for age in (first, second) if age is not None), default=None)
