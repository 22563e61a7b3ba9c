"""What every part of the contract is made of: immutable, unknown keys refused, names in one form."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]  # a date partition, yyyy-mm-dd


class Part(BaseModel):
    """A part of the contract: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TableRef(Part):
    """Where a bronze table lies.

    Attributes:
        path: Spark path; a relative one is taken from the lake root.
        format: storage format.
    """

    path: str
    format: Literal["delta", "parquet"] = "delta"
