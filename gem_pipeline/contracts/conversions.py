"""Objectives, and the rules of delayed conversions: windows, attribution, and when a label is mature."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from pydantic import Field, model_validator

from gem_pipeline.contracts.parts import Name, Part, TableRef

MATCH_AD = "ad"  # value of `attribution.match`: a conversion is credited to an impression of the same ad


def days_before(day: str, days: int) -> str:
    """The date so many days earlier."""
    return str(date.fromisoformat(day) - timedelta(days=days))


class ConversionsTable(TableRef):
    """One row a conversion, in the date partition on which it arrived; columns by role.

    Attributes:
        max_delay_days: days after it happened within which a conversion must arrive to be credited; None: those of
            `visibility`.
    """

    key: str
    user: str
    ad: str
    type: str
    value: str | None = None
    event_ts: str
    ingest_ts: str | None = None  # None: ingested when it happened
    max_delay_days: int | None = Field(default=None, ge=1, le=90)


class Objective(Part):
    """A label: a 0/1 column of the impressions table, or a type of conversion that follows within a window.

    Attributes:
        column: of the impressions table.
        conversion: type of the conversions table.
        click_window_days: days after a clicked impression within which a conversion is credited to it.
        view_window_days: the same after an impression without a click; 0: never.
        surfaces: that optimise it; empty: all.
    """

    name: Name
    column: str | None = None
    conversion: Name | None = None
    click_window_days: int | None = Field(default=None, ge=1, le=90)
    view_window_days: int = Field(default=0, ge=0, le=90)
    surfaces: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _column_or_conversion(self) -> Objective:
        if (self.column is None) == (self.conversion is None):
            raise ValueError(f"objective {self.name}: name either a column or a conversion")
        if self.conversion is None and (self.click_window_days is not None or self.view_window_days):
            raise ValueError(f"objective {self.name}: attribution windows belong to conversions, not to a column")
        if self.conversion is not None and self.click_window_days is None:
            raise ValueError(f"objective {self.name}: a conversion needs click_window_days of at least 1")
        return self

    @property
    def window_days(self) -> int:
        """Days after which a label is final: the longer window of a conversion, 0 for a column."""
        return max(self.click_window_days or 0, self.view_window_days)

    def is_mature(self, impression_date: str, as_of: str) -> bool:
        """Whether the labels of a date partition are final once the partition `as_of` has arrived in full."""
        return impression_date <= days_before(as_of, self.window_days)


class Attribution(Part):
    """How conversions are credited to impressions: the last touch within the window of each objective.

    Attributes:
        click_objective: objective whose column says that an impression was clicked.
        match: what a conversion and its impression share beside the user: `ad`, or a sequence attribute.
    """

    click_objective: Name
    match: Name = MATCH_AD


def conversion_faults(
    objectives: Sequence[Objective], attribution: Attribution | None, table: ConversionsTable | None,
    attributes: Sequence[str],
) -> list[str]:  # fmt: skip
    """What is wrong between the conversion objectives, the attribution and the conversions table."""
    named = [o.name for o in objectives if o.conversion is not None]
    columns = [o.name for o in objectives if o.column is not None]
    faults = []
    if named and table is None:
        faults.append(f"objectives {named} are conversions, so tables.conversions is needed")
    if named and attribution is None:
        faults.append(f"objectives {named} are conversions, so attribution is needed")
    if not named and (table is not None or attribution is not None):
        faults.append("no objective is a conversion, so leave out tables.conversions and attribution")
    if attribution is None:
        return faults
    if attribution.click_objective not in columns:
        faults.append(f"attribution.click_objective: {attribution.click_objective} is no objective with a column")
    if attribution.match not in (MATCH_AD, *attributes):
        faults.append(f"attribution.match: {attribution.match} is neither ad nor a sequence attribute")
    return faults
