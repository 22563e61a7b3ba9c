"""The frozen model of the day before scores a day; the model of the day goes on from it."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from gem_pipeline.batches.encoded_day import day_batches
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.config import ladder
from gem_pipeline.errors import ConfigError, GateError, ModelStoreError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.day import train_day
from gem_pipeline.runs.foundation import loss_metrics, rebuild
from gem_pipeline.runs.lineage import rebuild_rows
from gem_pipeline.serving.scoring import load_model
from gem_pipeline.training.loop import LossCurve, score
from gem_pipeline.training.plan import GEM
from gem_pipeline.training.settings import NegativeSampling
from tests.chain_factory import same_weights
from tests.lake_factory import DAYS


def teacher_rows(chain, date):
    return chain.table("teacher_outputs", date).set_index("impression_id").sort_index()


def test_the_first_day_has_no_teacher_and_every_later_one_has(chain):
    assert chain.reports[DAYS[0]].teacher_outputs == {}
    assert chain.table("teacher_outputs", DAYS[0]).empty
    for date in DAYS[1:]:
        assert chain.reports[date].teacher_outputs["rows"] == len(chain.table("teacher_outputs", date)) == 240


def test_a_day_is_scored_by_the_stored_model_of_the_day_before(chain):
    parts = chain.read(DAYS[2])
    teacher = chain.store.require(GEM, DAYS[1])
    scores = score(rebuild(teacher, parts[0].layout), (b for part in parts for b in day_batches(part, batch_size=512)))
    ids = [i for part in parts for i in part.impression_ids.to_pylist()]
    rows = teacher_rows(chain, DAYS[2]).loc[ids]
    assert np.array_equal(rows.prob__click.to_numpy(), scores.prob_NK[:, 0])
    assert np.array_equal(np.stack(rows.representation), scores.representation_ND)
    assert set(rows.model_id) == {teacher.model_id}
    assert set(rows.trained_through) == {DAYS[1]}


def test_scores_of_a_day_do_not_depend_on_its_labels(own):
    before = teacher_rows(own, DAYS[2])
    labels = own.table("examples", DAYS[2]).filter(like="label__")
    own.rewrite_examples(DAYS[2], **{name: 1 - labels[name] for name in labels})
    train_day(own.plan(DAYS[2], tasks=("score",)))
    after = teacher_rows(own, DAYS[2])
    assert np.array_equal(before.prob__like, after.prob__like)


def test_a_day_goes_on_from_the_weights_and_the_optimiser_of_the_day_before(chain):
    steps = [int(chain.store.require(GEM, date).optimizer()["steps"][0]) for date in DAYS]
    assert steps[1] == 2 * steps[0]
    assert steps[2] == 3 * steps[0]
    assert chain.store.require(GEM, DAYS[1]).config()["parent_model_id"] == chain.store.require(GEM, DAYS[0]).model_id
    assert not same_weights(chain.weights(GEM, DAYS[0]), chain.weights(GEM, DAYS[1]))


def test_moments_of_the_dense_inputs_are_fixed_when_the_chain_starts(chain):
    first, last = chain.weights(GEM, DAYS[0]), chain.weights(GEM, DAYS[2])
    fixed = [name for name in first if name.startswith("normalize.")]
    assert fixed
    assert all(torch.equal(first[name], last[name]) for name in fixed)


def test_a_counter_that_is_empty_when_the_chain_starts_is_heard_once_it_counts(own):
    empty = own.table("examples", DAYS[0]).filter(like="count__user").columns.tolist()
    assert empty
    own.rewrite_examples(DAYS[0], **dict.fromkeys(empty, 0))
    shutil.rmtree(own.store.root / GEM)
    for date in DAYS[:2]:
        own.forget(date, "foundation")
        train_day(own.plan(date, tasks=("foundation",)))
    first, second = (own.weights(GEM, date)["normalize.scale_F"] for date in DAYS[:2])
    assert ((first == 0) & (second > 0)).any()
    assert torch.equal(first[first > 0], second[first > 0])


def test_a_process_killed_between_model_and_record_makes_the_same_model_again(own):
    before, report = own.weights(GEM, DAYS[2]), own.reports[DAYS[2]]
    own.forget(DAYS[2], "foundation")
    again = train_day(own.plan(DAYS[2]))
    assert same_weights(own.weights(GEM, DAYS[2]), before)
    assert [m.model_id for m in again.models] == [m.model_id for m in report.models]
    assert [m.unchanged for m in again.models] == [m.name != GEM for m in again.models]


def test_training_again_from_nothing_but_the_parent_gives_the_same_weights(own):
    before = own.weights(GEM, DAYS[2])
    own.forget(DAYS[2], "foundation")
    path = own.store.require(GEM, DAYS[2]).path
    path.rename(path.with_name("gone"))
    train_day(own.plan(DAYS[2], tasks=("foundation",)))
    assert same_weights(own.weights(GEM, DAYS[2]), before)


def read_as(monkeypatch, **settings):
    """Let size tiny read its days in another way."""
    monkeypatch.setitem(ladder.SIZES, "tiny", lambda: replace(ladder.tiny(), reading=ReaderConfig(**settings)))


def test_a_day_that_every_pass_reads_again_gives_the_same_weights_and_scores(own, monkeypatch):
    read_as(monkeypatch, keep_day=False, prefetch=2)
    weights, scores = own.weights(GEM, DAYS[2]), teacher_rows(own, DAYS[2])
    for task in ("score", "foundation"):
        own.forget(DAYS[2], task)
    path = own.store.require(GEM, DAYS[2]).path
    path.rename(path.with_name("gone"))
    train_day(own.plan(DAYS[2], tasks=("score", "foundation")))
    assert same_weights(own.weights(GEM, DAYS[2]), weights)
    assert teacher_rows(own, DAYS[2]).equals(scores)


def test_a_day_is_trained_in_little_memory_with_shared_histories_and_batches_of_events(own, monkeypatch):
    read_as(monkeypatch, keep_day=False, max_resident_bytes=40_000, share_histories=True, batch_events=400)
    scores = teacher_rows(own, DAYS[2])
    for task in ("score", "foundation"):
        own.forget(DAYS[2], task)
    (report,) = train_day(own.plan(DAYS[2], tasks=("score", "foundation"), seed=5)).models
    assert report.metrics["examples"] == 2 * 240  # every example once in each of two epochs
    again = teacher_rows(own, DAYS[2])
    assert np.allclose(again.prob__click, scores.prob__click, atol=1e-6)


def test_a_run_may_learn_from_a_share_of_the_negatives(own, monkeypatch):
    run = ladder.tiny()
    half = NegativeSampling(share=0.5)
    sampling = replace(
        run,
        training=replace(run.training, negatives=half),
        vertical_training=replace(run.vertical_training, negatives=half),
    )
    monkeypatch.setitem(ladder.SIZES, "tiny", lambda: sampling)
    for task in ("foundation", "verticals"):
        own.forget(DAYS[2], task)
    models = train_day(own.plan(DAYS[2], tasks=("foundation", "verticals"), seed=6)).models
    examples = {model.name: model.metrics["examples"] for model in models}
    whole = {model.name: model.metrics["examples"] for model in own.reports[DAYS[2]].models}
    assert all(0 < examples[name] < whole[name] for name in examples)
    assert GEM in examples
    assert len(examples) > 1


def replayed(chain, date, **changes):
    return train_day(chain.plan(date, tasks=("foundation",), replay_days=1, **changes))


def test_a_replayed_day_is_learnt_again_beside_the_day_itself(own):
    (model,) = replayed(own, DAYS[2]).models
    assert model.metrics["examples"] == 2 * 2 * 240  # two days in each of two epochs
    assert not same_weights(own.weights(GEM, DAYS[2]), own.weights(GEM, DAYS[1]))
    learnt = {read["date"] for read in own.store.require(GEM, DAYS[2]).config()["rows"]}
    assert learnt == {DAYS[1], DAYS[2]}


def test_a_chain_that_starts_late_starts_from_all_the_days_that_it_replays(own):
    cold = replayed(own, DAYS[2], previous_date=None, seed=7)
    own.forget(DAYS[2], "foundation")
    alone = train_day(own.plan(DAYS[2], tasks=("foundation",), previous_date=None, seed=7))
    many, one = (report.models[0].metrics["examples"] for report in (cold, alone))
    assert many == 2 * one


@pytest.mark.parametrize("previous", [DAYS[1], None])
def test_weights_of_pairs_learn_from_a_day_when_it_is_new_and_from_no_second_pass(own, monkeypatch, previous):
    heard = []
    original = FoundationModel.expect_news
    monkeypatch.setattr(
        FoundationModel, "expect_news", lambda model, news: (heard.append(news), original(model, news))
    )  # fmt: skip
    replayed(own, DAYS[2], previous_date=previous)
    first, second = heard[: len(heard) // 2], heard[len(heard) // 2 :]
    assert sorted(first) == ([False, True] if previous else [True, True])
    assert second == [False, False]


def test_a_replayed_day_that_changed_is_learnt_anew_and_one_that_is_not_replayed_is_not(own):
    replayed(own, DAYS[2])
    assert replayed(own, DAYS[2]).models[0].unchanged
    own.rewrite_examples(DAYS[0], label__like=0)
    assert replayed(own, DAYS[2]).models[0].unchanged
    own.rewrite_examples(DAYS[1], label__like=0)
    assert not replayed(own, DAYS[2]).models[0].unchanged


def test_a_replayed_day_needs_its_gate(own):
    (own.home / "gates" / "examples" / f"{DAYS[1]}.json").unlink()
    with pytest.raises(GateError, match=DAYS[1]):
        replayed(own, DAYS[2])


@pytest.mark.parametrize("keep_day", [True, False])
def test_a_run_may_manage_its_id_tables_and_a_stored_model_scores_and_goes_on_as_the_trained_one(
    own, monkeypatch, keep_day
):
    run = replace(ladder.small(), foundation=replace(ladder.tiny().foundation, id_tables="lfu"))
    run = replace(run, reading=replace(run.reading, keep_day=keep_day))
    monkeypatch.setitem(ladder.SIZES, "tiny", lambda: run)
    shutil.rmtree(own.store.root / GEM)
    for place, date in enumerate(DAYS[:2]):
        own.forget(date, "foundation")
        train_day(own.plan(date, tasks=("foundation",)))
        stored = own.store.require(GEM, date)
        held = {name: value for name, value in stored.weights().items() if name.endswith("_mch_sorted_raw_ids")}
        free = torch.iinfo(torch.int64).max
        assert all(int((value != free).sum()) > 20 for name, value in held.items() if ".ad." in name)
        assert len(held) == len(InputLayout.from_dict(stored.config()["layout"]).tables) - 1
        if place == 0:
            before = {name: set(value.tolist()) for name, value in held.items()}
    assert all(before[name] <= set(value.tolist()) for name, value in held.items())  # nobody left: tables are large
    assert all(day.identical for day in rebuild_rows(stored, own.lake))
    own.forget(DAYS[2], "score")
    assert train_day(own.plan(DAYS[2], tasks=("score",))).teacher_outputs["model_id"] == stored.model_id
    parts = DayContext(own.plan(DAYS[2])).full_history
    served = load_model(stored.path).score(list(parts))
    told = teacher_rows(own, DAYS[2]).loc[parts.impression_ids().to_pylist()]
    assert parts.layout.whole_ids
    assert np.allclose(served, told[[f"prob__{o}" for o in parts.layout.objectives]], rtol=0, atol=1e-6)


def test_a_day_whose_parent_is_missing_is_refused(own):
    (own.store.root / GEM / DAYS[1] / "current.json").unlink()
    with pytest.raises(ModelStoreError, match=f"Model gem of date {DAYS[1]} does not exist"):
        train_day(own.plan(DAYS[2], tasks=("score",)))


def test_everything_that_rebuilds_a_model_is_stored_with_it(chain):
    config = chain.store.require(GEM, DAYS[0]).config()
    assert (config["kind"], config["date"], config["seed"], config["size"]) == ("foundation", DAYS[0], 0, "tiny")
    assert config["contract_hash"] == DayContext(chain.plan(DAYS[0])).contract.content_hash
    assert config["parent_model_id"] is None


def test_losses_are_told_at_both_ends():
    curve = LossCurve(losses=[4.0, *[2.0] * 18, 1.0], grad_norms=[1.0] * 20, num_examples=200)
    metrics = loss_metrics(curve, 4.0)
    assert (metrics["loss_first"], metrics["loss_last"], metrics["examples_per_s"]) == (3.0, 1.5, 50.0)


@pytest.mark.parametrize("size", ["small", "base", "tiny+light+identical_treatment+tower"])
def test_the_size_of_a_run_reaches_the_trained_model_and_the_next_day_goes_on_from_it(own, size):
    for place, date in enumerate(DAYS[1:3]):
        own.forget(date, "foundation")
        shutil.rmtree(own.store.root / GEM / date)
        parent = DAYS[1] if place else None
        (report,) = train_day(own.plan(date, previous_date=parent, tasks=("foundation",), size=size)).models
        strengths = [value for name, value in report.metrics.items() if name.startswith("strength/")]
        assert len(strengths) == min(5, report.metrics.get("crossed_features", 0))
        assert bool(strengths) == (ladder.run_config(size).foundation.pair_rows > 0)
        gates = {name for name in report.metrics if name.startswith("gate/")}
        assert bool(gates) == bool(ladder.run_config(size).foundation.tower_hidden)
    stored = own.store.require(GEM, DAYS[2])
    assert rebuild(stored, own.read(DAYS[2])[0].layout).config == ladder.run_config(size).foundation
    assert stored.config()["parent_model_id"] == own.store.require(GEM, DAYS[1]).model_id


@pytest.mark.parametrize("task", ["score", "foundation"])
def test_a_chain_does_not_go_on_in_another_shape_than_it_began_in(own, task):
    plan = own.plan(DAYS[2], tasks=(task,), size="tiny+static_y")
    with pytest.raises(ConfigError, match=f"Model gem of {DAYS[1]} is of size 'tiny', .* asks for 'tiny.static_y'"):
        train_day(plan)


def test_an_unknown_variant_of_a_plan_is_refused_with_the_known_ones(own):
    with pytest.raises(ConfigError, match=r"variants that do not exist: \['dark'\]"):
        train_day(own.plan(DAYS[2], tasks=("foundation",), size="tiny+dark"))
