"""What each date partition of a silver table is derived from, found out without Spark."""

import hashlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.contracts.tables import Origin
from gem_pipeline.errors import PartitionError
from gem_pipeline.quality.gate import verify_gate
from resources.lake import DeltaLake
from spark.counters import OpenedDay

DERIVATION_VERSION = "4"  # raise it when the derivations give other rows for the same input


class SilverInputs:
    """Fingerprints of everything that a partition depends on; a snapshot of the bronze tables as they are now.

    Args:
        contract: the data contract.
        lake: bronze and silver tables.
        home: holds the gates of upstream tables.
    """

    def __init__(self, *, contract: DataContract, lake: DeltaLake, home: Path) -> None:
        self.contract, self.lake, self.home = contract, lake, home

    def _bronze(self, table: str) -> dict[str, tuple[str, int | None]]:
        ref = getattr(self.contract.tables, table)
        found = self.lake.bronze_partitions(ref, self.contract.partition.column, table)
        first = self.contract.partition.first_day
        return {date: files for date, files in found.items() if date >= first and files[1] != 0}

    @cached_property
    def impressions(self) -> dict[str, tuple[str, int | None]]:
        """Days that have impressions."""
        return self._bronze("impressions")

    @cached_property
    def engagements(self) -> dict[str, tuple[str, int | None]]:
        """Days that have engagements."""
        return self._bronze("engagements")

    @cached_property
    def conversions(self) -> dict[str, tuple[str, int | None]]:
        """Days on which conversions arrived; none where the contract has no such table."""
        return self._bronze("conversions") if self.contract.tables.conversions else {}

    def refresh(self) -> None:
        """Forget what was read of the tables."""
        for name in ("impressions", "engagements", "conversions", "examples_there"):
            self.__dict__.pop(name, None)

    def _fingerprint(self, *parts: object) -> str:
        known = (DERIVATION_VERSION, self.contract.content_hash, *parts)
        return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

    def _present(self, table: str, date: str, least: int) -> str:
        """Fingerprint of a bronze partition with at least so many rows."""
        fingerprint, num_rows = getattr(self, table).get(date, ("", 0))
        if not fingerprint or (num_rows is not None and num_rows < least):
            raise PartitionError(
                f"Table {table} has {num_rows} rows for date {date}; at least {least} are needed.",
                remedy="Land the date's rows first, or lower partition.min_impressions in the contract.",
            )
        return fingerprint

    def previous_day(self, date: str) -> str | None:
        """The newest earlier date with impressions."""
        return max((day for day in self.impressions if day < date), default=None)

    def counted_partitions(self, date: str) -> tuple[str, ...]:
        """Event partitions that `counter_increments` of a date may count."""
        previous = self.previous_day(date)
        first = "" if previous is None else days_before(previous, self.contract.visibility.max_delay_days)
        return tuple(sorted(day for day in self.engagements if first <= day < date))

    def open_partitions(self, date: str) -> tuple[str, ...]:
        """Event partitions that the examples of a date read for counters of lag `none`; none without such counters."""
        if not self.contract.counters.see_open_day:
            return ()
        first = days_before(date, self.contract.visibility.max_delay_days)
        return tuple(sorted(day for day in self.engagements if first <= day <= date))

    def days_of_copies(self, date: str) -> tuple[str, ...]:
        """Event partitions before a date whose rows the date may hold once more."""
        first = days_before(date, self.contract.tables.engagements.copies_within_days)
        return tuple(sorted(day for day in self.engagements if first <= day < date))

    def window_days(self, date: str) -> tuple[str, ...]:
        """Days whose counter increments the examples of a date sum up."""
        first = days_before(date, self.contract.counters.longest_window_days - 1)
        return tuple(sorted(day for day in self.impressions if first <= day <= date))

    def _contents(self, table: str, dates: Iterable[str]) -> list[tuple[str, str]]:
        """Content hashes of verified upstream partitions."""
        return [
            (date, verify_gate(self.home, self.lake.root, table, date, self.contract).content_hash) for date in dates
        ]

    def user_events(self, date: str) -> str:
        """Fingerprint of the inputs of a partition of `user_events`.

        Raises:
            PartitionError: the date has no engagements.
            DataSourceError: a bronze table does not exist.
        """
        ads = self.lake.bronze_fingerprint(self.contract.tables.ads, "ads")
        own = self._present("engagements", date, 1)
        before = [(day, self.engagements[day][0]) for day in self.days_of_copies(date)]
        return self._fingerprint("user_events", own, before, ads, self._states())

    def counter_increments(self, date: str) -> str:
        """Fingerprint of the inputs of a partition of `counter_increments`.

        Raises:
            PartitionError: the date has fewer impressions than the contract asks for.
            GateError: an event partition that it counts was not derived, or has changed since.
        """
        own = self._present("impressions", date, self.contract.partition.min_impressions)
        previous = self.previous_day(date)
        before = None if previous is None else (previous, self.impressions[previous][0])
        events = self._contents("user_events", self.counted_partitions(date))
        return self._fingerprint("counter_increments", date, own, before, events, self._states())

    def examples(self, date: str) -> str:
        """Fingerprint of the inputs of a partition of `examples`; raises as `counter_increments`."""
        own = self._present("impressions", date, self.contract.partition.min_impressions)
        ref = self.contract.tables
        dimensions = [self.lake.bronze_fingerprint(ref.users, "users"), self.lake.bronze_fingerprint(ref.ads, "ads")]
        increments = self._contents("counter_increments", self.window_days(date))
        events = self._contents("user_events", self.open_partitions(date))
        return self._fingerprint("examples", own, dimensions, increments, events)

    def vectors(self, origin: Origin) -> str:
        """Fingerprint of the dimension that a vector table is derived from.

        Raises:
            DataSourceError: the dimension does not exist.
        """
        return self._fingerprint("vectors", self.lake.bronze_fingerprint(getattr(self.contract.tables, origin), origin))

    def within_reach(self, dates: Iterable[str], days: Iterable[str]) -> tuple[str, ...]:
        """Those of some `days` from which a conversion may reach one of `dates`, or the other way round."""
        reach = self.contract.conversion_reach_days
        spans = [(days_before(date, reach), days_before(date, -reach)) for date in set(dates)]
        return tuple(sorted(day for day in set(days) if any(first <= day <= last for first, last in spans)))

    @cached_property
    def examples_there(self) -> tuple[str, ...]:
        """Dates whose examples were derived."""
        return tuple(self.lake.fingerprints("examples"))

    def attributed_conversions(self, date: str) -> str:
        """Fingerprint of the inputs of a partition of `attributed_conversions`.

        Raises:
            GateError: examples within reach have changed since they were validated.
            DataSourceError: the conversions or the ads do not exist.
        """
        arrivals = [(day, self.conversions[day][0]) for day in self.within_reach([date], self.conversions)]
        touches = self._contents("examples", self.within_reach([date], self.examples_there))
        ads = self.lake.bronze_fingerprint(self.contract.tables.ads, "ads")
        return self._fingerprint("attributed_conversions", date, arrivals, touches, ads, self._states())

    def _states(self) -> list[str]:
        """Fingerprints of the dimensions that say which facts are used at all."""
        ref, rule = self.contract.tables, self.contract.quality
        asked = {
            "users": ref.users.opt_out is not None or rule.unknown_users == "quarantine",
            "ads": rule.unknown_ads == "quarantine",
        }
        return [
            self.lake.bronze_fingerprint(getattr(ref, table), table) for table, is_asked in asked.items() if is_asked
        ]

    def opened_days(self, dates: tuple[str, ...], opens_us: dict[str, int]) -> tuple[OpenedDay, ...]:
        """Pair each date with the one before it.

        Args:
            dates: days to derive.
            opens_us: first impression of each of them and of the days before them, microseconds.

        Raises:
            PartitionError: a day has no valid impression, or opened before the day before it.
        """
        days = []
        for date in dates:
            previous = self.previous_day(date)
            if missing := [day for day in (previous, date) if day is not None and day not in opens_us]:
                raise PartitionError(
                    f"Table impressions has no valid row for date {missing[0]}.",
                    remedy="See the reasons in the quarantine of examples, and mend the source rows.",
                )
            if previous is not None and opens_us[previous] >= opens_us[date]:
                raise PartitionError(
                    f"Table impressions: date {date} does not begin after date {previous}, the date before it.",
                    remedy="Partition the impressions by a day column that follows their time.",
                )
            days.append(
                OpenedDay(
                    date=date, opens_us=opens_us[date], previous=previous,
                    previous_opens_us=None if previous is None else opens_us[previous],
                    first_partition=None if previous is None
                    else days_before(previous, self.contract.visibility.max_delay_days),
                )
            )  # fmt: skip
        return tuple(days)
