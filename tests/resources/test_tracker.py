"""The tracker on a database of its own: no double runs, no alias that moves backwards, no number that is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from gem_pipeline.errors import DivergenceError
from gem_pipeline.training.tracker import RunHeader, TableInput
from resources.tracker import MlflowTracker


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tests: making a database takes seconds. Each test names its own models."""
    return tmp_path_factory.mktemp("tracked")


@pytest.fixture(scope="module")
def tracker(home: Path) -> MlflowTracker:
    return MlflowTracker(home, tags={"dagster_run_id": "d1"})


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "id1"
    folder.mkdir()
    for name in ("model.safetensors", "optimizer.safetensors", "config.json"):
        (folder / name).write_text(name)
    return folder


def header(name: str, date: str = "2022-04-25", model_id: str = "id1", **options) -> RunHeader:
    return RunHeader(name=name, date=date, model_id=model_id, params={"size": "tiny", "rate": 0.1}, tags={}, **options)


def track(tracker: MlflowTracker, wanted: RunHeader, stored: Path) -> int:
    with tracker.start_run(wanted) as run:
        return run.log_model(stored)


def the_run(tracker: MlflowTracker, run_id: str):
    return tracker._client.get_run(run_id)


def candidate_date(tracker: MlflowTracker, name: str) -> str:
    return tracker._client.get_model_version_by_alias(name, "candidate").tags["date"]


def test_a_model_that_was_tracked_is_found_again(tracker, stored):
    assert tracker.find("again", "2022-04-25", "id1") is None
    version = track(tracker, header("again"), stored)
    found = tracker.find("again", "2022-04-25", "id1")
    assert found.registered_version == version
    assert tracker.find("again", "2022-04-26", "id1") is None
    assert tracker.find("again", "2022-04-25", "id2") is None


def test_a_failed_attempt_is_not_found_and_the_next_one_is_a_run_of_its_own(tracker, stored):
    with pytest.raises(DivergenceError), tracker.start_run(header("failing")) as failed:
        raise DivergenceError("The loss is not finite.", remedy="Lower the rate.")
    assert the_run(tracker, failed.run_id).info.status == "FAILED"
    assert tracker.find("failing", "2022-04-25", "id1") is None
    track(tracker, header("failing"), stored)
    assert tracker.find("failing", "2022-04-25", "id1").run_id != failed.run_id


def test_an_interrupted_run_is_killed(tracker):
    with pytest.raises(KeyboardInterrupt), tracker.start_run(header("interrupted")) as run:
        raise KeyboardInterrupt
    assert the_run(tracker, run.run_id).info.status == "KILLED"


def test_candidate_follows_the_date_and_never_moves_backwards(tracker, stored):
    track(tracker, header("alias", "2022-04-26"), stored)
    track(tracker, header("alias", "2022-04-25", "id0"), stored)
    assert candidate_date(tracker, "alias") == "2022-04-26"
    track(tracker, header("alias", "2022-04-27"), stored)
    assert candidate_date(tracker, "alias") == "2022-04-27"
    newest = track(tracker, header("alias", "2022-04-27", "id2"), stored)
    assert int(tracker._client.get_model_version_by_alias("alias", "candidate").version) == newest


def test_numbers_that_are_none_become_a_state(tracker):
    with tracker.start_run(header("states")) as run:
        run.log_metrics({"loss": float("nan"), "auc": None, "ne": 0.9, "scale": float("inf")})
    data = the_run(tracker, run.run_id).data
    assert data.metrics == {"ne": 0.9}
    states = {key: value for key, value in data.tags.items() if key.startswith("state/")}
    assert states == {"state/loss": "nan", "state/auc": "undefined", "state/scale": "inf"}


def test_curves_keep_every_step(tracker):
    with tracker.start_run(header("curves")) as run:
        for step in range(1200):
            run.log_metrics({"loss": 1.0 / (step + 1)}, step)
    history = tracker._client.get_metric_history(run.run_id, "loss")
    assert [point.step for point in history] == list(range(1200))


def test_version_0_of_an_input_is_kept_like_any_other(tracker):
    inputs = (TableInput(name="examples", path="/lake/examples", version=0, digest="abc"),)
    with tracker.start_run(header("inputs", inputs=inputs)) as run:
        pass
    found = the_run(tracker, run.run_id)
    (dataset,) = found.inputs.dataset_inputs
    assert dataset.dataset.digest == "v0-abc"
    assert '"delta_table_version": 0' in dataset.dataset.source
    assert found.data.tags["version/examples"] == "0"
    assert found.data.tags["dagster_run_id"] == "d1"


def test_a_registered_model_is_safetensors_and_a_loader_without_pickle_or_optimizer(tracker, home, stored):
    track(tracker, header("artifact"), stored)
    version = tracker._client.get_model_version_by_alias("artifact", "candidate")
    folder = Path(version.source.removeprefix("file://"))
    assert home in folder.parents
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == ["MLmodel", "model/config.json", "model/model.safetensors"]
    flavor = yaml.safe_load((folder / "MLmodel").read_text())["flavors"]["python_function"]
    assert (flavor["loader_module"], flavor["data"]) == ("gem_pipeline.serving.pyfunc", "model")


def test_a_run_whose_process_died_is_closed_and_a_living_one_is_not(tracker):
    mine = tracker._client.create_run(tracker._experiment_id)
    with tracker.start_run(header("living")) as living:
        dead = tracker._client.get_run(living.run_id).data.tags["process"].replace(f":{os.getpid()}:", ":999999:")
        tracker._client.set_tag(mine.info.run_id, "process", dead)
        assert tracker.sweep() == 1
        assert the_run(tracker, mine.info.run_id).info.status == "KILLED"
        assert the_run(tracker, living.run_id).info.status == "RUNNING"
