"""What a metric returns: a value with an interval, or the named reason why there is none (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricState(StrEnum):
    """Why a metric has no value, or why a cell is not judged; never a number in disguise."""

    OK = "ok"
    NO_ROWS = "no_rows"
    ONE_CLASS = "one_class"
    TOO_FEW = "too_few"
    NO_MIXED_USER = "no_mixed_user"  # no user has both classes: GAUC has nothing to rank
    NO_TEACHER_GAIN = "no_teacher_gain"  # the teacher does not clearly beat the student: no ratio to its gain
    PARTLY_SCORED = "partly_scored"  # a model skipped rows of the cell: it is not comparable there
    NOT_REACHED = "not_reached"  # no amount of compute that was tried reaches what is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A value and its interval; `low <= value <= high` always holds."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain JSON-ready form."""
        return {"value": self.value, "low": self.low, "high": self.high}


def metric_to_json(metric: Estimate | float | MetricState) -> dict[str, float] | float | dict[str, str]:
    """Estimate to a dictionary, number to itself, missing value to `{"state": reason}`."""
    if isinstance(metric, MetricState):
        return {"state": metric.value}
    return metric.to_dict() if isinstance(metric, Estimate) else float(metric)
