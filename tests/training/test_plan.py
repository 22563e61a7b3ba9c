"""A plan names its inputs, and the day a model starts from is chosen by partition."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gem_pipeline.errors import ConfigError, PartitionError
from gem_pipeline.training import plan as subject
from gem_pipeline.training.plan import (
    GEM,
    DayPlan,
    base_rates,
    code_fingerprint,
    digest,
    eligible_verticals,
    example_dates,
    partition_dates,
    previous_model_date,
    split_vertical,
    vertical_key,
    vertical_model,
)
from tests.lake_factory import DAYS, contract, make_lake


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("planned")
    make_lake(folder)
    return folder


def examples(home):
    from deltalake import DeltaTable

    return DeltaTable(str(home / "lake" / "examples")).to_pyarrow_table().to_pandas()


def plan(**changes) -> DayPlan:
    return DayPlan(**({"date": DAYS[1], "previous_date": DAYS[0], "contract_path": "c", "home": "h"} | changes))


def rules(**changes):
    own = contract()
    return own.model_copy(update={"verticals": own.verticals.model_copy(update=changes)})


def put_in_force(home, *dates):
    for date in dates:
        (home / "models" / GEM / date).mkdir(parents=True)
        (home / "models" / GEM / date / "current.json").write_text('{"model_id": "x"}')


def test_a_plan_survives_json():
    whole = plan(tasks=("score", "verticals"), verticals=("tab_1__click",), seed=3)
    assert DayPlan.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


def test_an_unknown_task_is_refused():
    with pytest.raises(ConfigError, match=r"Unknown tasks \['dance'\]"):
        plan(tasks=("score", "dance"))


@pytest.mark.parametrize("previous", [DAYS[1], DAYS[2]])
def test_a_model_that_has_seen_the_day_cannot_be_its_parent(previous):
    with pytest.raises(ConfigError, match="is not earlier"):
        plan(previous_date=previous)


def test_the_newest_earlier_days_are_replayed():
    there = ("2022-04-30", DAYS[2], DAYS[0], DAYS[1])
    assert plan(date=DAYS[2], previous_date=DAYS[1], replay_days=2).replayed(there) == (DAYS[0], DAYS[1])
    assert plan(replay_days=5).replayed(there) == ("2022-04-30", DAYS[0])
    assert plan().replayed(there) == ()


def test_days_that_are_not_there_yet_cannot_be_replayed():
    with pytest.raises(ConfigError, match="replay_days is -1"):
        plan(replay_days=-1)


def test_planning_needs_no_torch():
    code = "import sys; import gem_pipeline.training.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_key_names_surface_and_objective():
    assert split_vertical(vertical_key("tab_1", "long_view")) == ("tab_1", "long_view")
    assert vertical_model("tab_1__like", "kd") == "vertical-tab_1__like-kd"


def test_a_digest_depends_on_content_and_not_on_the_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest("a", "b") != digest("ab")
    assert len(digest()) == 16


def test_the_code_fingerprint_follows_the_files_that_decide_weights(tmp_path, monkeypatch):
    assert code_fingerprint() == code_fingerprint()
    for folder in ("models", "quality"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1")
    monkeypatch.setattr(subject.gem_pipeline, "__file__", str(tmp_path / "__init__.py"))
    before = code_fingerprint()
    (tmp_path / "quality" / "a.py").write_text("x = 2")
    assert code_fingerprint() == before
    (tmp_path / "models" / "a.py").write_text("x = 2")
    assert code_fingerprint() != before


def test_dates_are_those_of_the_table(home, tmp_path):
    assert example_dates(contract(), home) == partition_dates(home, "user_events") == DAYS
    assert example_dates(contract(), tmp_path) == ()


def test_a_chain_starts_where_no_earlier_day_has_a_model(home):
    assert previous_model_date(contract(), home, DAYS[0]) is None
    assert previous_model_date(contract(), home, DAYS[2]) is None


def test_a_day_starts_from_the_day_before_and_never_from_a_later_or_an_older_one(tmp_path):
    make_lake(tmp_path, rows=20)
    put_in_force(tmp_path, DAYS[0], DAYS[2])
    assert previous_model_date(contract(), tmp_path, DAYS[1]) == DAYS[0]
    with pytest.raises(PartitionError, match=f"Model gem of {DAYS[1]} is missing"):
        previous_model_date(contract(), tmp_path, "2022-05-03")


def test_a_day_without_examples_is_no_gap(tmp_path):
    make_lake(tmp_path, days=(DAYS[0], DAYS[2]), rows=20)
    put_in_force(tmp_path, DAYS[0])
    assert previous_model_date(contract(), tmp_path, DAYS[2]) == DAYS[0]


def test_cells_with_enough_of_both_classes_become_verticals_largest_first(home):
    frame = examples(home)
    counts = {
        vertical_key(surface, o.name): (int(part[f"label__{o.name}"].sum()), len(part))
        for surface, part in frame.groupby("surface")
        for o in contract().objectives
    }
    least = sorted(positives for positives, _ in counts.values())[4]
    keys = eligible_verticals(rules(min_positives=least, min_negatives=1, max_models=20), home, DAYS)
    assert set(keys) == {key for key, (positives, _) in counts.items() if positives >= least}
    assert [counts[key][0] for key in keys] == sorted((counts[key][0] for key in keys), reverse=True)
    assert eligible_verticals(rules(min_positives=least, min_negatives=1, max_models=2), home, DAYS) == keys[:2]


def test_negatives_count_as_well_and_so_do_only_the_days_asked_for(home, tmp_path):
    assert eligible_verticals(rules(min_positives=1, min_negatives=10_000), home, DAYS) == ()
    assert eligible_verticals(rules(min_positives=150, min_negatives=1), home, DAYS[:1]) == ()
    assert eligible_verticals(contract(), tmp_path, DAYS) == ()


def test_base_rates_are_those_of_the_labels_before_the_day(home):
    frame = examples(home)
    earlier = frame[frame.date < DAYS[2]]
    rates = base_rates(contract(), home, DAYS[2])
    assert rates["all"]["click"] == pytest.approx(earlier.label__click.mean())
    assert rates["tab_0"]["like"] == pytest.approx(earlier[earlier.surface == "tab_0"].label__like.mean())
    assert rates["tab_6"] == {}
    assert base_rates(contract(), home, DAYS[0])["all"] == {}
