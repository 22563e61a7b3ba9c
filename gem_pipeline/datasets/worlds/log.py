"""The log of a world as the contract chooses it: its days, its scale, and what makes a day's content differ."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.worlds import WorldChoice
from gem_pipeline.datasets.worlds.catalog import world_named
from gem_pipeline.datasets.worlds.population import all_days, day_index, scale_for
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.errors import ConfigError

CONTENT_VERSION = 1  # raise it when the same numbers make other rows


@dataclass(frozen=True, kw_only=True)
class WorldLog:
    """A world between the first and the last day of a contract.

    Attributes:
        name: of the source.
        choice: what the contract says.
        world: the world of that name.
        scale: users, days and seed.
    """

    name: str
    choice: WorldChoice
    world: World
    scale: Scale

    @classmethod
    def of(cls, contract: DataContract) -> WorldLog:
        """The world that a contract chooses.

        Raises:
            ConfigError: there is no such world, the contract's surfaces are not the world's, or the numbers
                leave too few users.
        """
        choice = contract.world
        assert choice is not None, "checked when the contract was loaded"
        world = world_named(choice.name)
        if unknown := set(contract.surfaces) ^ set(world.surface_names()):
            raise ConfigError(
                f"World {world.name} and the contract differ in surface(s) {', '.join(sorted(unknown))}.",
                remedy=f"Let the contract name {', '.join(world.surface_names())}.",
            )
        scale = scale_for(
            world, choice.events, first_day=contract.partition.first_day, history_days=choice.history_days,
            days=contract.partition.days - choice.history_days, events_a_day=choice.events_a_day, seed=choice.seed,
        )  # fmt: skip
        return cls(name=f"world:{world.name}", choice=choice, world=world, scale=scale)

    def days(self) -> tuple[str, ...]:
        """Every day of the contract."""
        return all_days(self.scale)

    def has_impressions(self, date: str) -> bool:
        """Whether the day is past the history."""
        return day_index(self.scale, date) >= 0

    def fingerprint(self, date: str) -> str:
        """World, scale, faults and day decide the content."""
        parts = (CONTENT_VERSION, self.world, self.scale, self.choice.faults.model_dump(), date)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def truth_fingerprint(self) -> str:
        """What decides the impressions of all days: faults are not part of the truth."""
        return hashlib.sha256(repr((CONTENT_VERSION, self.world, self.scale)).encode()).hexdigest()[:16]
