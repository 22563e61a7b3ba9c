"""Small worlds for tests: the packaged contract with other numbers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import yaml

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.worlds.template import world_contract as packaged

FIRST_DAY = "2026-01-01"


def world_contract(
    name: str = "everyday", *, events: int = 20_000, days: int = 5, history_days: int = 2, **choice: Any
) -> DataContract:
    """The contract of a world over `days` days, the first `history_days` of which are history."""
    document = yaml.safe_load(packaged(name, events=events))
    document["world"] |= {"history_days": history_days, **choice}
    document["partition"] |= {
        "first_day": FIRST_DAY,
        "last_day": str(date.fromisoformat(FIRST_DAY) + timedelta(days=days - 1)),
    }
    return DataContract.model_validate(document)
