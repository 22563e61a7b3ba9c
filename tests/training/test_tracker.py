"""The tracker that keeps nothing obeys the protocol."""

from __future__ import annotations

from gem_pipeline.training.tracker import RunHeader, SilentTracker, Tracker


def test_the_silent_tracker_takes_everything_and_knows_nothing(tmp_path):
    tracker: Tracker = SilentTracker()
    header = RunHeader(name="gem", date="2022-04-25", model_id="id", params={}, tags={})
    with tracker.start_run(header) as run:
        run.log_metrics({"loss": float("nan")}, step=1)
        run.set_tags({"a": "b"})
        assert run.log_model(tmp_path) == 0
    assert tracker.find("gem", "2022-04-25", "id") is None
