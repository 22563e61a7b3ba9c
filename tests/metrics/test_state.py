"""The JSON form of a metric."""

from __future__ import annotations

from gem_pipeline.metrics.state import Estimate, MetricState, metric_to_json


def test_values_states_and_numbers_are_told_apart_in_json() -> None:
    assert metric_to_json(Estimate(value=0.9, low=0.8, high=1.0)) == {"value": 0.9, "low": 0.8, "high": 1.0}
    assert metric_to_json(MetricState.ONE_CLASS) == {"state": "one_class"}
    assert metric_to_json(0.25) == 0.25
