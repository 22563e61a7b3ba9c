"""A model is logged once, with its curves, the tables it read and its lineage."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from deltalake import DeltaTable

from gem_pipeline.quality.gate import marker_path, read_gate
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.tracking import CURVE_POINTS, table_inputs, track_model
from gem_pipeline.training.plan import GEM
from gem_pipeline.training.tracker import RunHeader, TrackedModel
from tests.lake_factory import DAYS, contract


@dataclass
class NotingTracker:
    """Keeps what it is told."""

    known: TrackedModel | None = None
    headers: list[RunHeader] = field(default_factory=list)
    metrics: list[tuple[dict[str, float], int]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    run_id: str = "run"

    def find(self, name, date, model_id):
        return self.known

    @contextmanager
    def start_run(self, header):
        self.headers.append(header)
        yield self

    def log_metrics(self, metrics, step=0):
        self.metrics.append((dict(metrics), step))

    def set_tags(self, tags):
        raise AssertionError("no tag is set late")

    def log_model(self, directory):
        self.models.append(directory.name)
        return 7


@pytest.fixture
def tracked(chain):
    """Track the foundation model of the second day."""

    def track(tracker, **options):
        context = DayContext(chain.plan(DAYS[1]), tracker=tracker)
        stored = chain.store.require(GEM, DAYS[1])
        return track_model(
            context, stored, metrics={"train_s": 2.0}, params={"size": "tiny"}, lineage={"a": "b"}, **options
        )

    return track


def test_a_model_is_one_run_with_its_lineage_and_one_version(chain, tracked):
    tracker = NotingTracker()
    report = tracked(tracker)
    (header,) = tracker.headers
    assert (header.name, header.date, header.model_id) == (GEM, DAYS[1], report.model_id)
    assert header.tags == {"contract": "kuairand", "contract_hash": contract().content_hash, "a": "b"}
    assert (report.mlflow_run_id, report.registered_version, report.seconds) == ("run", 7, 2.0)
    assert tracker.models == [report.model_id]


def test_the_tables_that_were_read_are_named_with_version_and_content(chain, tracked):
    tracker = NotingTracker()
    tracked(tracker)
    inputs = {table.name: table for table in tracker.headers[0].inputs}
    assert set(inputs) == {"user_events", "examples"}
    for name, table in inputs.items():
        assert table.version == DeltaTable(table.path).version()
        assert table.digest == read_gate(chain.home, name, DAYS[1]).content_hash


def test_a_table_without_gate_is_not_named(own):
    marker_path(own.home, "examples", DAYS[1]).unlink()
    assert [table.name for table in table_inputs(DayContext(own.plan(DAYS[1])))] == ["user_events"]


def test_a_model_that_is_registered_already_is_not_logged_again(tracked):
    tracker = NotingTracker(known=TrackedModel(run_id="old", registered_version=3))
    report = tracked(tracker)
    assert (report.mlflow_run_id, report.registered_version) == ("old", 3)
    assert tracker.headers == []


def test_a_run_that_was_never_registered_is_followed_by_one_that_is(tracked):
    tracker = NotingTracker(known=TrackedModel(run_id="old", registered_version=None))
    assert tracked(tracker).registered_version == 7


@pytest.mark.parametrize("length", [3, CURVE_POINTS, CURVE_POINTS + 1, 10 * CURVE_POINTS])
def test_a_long_curve_is_thinned_evenly(tracked, length):
    tracker = NotingTracker()
    tracked(tracker, curves={"loss": [float(step) for step in range(length)]})
    curve = [(metrics["loss"], step) for metrics, step in tracker.metrics if "loss" in metrics]
    assert min(length, CURVE_POINTS) / 2 < len(curve) <= CURVE_POINTS
    assert all(value == step for value, step in curve)
