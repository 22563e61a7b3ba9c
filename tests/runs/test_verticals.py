"""Every vertical is trained in two arms that differ by nothing but the teacher."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest

from gem_pipeline.errors import ConfigError, PartitionError
from gem_pipeline.models.vertical import VerticalConfig
from gem_pipeline.runs.day import train_day
from gem_pipeline.runs.verticals import new_vertical, rebuild, score_cell, select_cell
from gem_pipeline.training.loop import DayScores
from gem_pipeline.training.plan import ARMS, split_vertical, vertical_model
from gem_pipeline.training.seeding import seed_torch
from gem_pipeline.transfer.teacher_outputs import write_teacher_outputs
from tests.chain_factory import VERTICALS, same_weights
from tests.lake_factory import DAYS, contract
from tests.runs.test_tracking import NotingTracker


def cell_of(chain, date, key):
    return select_cell(chain.read(date, VerticalConfig().history), key, *split_vertical(key))


def predictions(chain, date, name):
    frame = chain.table("predictions", date)
    return frame[frame.model == name].set_index("impression_id")


def train_again(chain, date, **options):
    """Train the verticals of a day as if they had never been."""
    chain.forget(date, "verticals")
    for key in VERTICALS:
        for arm in ARMS:
            shutil.rmtree(chain.store.root / vertical_model(key, arm) / date)
    return train_day(chain.plan(date, tasks=("verticals",)), **options)


def invert_teacher(chain, date):
    """Let the same teacher say the contrary about every impression."""
    frame = chain.table("teacher_outputs", date)
    names = [f"prob__{o.name}" for o in contract().objectives]
    scores = DayScores(prob_NK=1 - frame[names].to_numpy(), representation_ND=np.stack(frame.representation))
    write_teacher_outputs(
        contract(), chain.lake, date=date, teacher="gem", model_id=frame.model_id[0],
        trained_through=frame.trained_through[0], impression_ids=pa.array(frame.impression_id), scores=scores,
    )  # fmt: skip


@pytest.mark.parametrize("key", VERTICALS)
def test_both_arms_are_equal_until_there_is_a_teacher(chain, key):
    alone, taught = (vertical_model(key, arm) for arm in ARMS)
    assert same_weights(chain.weights(alone, DAYS[0]), chain.weights(taught, DAYS[0]))
    assert not same_weights(chain.weights(alone, DAYS[1]), chain.weights(taught, DAYS[1]))


def test_both_arms_start_from_equal_weights(chain):
    cell = cell_of(chain, DAYS[0], VERTICALS[0])
    models = []
    for _ in ARMS:
        seed_torch(0, "vertical", cell.key, DAYS[0])
        models.append(new_vertical(cell, VerticalConfig()).state_dict())
    assert same_weights(*models)


def test_the_arm_alone_never_depends_on_teacher_outputs(own):
    names = {arm: vertical_model(VERTICALS[0], arm) for arm in ARMS}
    before = {arm: own.weights(name, DAYS[1]) for arm, name in names.items()}
    train_again(own, DAYS[1])
    assert all(same_weights(own.weights(name, DAYS[1]), before[arm]) for arm, name in names.items())
    invert_teacher(own, DAYS[1])
    train_again(own, DAYS[1])
    assert same_weights(own.weights(names["alone"], DAYS[1]), before["alone"])
    assert not same_weights(own.weights(names["kd"], DAYS[1]), before["kd"])


@pytest.mark.parametrize("arm", ARMS)
def test_a_cell_is_scored_by_the_stored_model_of_the_day_before(chain, arm):
    cell, name = cell_of(chain, DAYS[2], VERTICALS[0]), vertical_model(VERTICALS[0], arm)
    stored = chain.store.require(name, DAYS[1])
    rows = predictions(chain, DAYS[2], name)
    assert set(rows.index) == set(cell.impression_ids.to_pylist())
    assert np.array_equal(rows.prob[cell.impression_ids.to_pylist()], score_cell(rebuild(stored, cell), cell))
    assert set(rows.model_id) == {stored.model_id}
    assert set(rows.objective) == {"click"}


def test_what_is_predicted_was_learnt_before_the_day(chain):
    assert chain.table("predictions", DAYS[0]).empty
    for date in DAYS[1:]:
        assert (chain.table("predictions", date).trained_through < date).all()


def test_a_cell_holds_the_rows_of_its_surface_and_a_cell_without_any_is_left_out(own):
    cell = cell_of(own, DAYS[0], "tab_0__like")
    frame = own.table("examples", DAYS[0])
    assert set(cell.impression_ids.to_pylist()) == set(frame[frame.surface == "tab_0"].impression_id)
    report = train_day(own.plan(DAYS[0], tasks=("verticals",), verticals=("tab_6__like", "tab_0__like")))
    assert {model.name for model in report.models} == {vertical_model("tab_0__like", arm) for arm in ARMS}


def test_rows_without_the_label_are_no_part_of_the_cell(own):
    frame = own.table("examples", DAYS[0])
    hidden = frame.index % 2 == 0
    own.rewrite_examples(DAYS[0], label__like=frame.label__like.astype("Int8").mask(hidden))
    expected = set(frame[(frame.surface == "tab_0") & ~hidden].impression_id)
    assert set(cell_of(own, DAYS[0], "tab_0__like").impression_ids.to_pylist()) == expected


def test_shuffled_batches_hold_every_row_once(chain):
    cell = cell_of(chain, DAYS[0], VERTICALS[0])
    shuffled = [r for b in cell.batches(batch_size=7, generator=np.random.default_rng(0)) for r in b.example_B.tolist()]
    plain = [r for b in cell.batches(batch_size=7) for r in b.example_B.tolist()]
    assert shuffled != plain
    assert sorted(shuffled) == plain


def test_a_day_with_a_teacher_but_without_its_outputs_is_refused(own):
    shutil.rmtree(own.lake / "teacher_outputs")
    with pytest.raises(PartitionError, match=f"no rows for date {DAYS[1]}"):
        train_day(own.plan(DAYS[1], tasks=("verticals",)))


@pytest.mark.parametrize("key", ["tab_1__nothing", "nowhere__click", "tab_1"])
def test_a_vertical_that_the_contract_does_not_know_is_refused(own, key):
    with pytest.raises(ConfigError, match=f"Vertical {key} names no surface and objective"):
        train_day(own.plan(DAYS[0], tasks=("verticals",), verticals=(key,)))


def test_lineage_names_the_teacher_of_the_taught_arm_only(own):
    tracker = NotingTracker()
    train_again(own, DAYS[1], tracker=tracker)
    tags = {header.name: header.tags for header in tracker.headers}
    teacher = own.reports[DAYS[1]].teacher_outputs["model_id"]
    for key in VERTICALS:
        alone, taught = (vertical_model(key, arm) for arm in ARMS)
        assert tags[taught]["teacher_model_id"] == teacher
        assert "teacher_model_id" not in tags[alone]
        assert tags[alone]["previous_model_id"] == own.store.require(alone, DAYS[0]).model_id
