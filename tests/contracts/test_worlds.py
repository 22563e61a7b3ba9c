"""A contract with a world needs its days; a contract without one has none."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gem_pipeline.contracts.contract import DataContract
from tests.world_factory import world_contract


def changed(**parts):
    document = world_contract().model_dump(mode="json")
    for name, value in parts.items():
        document[name] = document[name] | value if isinstance(value, dict) else value
    return DataContract.model_validate(document)


def test_faults_are_none_by_default():
    assert not any(world_contract().world.faults.model_dump().values())


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({"source": "tables"}, "`world` belongs to source world"),
        ({"world": None}, "`world` belongs to source world"),
        ({"partition": {"last_day": None}}, "needs partition.last_day"),
        ({"partition": {"last_day": "2025-12-31"}}, "lies before first_day"),
        ({"partition": {"first_day": "2026-02-30"}}, "day is out of range"),
        ({"world": {"history_days": 99}}, "leaves no day with impressions"),
    ],
)
def test_a_broken_rule_is_named(parts, rule):
    with pytest.raises(ValidationError, match=rule):
        changed(**parts)
