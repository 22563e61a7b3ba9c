"""The whole chain over a range of dates, in process, with fakes for the library."""

from __future__ import annotations

import dagster as dg
import pytest

from gem_pipeline.contracts.tables import ALL_DAYS
from gem_pipeline.errors import GateError
from gem_pipeline.quality.gate import CheckResult, GateMarker, write_gate
from jobs.ranges import range_tags, run_in_process
from tests.graph.conftest import VERTICALS, FakeDerivation

pytestmark = [pytest.mark.graph, pytest.mark.filterwarnings("error")]
DATES = ["2022-04-25", "2022-04-26", "2022-04-27"]
TABLES = ("user_events", "counter_increments", "examples", "attributed_conversions")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def events(instance: dg.DagsterInstance, key: str) -> dict[str, dg.AssetMaterialization]:
    found = instance.fetch_materializations(dg.AssetKey(key), limit=100).records
    assert len({record.partition_key for record in found}) == len(found), "one materialization a partition"
    return {str(record.partition_key): record.asset_materialization for record in found}


def test_a_range_is_one_run_that_materializes_every_date_of_every_asset(graph, instance):
    (run,) = run_in_process(graph, "refresh", DATES, instance=instance)
    assert run.success
    days = [call for call in FakeDerivation.calls if call[0] != "vectors"]
    assert days == [(table, tuple(DATES)) for table in TABLES]
    steps = [table for table, _ in FakeDerivation.calls]
    assert steps.index("vectors") < steps.index("examples")
    (told,) = events(instance, "vectors").values()
    assert told.metadata["vectors/rows"].value == 7
    for key in ("raw_tables", *TABLES, "teacher_outputs", "foundation_model"):
        assert sorted(events(instance, key)) == DATES, key


def test_each_date_carries_its_own_numbers(graph, instance):
    run_in_process(graph, "refresh", DATES, instance=instance)
    told = events(instance, "examples")["2022-04-26"]
    assert told.metadata["fingerprint"].value == "examples-2022-04-26"
    assert told.metadata["dagster/row_count"].value == 7
    assert told.metadata["delta_version"].value == 0
    models = events(instance, "foundation_model")
    assert models["2022-04-26"].metadata["fingerprint"].value == "gem-2022-04-25-2022-04-26"
    for told in (models, events(instance, "raw_tables")):
        assert "base64" in told["2022-04-26"].metadata["plot"].value


def test_the_data_version_of_one_date_is_its_fingerprint(graph, instance):
    run_in_process(graph, "refresh_features", DATES[:1], instance=instance)
    assert events(instance, "raw_tables")[DATES[0]].tags["dagster/data_version"] == "raw-2022-04-25"


def test_the_checks_of_a_derived_table_tell_blocking_rules_from_warnings(graph, instance):
    (run,) = run_in_process(graph, "refresh_features", DATES, instance=instance)
    told = {(e.asset_key.to_user_string(), e.check_name): e for e in run.get_asset_check_evaluations()}
    assert told["examples", "quality_gate"].passed
    assert told["examples", "quality_gate"].blocking
    warned = told["user_events", "quality_warnings"]
    assert not warned.passed
    assert warned.severity is dg.AssetCheckSeverity.WARN


def test_a_failed_gate_is_shown_with_its_rules_and_nothing_is_materialized(graph, instance, settings, monkeypatch):
    broken = CheckResult(name="not_null__user_id", passed=False, unexpected_count=3)
    marker = GateMarker(
        table="user_events", date=DATES[1], delta_version=0, partition_fingerprint="", content_hash="", passed=False,
        input_fingerprint="", contract_hash="", suite_hash="", num_rows=9, checks=(broken,), quarantined={},
        written_at="",
    )  # fmt: skip
    write_gate(settings.home_path(), marker)

    monkeypatch.setattr("resources.features.FeatureDerivation.derivation", lambda *_: Refusing())
    run = graph.resolve_job_def("refresh_features").execute_in_process(
        instance=instance, tags=range_tags(DATES[0], DATES[2]), raise_on_error=False
    )
    assert not run.success
    (gate,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "quality_gate" and not e.passed]
    assert gate.asset_key == dg.AssetKey("user_events")
    assert gate.metadata["table"].records[0].data["rule"] == "not_null__user_id"
    assert events(instance, "user_events") == {}
    assert events(instance, "examples") == {}


def test_a_failed_gate_of_vectors_is_shown_and_no_example_is_derived(graph, instance, settings, monkeypatch):
    broken = CheckResult(name="key_is_unique", passed=False, unexpected_count=1)
    marker = GateMarker(
        table="ad_vectors", date=ALL_DAYS, delta_version=0, partition_fingerprint="", content_hash="", passed=False,
        input_fingerprint="", contract_hash="", suite_hash="", num_rows=9, checks=(broken,), quarantined={},
        written_at="",
    )  # fmt: skip
    write_gate(settings.home_path(), marker)
    monkeypatch.setattr("resources.features.FeatureDerivation.derivation", lambda *_: RefusingVectors())
    run = graph.resolve_job_def("refresh_features").execute_in_process(
        instance=instance, tags=range_tags(DATES[0], DATES[2]), raise_on_error=False
    )
    assert not run.success
    (gate,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "quality_gate" and not e.passed]
    assert gate.asset_key == dg.AssetKey("vectors")
    assert gate.metadata["table"].records[0].data["rule"] == "key_is_unique"
    assert events(instance, "examples") == {}


class RefusingVectors(FakeDerivation):
    """A derivation whose vectors fail their gate."""

    def vectors(self) -> None:
        raise GateError("Table ad_vectors failed its quality gate.", remedy="Mend the source rows.")


class Refusing(FakeDerivation):
    """A derivation whose events fail their gate."""

    def user_events(self, dates: list[str]) -> None:
        raise GateError(f"Table user_events failed its quality gate for {dates[1]}.", remedy="Mend the source rows.")


def test_verticals_are_registered_and_trained_in_one_run_with_one_materialization_a_key(graph, instance):
    run_in_process(graph, "refresh", DATES, instance=instance)
    registered = instance.get_dynamic_partitions("vertical")
    assert tuple(registered) == VERTICALS
    (run,) = run_in_process(graph, "refresh_verticals", DATES, instance=instance, verticals=registered)
    assert run.success
    told = events(instance, "vertical_models")
    assert set(told) == {f"{date}|{key}" for date in DATES for key in VERTICALS}
    one = told["2022-04-26|tab_0__click"].metadata
    assert one["vertical-tab_0__click-kd/loss_last"].value == 0.9
    assert not any("tab_1__click" in name for name in one)


def test_a_job_backfill_of_verticals_is_refused_because_dagster_would_leave_keys_out(graph, instance):
    instance.add_dynamic_partitions("vertical", list(VERTICALS))
    tags = range_tags(DATES[0], DATES[2], VERTICALS) | {
        "dagster/partition/date": DATES[0], "dagster/partition/vertical": VERTICALS[0],
    }  # fmt: skip
    with pytest.raises(dg.Failure, match="Backfill the asset"):
        graph.resolve_job_def("refresh_verticals").execute_in_process(instance=instance, tags=tags)


def test_a_first_day_is_not_evaluated_and_says_so(graph, instance):
    (run,) = run_in_process(graph, "refresh_evaluation", DATES[:1], instance=instance)
    assert run.success
    assert "not scored" in events(instance, "evaluation")[DATES[0]].metadata["state"].value


def test_dates_with_a_gap_are_one_run_a_stretch(graph, instance):
    runs = run_in_process(graph, "refresh_features", ["2022-04-24", "2022-04-27", "2022-04-26"], instance=instance)
    assert len(runs) == 2
    found = [dates for table, dates in FakeDerivation.calls if table == "user_events"]
    assert found == [("2022-04-24",), ("2022-04-26", "2022-04-27")]


def test_no_process_starts_where_everything_is_done(graph, instance, monkeypatch):
    class Done:
        def __init__(self, date: str) -> None:
            self.date = date

        def to_dict(self) -> dict[str, object]:
            return {"date": self.date, "models": [], "teacher_outputs": {}, "seconds": {}}

    monkeypatch.setattr("resources.launcher.finished", lambda plan: Done(plan.date))
    monkeypatch.setattr("resources.launcher.TrainerLauncher.launch", lambda *_: pytest.fail("started"))
    (run,) = run_in_process(graph, "refresh", DATES, instance=instance)
    assert run.success
    assert "no model" in events(instance, "foundation_model")[DATES[0]].metadata["state"].value
