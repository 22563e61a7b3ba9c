"""Delayed conversions through a whole chain: learnt and judged when they are mature, as they were known then."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from gem_pipeline.errors import GateError
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.quality.gate import marker_path
from gem_pipeline.runs.baseline import fitted_days
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.evaluation import BASE_RATE, TAUGHT, evaluate, load_day
from gem_pipeline.runs.records import finished, learnt_conversions, task_fingerprint
from gem_pipeline.runs.results import text_table
from gem_pipeline.training.plan import GEM, LOGISTIC, TASKS, vertical_model
from tests.chain_factory import same_weights
from tests.delayed_chain import DAYS, ROWS, DelayedChain, delayed_chain

QUICK = BootstrapConfig(resamples=20, auc_resamples=20)


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> DelayedChain:
    """Five days, trained in order."""
    made = delayed_chain(tmp_path_factory.mktemp("delayed") / "home")
    for day in DAYS:
        made.train(day)
    return made


@pytest.fixture
def own(chain, tmp_path) -> DelayedChain:
    """A copy that a test may change."""
    shutil.copytree(chain.home, tmp_path / "home")
    return replace(chain, home=tmp_path / "home")


def context(chain, day):
    return DayContext(chain.plan(day))


def place(chain, objective):
    return [o.name for o in chain.contract.objectives].index(objective)


def test_the_second_pass_sees_the_labels_that_matured_and_no_other(chain):
    today = context(chain, DAYS[2])
    assert [(day.date, day.objectives) for day in today.matured] == [(DAYS[0], ("order",)), (DAYS[1], ("lead",))]
    for day in today.matured:
        parts = list(today.matured_source(day))
        mask_NK = np.concatenate([part.mask_NK for part in parts])
        k = place(chain, day.objectives[0])
        assert mask_NK[:, k].any()
        assert not np.delete(mask_NK, k, axis=1).any()
        assert sum(part.label_NK.sum() for part in parts) == sum(part.label_NK[:, k].sum() for part in parts) > 0
    first = np.concatenate([part.mask_NK for part in today.full_history])
    assert not first[:, place(chain, "order")].any()
    assert first[:, place(chain, "click")].all()


def test_a_surface_that_does_not_optimise_a_conversion_has_no_label_of_it(chain):
    today = context(chain, DAYS[2])
    for part in today.matured_source(today.matured[1]):
        elsewhere = part.surface_N != part.layout.surfaces.index("tab_1")
        assert not part.mask_NK[elsewhere].any()


def test_the_foundation_model_learns_a_conversion_when_its_first_partition_matures(chain):
    learnt = [chain.store.require(GEM, day).config()["learnt"] for day in DAYS]
    assert learnt == [[], ["lead"], ["lead", "order"], ["lead", "order"], ["lead", "order"]]
    first, second, third = (chain.weights(GEM, day)["heads.shared.bias"][place(chain, "order")] for day in DAYS[:3])
    assert float(first) == float(second) == 0.0
    assert -2.5 < float(third) < -0.1  # it started from the rate of a third
    examples = [m.metrics["examples"] for day in DAYS[:3] for m in chain.reports[day].models if m.name == GEM]
    assert examples == [2 * ROWS, 4 * ROWS, 6 * ROWS]  # two epochs over one, two and three partitions


def test_another_label_of_a_matured_partition_makes_another_model(own):
    own.credit(DAYS[0], *((f"{DAYS[0]}:{i}", "order", DAYS[1]) for i in range(1, ROWS, 3)))
    before = own.weights(GEM, DAYS[2])
    own.train(DAYS[2], tasks=("foundation",))
    assert not same_weights(own.weights(GEM, DAYS[2]), before)


def test_verticals_score_the_day_and_learn_from_the_partition_that_matures(chain):
    frame = chain.table("examples", DAYS[3])
    for key, first in (("tab_1__lead", 1), ("tab_0__order", 2)):
        for arm in ("alone", "kd"):
            name = vertical_model(key, arm)
            assert [chain.store.current(name, day) is not None for day in DAYS] == [i >= first for i in range(5)]
            scored = chain.table("predictions", DAYS[3]).query("model == @name")
            assert set(scored.impression_id) == set(frame[frame.surface == key[:5]].impression_id)
            assert chain.table("predictions", DAYS[first]).query("model == @name").empty


def test_a_vertical_goes_on_from_its_newest_model_where_a_day_had_nothing_to_learn(own):
    name = vertical_model("tab_1__lead", "alone")
    shutil.rmtree(own.store.root / name / DAYS[3])
    report = own.train(DAYS[4], tasks=("verticals",), seed=1)
    assert name in {model.name for model in report.models}
    config = own.store.require(name, DAYS[4]).config()
    assert config["parent_model_id"] == own.store.require(name, DAYS[2]).model_id
    scored = own.table("predictions", DAYS[4]).query(f"model == '{name}'")
    assert set(scored.trained_through) == {DAYS[2]}


def test_soft_labels_teach_once_their_teacher_has_learnt_the_conversion(chain):
    def equal(key, day):
        alone, taught = (chain.weights(vertical_model(key, arm), day) for arm in ("alone", "kd"))
        return same_weights(alone, taught)

    assert [equal("tab_1__lead", day) for day in DAYS[1:]] == [True, True, False, False]
    assert all(equal("tab_0__order", day) for day in DAYS[2:])
    assert not equal("tab_1__click", DAYS[1])


def test_the_baseline_is_fitted_on_the_mature_days_of_each_objective(chain):
    window = fitted_days(context(chain, DAYS[4]))
    assert tuple(window) == DAYS
    assert [("order" in names, "lead" in names, "click" in names) for names in window.values()] == [
        (True, True, True), (True, True, True), (True, True, True), (False, True, True), (False, False, True),
    ]  # fmt: skip
    wanted = f"model == '{LOGISTIC}' and objective == 'order'"
    orders = [chain.table("predictions", day).query(wanted).prob for day in DAYS[2:4]]
    assert orders[0].isna().all()
    assert orders[1].notna().all()


def test_a_conversion_is_judged_on_the_partition_that_matures_by_models_that_had_learnt_it(chain):
    report = evaluate(str(chain.contract_path), str(chain.home), DAYS[4:], QUICK)
    assert report.judged["click"] == DAYS[4:]
    assert report.judged["order"] == DAYS[2:3]
    assert report.judged["lead"] == DAYS[3:4]
    assert report.find("all", "click", GEM).metrics.num_rows == ROWS
    assert report.find("all", "order", GEM) is None  # scored by the model of the second day
    assert report.find("all", "order", BASE_RATE) is None
    lead = report.find("tab_1", "lead", TAUGHT).metrics
    frame = chain.table("examples", DAYS[3]).query("surface == 'tab_1'")
    assert (lead.num_rows, lead.num_positives) == (
        len(frame),
        sum(int(i.split(":")[1]) % 3 == 0 for i in frame.impression_id),
    )
    assert report.find("tab_0", "lead", GEM).metrics.state is MetricState.NO_ROWS
    assert report.to_dict()["judged_dates"]["order"] == [DAYS[2]]


def test_the_table_names_the_impressions_that_a_delayed_cell_is_about(chain, monkeypatch):
    monkeypatch.setattr("gem_pipeline.runs.results.judged_cells", lambda _: [("all", "click"), ("tab_1", "lead")])
    report = evaluate(str(chain.contract_path), str(chain.home), DAYS[4:], QUICK)
    text = text_table(report)
    assert f"impressions of {DAYS[3]}, whose lead labels are final:" in text
    assert text.count("labels are final") == 1


def test_later_arrivals_change_no_label_of_an_earlier_day(own):
    before = load_day(own.contract, own.home, DAYS[3])
    own.credit(DAYS[1], (f"{DAYS[1]}:1", "order", DAYS[4]), (f"{DAYS[1]}:2", "lead", DAYS[4]))
    after = load_day(own.contract, own.home, DAYS[3])
    assert np.array_equal(before.label_NK, after.label_NK)
    assert finished(own.plan(DAYS[3])) is not None
    own.credit(DAYS[1], (f"{DAYS[1]}:1", "order", DAYS[3]))
    assert load_day(own.contract, own.home, DAYS[3]).label_NK.sum() == before.label_NK.sum() + 1


def test_a_late_conversion_is_noticed_by_the_tasks_that_read_it(own):
    tasks = {task: task_fingerprint(own.plan(DAYS[3]), own.contract, task) for task in TASKS}
    own.credit(DAYS[1], (f"{DAYS[1]}:1", "order", DAYS[3]))
    changed = {task for task in TASKS if task_fingerprint(own.plan(DAYS[3]), own.contract, task) != tasks[task]}
    assert changed == {"foundation", "baseline", "verticals"}
    assert finished(own.plan(DAYS[3], tasks=("score",))) is not None
    assert finished(own.plan(DAYS[3], tasks=("foundation",))) is None


@pytest.mark.parametrize("tasks", [("foundation",), ("baseline",), ("verticals",)])
def test_a_matured_partition_without_a_gate_is_never_read(own, tasks):
    marker_path(own.home, "attributed_conversions", DAYS[0]).unlink()
    with pytest.raises(GateError, match=f"attributed_conversions, date {DAYS[0]}, has no quality gate"):
        own.train(DAYS[2], tasks=tasks, seed=1)


def test_scores_need_no_conversions(own):
    marker_path(own.home, "attributed_conversions", DAYS[0]).unlink()
    own.train(DAYS[2], tasks=("score",), seed=1)


def test_a_day_trained_twice_is_done_once(chain):
    assert all(model.unchanged for day in DAYS for model in finished(chain.plan(day)).models)


def test_a_model_that_is_not_there_has_learnt_nothing(chain):
    assert learnt_conversions(chain.home, "none") == frozenset()
