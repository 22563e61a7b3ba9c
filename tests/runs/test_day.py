"""A day is trained once, in order, from validated data only, and the same everywhere."""

from __future__ import annotations

import pytest

from gem_pipeline.config.ladder import run_config
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.contracts.tables import ALL_DAYS
from gem_pipeline.errors import GateError
from gem_pipeline.quality.gate import marker_path
from gem_pipeline.runs import day as subject
from gem_pipeline.runs.day import train_day
from gem_pipeline.training.plan import GEM, LOGISTIC, TASKS, vertical_model
from tests.chain_factory import VERTICALS, same_weights, train_chain, train_with_vectors, vector_plan
from tests.lake_factory import DAYS, put_vectors


def written(chain):
    """Every file of the home and when it was written."""
    return {str(p): p.stat().st_mtime_ns for p in chain.home.rglob("*") if p.is_file()}


def test_a_day_trained_twice_writes_nothing_the_second_time(own):
    before = written(own)
    again = train_day(own.plan(DAYS[2]))
    assert written(own) == before
    assert all(model.unchanged for model in again.models)
    assert [m.model_id for m in again.models] == [m.model_id for m in own.reports[DAYS[2]].models]


def test_another_seed_makes_other_models_and_keeps_the_first_ones(own):
    first = own.store.require(GEM, DAYS[2])
    report = train_day(own.plan(DAYS[2], seed=1, tasks=("foundation",)))
    assert not report.models[0].unchanged
    assert not same_weights(own.weights(GEM, DAYS[2]), first.weights())
    train_day(own.plan(DAYS[2], tasks=("foundation",)))
    assert own.store.require(GEM, DAYS[2]) == first


def test_changed_labels_make_another_model(own):
    before = own.weights(GEM, DAYS[2])
    own.rewrite_examples(DAYS[2], label__click=1)
    report = train_day(own.plan(DAYS[2], tasks=("foundation",)))
    assert not report.models[0].unchanged
    assert not same_weights(own.weights(GEM, DAYS[2]), before)


def test_two_homes_make_bit_equal_models(chain, tmp_path):
    other = train_chain(tmp_path / "elsewhere", days=DAYS[:2])
    for name in (GEM, LOGISTIC, *(vertical_model(key, arm) for key in VERTICALS for arm in ("alone", "kd"))):
        assert same_weights(other.weights(name, DAYS[1]), chain.weights(name, DAYS[1])), name
        assert other.store.require(name, DAYS[1]).model_id == chain.store.require(name, DAYS[1]).model_id


@pytest.mark.parametrize(
    ("table", "date", "tasks"),
    [
        ("examples", DAYS[1], ("score",)),
        ("user_events", DAYS[1], ("score",)),
        ("user_events", DAYS[0], ("score",)),
        ("examples", DAYS[0], ("baseline",)),
    ],
)
def test_nothing_is_done_where_a_partition_that_is_read_has_no_gate(own, table, date, tasks):
    marker_path(own.home, table, date).unlink()
    before = written(own)
    with pytest.raises(GateError, match=f"Table {table}, date {date}, has no quality gate"):
        train_day(own.plan(DAYS[1], tasks=tasks, seed=1))
    assert written(own) == before


def test_gates_of_days_that_are_not_read_do_not_matter(own):
    marker_path(own.home, "examples", DAYS[2]).unlink()
    marker_path(own.home, "user_events", DAYS[2]).unlink()
    marker_path(own.home, "examples", DAYS[0]).unlink()
    train_day(own.plan(DAYS[1], tasks=("score", "foundation", "verticals")))


def test_tasks_run_in_their_own_order_and_only_those_asked_for(own, monkeypatch):
    ran = []
    monkeypatch.setattr(subject, "write_record", lambda plan, task, *_: ran.append(task))
    train_day(own.plan(DAYS[1], seed=1, tasks=("verticals", "foundation", "score")))
    assert ran == ["score", "foundation", "verticals"]


def test_a_task_is_recorded_after_all_else_so_that_a_killed_one_is_run_again(own, monkeypatch):
    def die(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(subject, "write_record", die)
    with pytest.raises(KeyboardInterrupt):
        train_day(own.plan(DAYS[2], seed=1, tasks=("baseline",)))
    monkeypatch.undo()
    killed = own.weights(LOGISTIC, DAYS[2])
    report = train_day(own.plan(DAYS[2], seed=1, tasks=("baseline",)))
    assert not report.models[0].unchanged
    assert same_weights(own.weights(LOGISTIC, DAYS[2]), killed)


def test_progress_is_shown_for_scores_learning_and_verticals(own):
    labels = []

    class Noting:
        def track(self, items, *, label, total=None):
            labels.append((label, total))
            return items

    train_day(own.plan(DAYS[1], seed=1, tasks=tuple(t for t in TASKS if t != "baseline")), progress=Noting())
    names = [label.removeprefix(f"{DAYS[1]} ") for label, _ in labels]
    passes = run_config("tiny").training.epochs
    assert names == ["gem scores", *["gem learns"] * passes, "verticals"]
    assert all(total for _, total in labels)


def test_vectors_are_read_behind_their_gate_and_are_part_of_what_a_model_was_made_of(tmp_path):
    home = tmp_path / "home"
    first = train_with_vectors(home)
    assert all(model.unchanged for model in train_day(vector_plan(home)).models)
    put_vectors(home, load_contract(home / "contract.yaml"), seed=1)
    second = train_day(vector_plan(home))
    assert {m.name for m in second.models} == {m.name for m in first.models}
    assert not any(model.unchanged for model in second.models)
    marker_path(home, "ad_vectors", ALL_DAYS).unlink()
    with pytest.raises(GateError, match=f"Table ad_vectors, date {ALL_DAYS}, has no quality gate"):
        train_day(vector_plan(home, seed=1))
