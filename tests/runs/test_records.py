"""A finished task is known by its inputs: the same ones are not worked on again, others are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from gem_pipeline.runs.records import (
    DayReport,
    content_until,
    finished,
    model_id_in_force,
    scored_by,
    task_fingerprint,
    vertical_cells,
)
from gem_pipeline.training.plan import GEM, LOGISTIC, TASKS
from tests.lake_factory import DAYS, contract, make_lake


def fingerprints(chain, date):
    return {task: task_fingerprint(chain.plan(date), contract(), task) for task in TASKS}


def changed(before, after):
    return {task for task in before if before[task] != after[task]}


def test_a_finished_plan_is_told_from_files_with_its_models_unchanged(chain):
    done = finished(chain.plan(DAYS[1]))
    trained = chain.reports[DAYS[1]]
    assert [m.model_id for m in done.models] == [m.model_id for m in trained.models]
    assert all(m.unchanged for m in done.models)
    assert not any(m.unchanged for m in trained.models)
    assert done.teacher_outputs == trained.teacher_outputs


def test_no_torch_is_needed_to_tell(chain):
    code = "import sys; import gem_pipeline.runs.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("change", [{"seed": 1}, {"threads": 2}, {"verticals": ("tab_1__click",)}])
def test_another_plan_is_not_finished(chain, change):
    assert finished(chain.plan(DAYS[1], **change)) is None


def test_a_part_of_a_finished_plan_is_finished(chain):
    done = finished(chain.plan(DAYS[1], tasks=("baseline",)))
    assert [m.name for m in done.models] == [LOGISTIC]


def test_changed_examples_reopen_their_day_and_what_is_fitted_on_them_later(own):
    before = {date: fingerprints(own, date) for date in DAYS}
    own.rewrite_examples(DAYS[1], label__click=0)
    assert finished(own.plan(DAYS[0])) is not None
    assert finished(own.plan(DAYS[1])) is None
    assert changed(before[DAYS[0]], fingerprints(own, DAYS[0])) == set()
    assert changed(before[DAYS[1]], fingerprints(own, DAYS[1])) == set(TASKS)
    assert changed(before[DAYS[2]], fingerprints(own, DAYS[2])) == {"baseline"}


def test_changed_events_reopen_every_later_day(own):
    before = {date: fingerprints(own, date) for date in DAYS}
    make_lake(own.home, days=(DAYS[1],), seed=1)
    assert changed(before[DAYS[0]], fingerprints(own, DAYS[0])) == set()
    assert changed(before[DAYS[2]], fingerprints(own, DAYS[2])) == set(TASKS)


def test_other_code_makes_other_models(chain, monkeypatch):
    before = fingerprints(chain, DAYS[1])
    monkeypatch.setattr("gem_pipeline.runs.records.code_fingerprint", lambda: "other")
    assert changed(before, fingerprints(chain, DAYS[1])) == set(TASKS)


def test_another_parent_reopens_exactly_its_descendants(own):
    before = fingerprints(own, DAYS[2])
    current = own.store.require(LOGISTIC, DAYS[1])
    shutil.copytree(current.path, current.path.with_name("other"))
    (current.path.parent / "current.json").write_text('{"model_id": "other"}')
    assert changed(before, fingerprints(own, DAYS[2])) == {"baseline"}
    gem = own.store.require(GEM, DAYS[1])
    shutil.copytree(gem.path, gem.path.with_name("other"))
    (gem.path.parent / "current.json").write_text('{"model_id": "other"}')
    assert changed(before, fingerprints(own, DAYS[2])) == set(TASKS)


def test_a_model_that_was_deleted_is_made_again(own):
    assert model_id_in_force(own.home, GEM, DAYS[1]) is not None
    shutil.rmtree(own.store.require(GEM, DAYS[1]).path)
    assert model_id_in_force(own.home, GEM, DAYS[1]) is None
    assert finished(own.plan(DAYS[1], tasks=("foundation",))) is None


def test_teacher_outputs_that_have_gone_are_written_again(own):
    assert scored_by(own.home, DAYS[0]) is None
    assert scored_by(own.home, DAYS[1]) == model_id_in_force(own.home, GEM, DAYS[0])
    shutil.rmtree(own.lake / "teacher_outputs")
    assert finished(own.plan(DAYS[1], tasks=("score",))) is None


def test_content_is_listed_by_date_and_never_beyond_it(chain):
    assert [date for date, _ in content_until(chain.home, "examples", DAYS[1])] == list(DAYS[:2])


def test_a_report_survives_json(chain):
    report = chain.reports[DAYS[1]]
    assert DayReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_cells_come_from_keys(chain):
    assert vertical_cells(chain.plan(DAYS[0]))[0] == ("tab_1__click", "tab_1", "click")
