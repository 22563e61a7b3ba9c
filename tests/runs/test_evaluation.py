"""Models are judged on what they had not seen, joined by impression, all on the same rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gem_pipeline.contracts import tables
from gem_pipeline.errors import PartitionError
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import Estimate, MetricState
from gem_pipeline.runs.evaluation import ALONE, BASE_RATE, MODEL_ORDER, TAUGHT, evaluate, load_day, scored_dates
from gem_pipeline.training.plan import GEM, LOGISTIC, vertical_model
from tests.chain_factory import VERTICALS
from tests.lake_factory import CONTRACT_PATH, DAYS, contract, put

QUICK = BootstrapConfig(resamples=30, auc_resamples=20)
OBJECTIVES = [o.name for o in contract().objectives]


def judge(chain, dates=DAYS):
    return evaluate(str(CONTRACT_PATH), str(chain.home), dates, QUICK)


def test_days_that_the_teacher_scored_are_pooled_and_the_first_one_is_not(chain):
    assert scored_dates(contract(), chain.home) == DAYS[1:]
    report = judge(chain)
    assert report.dates == DAYS[1:]
    assert report.find("all", "click", GEM).metrics.num_rows == 480


def test_where_nothing_was_scored_the_way_out_is_named(chain, tmp_path):
    assert scored_dates(contract(), tmp_path) == ()
    with pytest.raises(PartitionError, match=f"no scores for {DAYS[0]}"):
        judge(chain, DAYS[:1])


def test_scores_and_labels_are_joined_by_impression(chain):
    rows = load_day(contract(), chain.home, DAYS[2])
    examples = chain.table("examples", DAYS[2])
    assert np.array_equal(rows.user_N, examples.user_id)
    assert np.array_equal(rows.label_NK[:, 3], examples.label__like)
    teacher = chain.table("teacher_outputs", DAYS[2]).set_index("impression_id")
    assert np.allclose(rows.prob_by_model[GEM][:, 1], teacher.prob__long_view[examples.impression_id])
    predictions = chain.table("predictions", DAYS[2])
    taught = predictions[predictions.model == vertical_model(VERTICALS[0], "kd")].set_index("impression_id").prob
    here = (examples.surface == "tab_1").to_numpy()
    assert np.allclose(rows.prob_by_model[TAUGHT][here, 0], taught[examples.impression_id[here]])
    assert np.isnan(rows.prob_by_model[TAUGHT][~here, 0]).all()


def test_the_base_rate_is_that_of_the_labels_before_the_day(chain):
    rows = load_day(contract(), chain.home, DAYS[2])
    examples = chain.table("examples", DAYS[2])
    before = [chain.table("examples", date) for date in DAYS[:2]]
    for surface in ("tab_0", "tab_1"):
        labels = np.concatenate([frame[frame.surface == surface].label__follow for frame in before])
        here = (examples.surface == surface).to_numpy()
        assert np.allclose(rows.prob_by_model[BASE_RATE][here, OBJECTIVES.index("follow")], labels.mean())


def test_an_impression_without_teacher_output_is_refused(own):
    ids = own.table("examples", DAYS[2]).impression_id
    own.rewrite_examples(DAYS[2], impression_id=ids.where(ids.index > 1, ids + "-new"))
    with pytest.raises(PartitionError, match="teacher_outputs lacks 2 of 240 impressions"):
        judge(own)


def test_scores_follow_their_impression_when_the_rows_come_in_another_order(own):
    examples = own.table("examples", DAYS[2])
    own.rewrite_examples(DAYS[2], impression_id=examples.impression_id.to_numpy()[::-1])
    turned = load_day(contract(), own.home, DAYS[2])
    predictions = own.table("predictions", DAYS[2])
    clicks = predictions[(predictions.model == LOGISTIC) & (predictions.objective == "click")]
    expected = clicks.set_index("impression_id").prob[own.table("examples", DAYS[2]).impression_id]
    assert np.allclose(turned.prob_by_model[LOGISTIC][:, 0], expected)
    teacher = own.table("teacher_outputs", DAYS[2]).set_index("impression_id").prob__click
    assert np.allclose(turned.prob_by_model[GEM][:, 0], teacher[own.table("examples", DAYS[2]).impression_id])


def test_predictions_of_impressions_that_are_gone_are_left_out(own):
    predicted = own.table("predictions", DAYS[2])
    ids = predicted.impression_id.unique()
    schema = tables.examples(contract())
    put(own.home, contract(), schema, DAYS[2], own.table("examples", DAYS[2]).query("impression_id != @ids[0]"))
    rows = load_day(contract(), own.home, DAYS[2])
    assert len(rows.label_NK) == len(ids) - 1
    assert np.isfinite(rows.prob_by_model[LOGISTIC]).all()


def test_a_label_that_does_not_exist_counts_nowhere(own):
    labels = own.table("examples", DAYS[2]).label__click.astype("Int8")
    own.rewrite_examples(DAYS[2], label__click=labels.mask(labels.index < 100))
    rows = load_day(contract(), own.home, DAYS[2])
    assert rows.mask_NK[:, 0].sum() == 140
    assert rows.mask_NK[:, 1].all()
    assert judge(own, DAYS[2:]).find("all", "click", GEM).metrics.num_rows == 140


def test_a_cell_with_one_class_is_a_named_state(own):
    own.rewrite_examples(DAYS[2], label__follow=0)
    metrics = judge(own, DAYS[2:]).find("all", "follow", GEM).metrics
    assert (metrics.state, metrics.ne, metrics.auc) == (MetricState.ONE_CLASS,) * 3
    assert not metrics.judged


def test_every_model_is_judged_where_it_scored(chain):
    report = judge(chain)
    found = {(row.surface, row.objective, row.model) for row in report.rows}
    for model in (BASE_RATE, LOGISTIC, GEM):
        assert {("all", objective, model) for objective in OBJECTIVES} <= found
    assert {("tab_1", "click", model) for model in MODEL_ORDER} <= found
    assert ("tab_0", "click", TAUGHT) not in found
    assert report.find("all", "click", ALONE).metrics.state is MetricState.PARTLY_SCORED
    assert {(c.model, c.baseline) for c in report.comparisons} == {
        (GEM, BASE_RATE), (GEM, LOGISTIC), (TAUGHT, ALONE), (TAUGHT, LOGISTIC),
    }  # fmt: skip


def test_every_vertical_has_a_transfer_ratio_or_the_reason_why_not(chain):
    report = judge(chain)
    assert set(report.transfer) == set(VERTICALS)
    assert all(isinstance(ratio, Estimate | MetricState) for ratio in report.transfer.values())


def test_a_chain_without_verticals_is_evaluated_without_them(own):
    predictions = own.lake / "predictions"
    predictions.rename(own.home / "set_aside")
    report = judge(own, DAYS[2:])
    assert {row.model for row in report.rows} == {BASE_RATE, GEM}
    assert report.transfer == {}


def test_a_report_is_plain_json(chain):
    document = json.loads(json.dumps(judge(chain, DAYS[2:]).to_dict()))
    assert document["dates"] == [DAYS[2]]
    assert set(document["transfer_ratio"]) == set(VERTICALS)
