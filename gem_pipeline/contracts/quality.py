"""What the contract says of bad rows: how many a date may leave out, and what becomes of unknown ads and users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gem_pipeline.contracts.parts import Part

QUARANTINED = ("user_events", "examples", "ad_vectors", "user_vectors", "attributed_conversions")  # leave rows out

Share = Annotated[float, Field(ge=0, le=1)]
Unknown = Literal["keep", "quarantine"]


class QualityRule(Part):
    """Thresholds of the gate, and the fate of rows that name an ad or a user without a row of attributes.

    Attributes:
        max_quarantined_share: share of a date's source rows that may be left out for a fault, by table or for all;
            above it the date fails its gate. Rows left out by the user's choice (opted out) and conversions
            without an impression are no fault and do not count.
        unknown_ads: `keep` a row whose ad has no attributes in force (they are null), or `quarantine` it.
        unknown_users: the same of its user.
    """

    max_quarantined_share: Share | dict[str, Share] = 1.0
    unknown_ads: Unknown = "keep"
    unknown_users: Unknown = "keep"

    @model_validator(mode="after")
    def _tables_are_known(self) -> QualityRule:
        named = self.max_quarantined_share if isinstance(self.max_quarantined_share, dict) else {}
        if strangers := set(named) - set(QUARANTINED):
            raise ValueError(
                f"max_quarantined_share: unknown tables {sorted(strangers)}; choose among {list(QUARANTINED)}"
            )
        return self

    def share_of(self, table: str) -> float:
        """The limit of a table; 1: no limit."""
        limit = self.max_quarantined_share
        return limit.get(table, 1.0) if isinstance(limit, dict) else limit
