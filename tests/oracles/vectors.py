"""Naive twins of the vector table and its look-up: every rule as a Python condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Vector = Sequence[float] | None


def usable(vector: Sequence[float | None] | None, dim: int) -> bool:
    """Whether a vector has its dimension and finite numbers only."""
    return vector is not None and len(vector) == dim and all(x is not None and math.isfinite(x) for x in vector)


def in_force(rows: Sequence[dict[str, Any]], *, key: str, entity: int, time: Any, name: str, since: str) -> Vector:
    """The vector of the newest row of an entity that is valid at a time; None: there is none."""
    valid = [row for row in rows if row[key] == entity and row[since] is not None and row[since] <= time]
    return max(valid, key=lambda row: row[since])[name] if valid else None
