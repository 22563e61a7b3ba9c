"""What a log source offers to the landing step, whatever its files look like."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class LogCalendar(Protocol):
    """Which days a log has."""

    @property
    def name(self) -> str:
        """Name of the source, for people and fingerprints."""
        ...

    def days(self) -> tuple[str, ...]:
        """Dates (yyyy-mm-dd) present, oldest first."""
        ...

    def has_impressions(self, date: str) -> bool:
        """Whether a day has impressions; it is history only where not."""
        ...

    def fingerprint(self, date: str) -> str:
        """Identity of the source's content for a day; it changes whenever the content may have changed."""
        ...


class LogSource(LogCalendar, Protocol):
    """A log that can be landed day by day as bronze tables of a contract, without Spark."""

    def impressions(self, date: str) -> pa.Table:
        """Impressions of a day."""
        ...

    def engagements(self, date: str) -> pa.Table:
        """Events of a day, organic and ad."""
        ...

    def users(self) -> pa.Table:
        """The user dimension."""
        ...

    def ads(self) -> pa.Table:
        """The ad dimension."""
        ...
