"""The whole chain on a small log: what it leaves behind, and that running it again changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable
from mlflow import MlflowClient

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import Estimate
from gem_pipeline.places import contract_path
from gem_pipeline.runs.evaluation import evaluate
from tests.smoke.chain import (
    DATES,
    HISTORY,
    assert_same_tables,
    contract,
    derive,
    features_of,
    instance_of,
    scores_of,
    table_of,
    train,
    weights_of,
)

pytestmark = [pytest.mark.smoke, pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
MAX_EVENTS = 64


def micros(times: pd.Series) -> np.ndarray:
    return times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)


@pytest.fixture(scope="module")
def engagements(chain) -> pd.DataFrame:
    """The events as they landed: the other side of every check for leaks."""
    rows = DeltaTable(str(chain.home / "lake" / contract().tables.engagements.path)).to_pandas()
    return rows.assign(happened=micros(rows["event_ts"]), arrived=micros(rows["ingest_ts"]))


def materializations(instance: dg.DagsterInstance, key: str) -> dict[str, dg.AssetMaterialization]:
    """The newest materialization of each partition."""
    records = instance.fetch_materializations(dg.AssetKey(key), limit=500).records
    return {str(r.partition_key): r.asset_materialization for r in reversed(records) if r.asset_materialization}


def test_every_asset_is_materialized_for_every_date_with_its_numbers(chain):
    number = {
        "raw_tables": "engagements", "user_events": "dagster/row_count", "counter_increments": "dagster/row_count",
        "examples": "dagster/row_count", "foundation_model": "loss_last", "logistic_regression": "examples",
        "teacher_outputs": "dagster/row_count", "evaluation": None,
    }  # fmt: skip
    with instance_of(chain.home) as instance:
        for key, name in number.items():
            told = materializations(instance, key)
            assert set(DATES) <= set(told), key
            for date in DATES:
                assert told[date].metadata["fingerprint"].value, (key, date)
                starts = key in ("teacher_outputs", "evaluation") and date == DATES[0]
                assert starts or "base64" in told[date].metadata["plot"].value, (key, date)
                assert name is None or float(told[date].metadata[name].value) >= 0, (key, date)
        verticals = instance.get_dynamic_partitions("vertical")
        assert "tab_1__click" in verticals
        assert set(materializations(instance, "vertical_models")) == {f"{d}|{v}" for d in DATES for v in verticals}
        assert HISTORY in materializations(instance, "user_events")


def test_every_check_ran_and_passed(chain):
    told = {
        (e.asset_key.to_user_string(), e.check_name): e for r in chain.runs for e in r.get_asset_check_evaluations()
    }
    assert set(told) == {
        (table, check)
        for table in ("user_events", "counter_increments", "vectors", "examples", "attributed_conversions")
        for check in ("quality_gate", "quality_warnings")
    }
    assert all(evaluation.passed for evaluation in told.values())


def test_clicks_are_predicted_better_than_by_the_base_rate(chain):
    report = evaluate(str(contract_path()), str(chain.home), DATES[1:], BootstrapConfig(resamples=50, auc_resamples=20))
    row = report.find("all", "click", "gem")
    assert row is not None
    assert isinstance(row.metrics.ne, Estimate)
    assert row.metrics.ne.value < 1


def timed_windows(part):
    index_T, length_N = part.window.select(np.arange(part.size))
    return np.split(part.window.happened_E[index_T], np.cumsum(length_N)[:-1])


def test_no_window_holds_an_event_that_was_not_yet_known(chain, engagements):
    """Each window is exactly what a scan of the landed events by both clocks gives."""
    allowance = contract().visibility.allowance_s * 1_000_000
    by_user = dict(list(engagements.sort_values(["happened", "arrived"]).groupby("user_id")))
    reader, compared = DayReader(contract(), chain.home / "lake", window=WindowSpec(max_events=MAX_EVENTS)), 0
    for date in DATES:
        for part in reader.day(date):
            times = timed_windows(part)
            for user, as_of, window in zip(part.user_N.tolist(), part.as_of_N.tolist(), times, strict=True):
                own = by_user[user]
                known = own[(own["happened"] < as_of) & (own["arrived"] <= as_of + allowance)]
                assert window.tolist() == known["happened"].tolist()[-MAX_EVENTS:]
                compared += len(window)
    assert compared > 10_000


def test_no_counter_holds_an_event_that_was_not_known_when_its_day_opened(chain, engagements):
    rows = table_of(chain.home, tables.examples(contract())).to_pandas()
    rows["opens"] = micros(rows["impression_ts"])
    for _, day in rows.groupby("date"):
        opens = day["opens"].min()
        known = engagements[(engagements["happened"] < opens) & (engagements["arrived"] <= opens)]
        feed, past = known[known["source"] == "feed"], known[known["source"] == "history"]
        clicks = feed[np.array(["click" in actions for actions in feed["actions"]], dtype=bool)]
        assert (day[tables.count_column("all")] == len(feed)).all()
        for counter, kind, events, key in (
            ("user", None, feed, "user_id"), ("user", "click", clicks, "user_id"), ("ad", None, feed, "video_id"),
            ("user_history", None, past, "user_id"),
        ):  # fmt: skip
            expected = day["ad_id" if key == "video_id" else key].map(events.groupby(key).size()).fillna(0)
            assert (day[tables.count_column(counter, kind)] == expected).all(), (counter, kind)


def client_of(home: Path) -> MlflowClient:
    return MlflowClient(f"sqlite:///{home / 'mlflow.db'}", f"sqlite:///{home / 'mlflow.db'}")


def test_every_model_is_registered_and_the_newest_date_is_the_candidate(chain):
    client = client_of(chain.home)
    names = {model.name for model in client.search_registered_models()}
    assert {"gem", "logistic_regression", "vertical-tab_1__click-alone", "vertical-tab_1__click-kd"} <= names
    for name in names:
        assert client.get_model_version_by_alias(name, "candidate").tags["date"] == DATES[-1], name


def test_a_student_names_its_teacher_and_the_versions_of_its_data(chain):
    client = client_of(chain.home)
    student = client.get_run(client.get_model_version_by_alias("vertical-tab_1__click-kd", "candidate").run_id)
    teacher = client.get_run(student.data.tags["teacher_run_id"])
    assert teacher.data.tags["model_name"] == "gem"
    assert teacher.data.tags["date"] == DATES[-2]
    assert teacher.data.tags["model_id"] == student.data.tags["teacher_model_id"]
    assert {"version/user_events", "version/examples"} <= set(student.data.tags)
    alone = client.get_run(client.get_model_version_by_alias("vertical-tab_1__click-alone", "candidate").run_id)
    assert "teacher_run_id" not in alone.data.tags


FRESH = """
import sys
from pathlib import Path
import mlflow, numpy as np, pyarrow as pa, torch
from deltalake import DeltaTable
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.contracts import tables
from gem_pipeline.serving.scoring import load_model
home, before, date = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(2)
mlflow.set_tracking_uri(f"sqlite:///{home / 'mlflow.db'}")
client = mlflow.MlflowClient()
(version,) = [v for v in client.search_model_versions("name = 'gem'") if v.tags["date"] == before]
scorer = load_model(home / "models" / "gem" / before / version.tags["model_id"])
parts = list(DayReader(scorer.contract, home / "lake", window=scorer.window).day(date))
ids = pa.concat_arrays([part.impression_ids for part in parts]).to_pylist()
lake = str(home / "lake") + "/"
stored = DeltaTable(lake + "teacher_outputs").to_pandas(filters=[("date", "=", date)]).set_index("impression_id")
expected = stored.loc[ids, [f"prob__{name}" for name in scorer.objectives]].to_numpy()
assert np.array_equal(scorer.score(parts), expected), "the store's model"
rows = DeltaTable(lake + "examples").to_pandas(filters=[("date", "=", date), ("bucket", "=", 0)]).iloc[:40]
events = DeltaTable(lake + "user_events").to_pandas(filters=[("date", "<=", date), ("bucket", "=", 0)])
events["event_ts"], events["ingest_ts"] = (events[c].astype("datetime64[us, UTC]") for c in ("event_ts", "ingest_ts"))
own = {user: found.to_dict("records") for user, found in events.groupby("user_id")}
rows = rows.assign(events=[own.get(user, []) for user in rows["user_id"]])
served = mlflow.pyfunc.load_model(f"models:/gem/{version.version}").predict(rows)
expected = stored.loc[rows["impression_id"], [f"prob__{name}" for name in served.columns]].to_numpy()
np.testing.assert_allclose(served.to_numpy(), expected, atol=1e-6)
"""


def test_a_model_loaded_in_a_fresh_process_predicts_what_was_stored(chain):
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(chain.home), DATES[0], DATES[1]], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_second_run_starts_no_spark_and_no_trainer_and_changes_nothing(chain, monkeypatch):
    def state() -> tuple:
        versions = {path.parent.name: DeltaTable(str(path.parent)).version() for path in lake.rglob("_delta_log")}
        return versions, len(client.search_runs(["1"], max_results=1000)), weights_of(chain.home)

    lake, client = chain.home / "lake", client_of(chain.home)
    rows, before = features_of(chain.home) | scores_of(chain.home), state()
    monkeypatch.setattr("resources.spark_session.spark_session", lambda *_: pytest.fail("Spark was asked for"))
    monkeypatch.setattr("resources.launcher.TrainerLauncher.launch", lambda *_: pytest.fail("a trainer was started"))
    derive(chain.home)
    train(chain.home)
    assert state() == before
    assert_same_tables(rows, features_of(chain.home) | scores_of(chain.home))
    with instance_of(chain.home) as instance:
        for key in ("raw_tables", "user_events", "counter_increments", "examples", "foundation_model"):
            told = materializations(instance, key)
            assert all(told[date].metadata["unchanged"].value for date in DATES), key
