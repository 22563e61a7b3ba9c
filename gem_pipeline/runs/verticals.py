"""The vertical models' day: each scores its cell, then learns from it, without and with the teacher."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import ConfigError, PartitionError
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from gem_pipeline.runs.context import DayContext, label_rates
from gem_pipeline.runs.foundation import loss_metrics, model_config
from gem_pipeline.runs.moments import dense_moments
from gem_pipeline.runs.records import (
    DayReport,
    ModelReport,
    learnt_conversions,
    model_date,
    model_id_in_force,
    vertical_cells,
    vertical_parent,
)
from gem_pipeline.runs.tracking import track_model
from gem_pipeline.training.loop import LossCurve, learn
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.plan import ARMS, GEM, digest, vertical_model
from gem_pipeline.training.sampling import sample_cell
from gem_pipeline.training.seeding import numpy_generator, seed_torch
from gem_pipeline.training.store import StoredModel
from gem_pipeline.transfer.distillation import VerticalLoss
from gem_pipeline.transfer.teacher_outputs import prediction_rows, read_teacher, write_predictions

SCORING_BATCH = 1024


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """The teacher's soft labels of a day, by `Batch.example_B`; None on the first day of a chain."""

    model_id: str | None
    prob_NK: torch.Tensor | None


NO_TEACHER = Teaching(model_id=None, prob_NK=None)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What an objective is learnt from on a day: examples whose labels are final, and their teacher's soft labels."""

    parts: list[EncodedDay]
    teaching: Teaching


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The examples of one surface on a day that have one objective, or will have once it is mature."""

    key: str
    surface: str
    objective: int
    rows: list[tuple[EncodedDay, npt.NDArray[np.int64]]]

    def batches(self, *, batch_size: int, generator: np.random.Generator | None = None) -> Iterator[Batch]:
        """Batches of the cell, shuffled within user buckets by `generator`."""
        for part, index in self.rows:
            order = index if generator is None else generator.permutation(index)
            for first in range(0, len(order), batch_size):
                yield part.batch(order[first : first + batch_size])

    @property
    def impression_ids(self) -> pa.Array:
        """Ids in the order of `batches` without a generator."""
        return pa.concat_arrays([part.impression_ids.take(pa.array(index)) for part, index in self.rows])


def run_verticals(context: DayContext, fingerprint: str) -> DayReport:
    """Score and train every vertical of the plan, in both arms; a cell without examples that day is left out.

    The vertical of a conversion scores the day and learns from the partition whose labels mature on it.

    Raises:
        ConfigError: a key names no surface and objective of the contract.
        PartitionError: the day has a teacher, but not its outputs.
    """
    plan = context.plan
    started = time.perf_counter()
    parts = context.read(plan.date, window=context.run.vertical.history)
    lessons = _lessons(context, parts)
    report, predictions = DayReport(date=plan.date), []
    work = [(key, surface, objective, arm) for key, surface, objective in vertical_cells(plan) for arm in ARMS]
    for key, surface, objective, arm in context.progress.track(work, label=f"{plan.date} verticals", total=len(work)):
        cell = scored_cell(context.contract, parts, key, surface, objective)
        before = vertical_parent(plan, vertical_model(key, arm))
        parent = context.store.current(vertical_model(key, arm), before) if before else None
        if parent is not None and cell.rows:
            predictions.append(_score(context, parent, cell, vertical_model(key, arm)))
        if (lesson := lessons.get(objective)) is None:
            continue
        learnt = select_cell(lesson.parts, key, surface, objective)
        if learnt.rows:
            report.models.append(_train(context, learnt, arm, parent, lesson.teaching, fingerprint))
    if predictions:
        write_predictions(context.lake, date=plan.date, columns=predictions)
    report.seconds["verticals"] = time.perf_counter() - started
    return report


def select_cell(parts: list[EncodedDay], key: str, surface: str, objective: str) -> Cell:
    """Examples of a surface that have an objective; parts without any are left out.

    Raises:
        ConfigError: the contract has no such surface or objective.
    """
    k = _place(parts[0].layout, key, surface, objective)[1]
    return _cell(parts, key, surface, objective, [part.mask_NK[:, k] for part in parts])


def scored_cell(contract: DataContract, parts: list[EncodedDay], key: str, surface: str, objective: str) -> Cell:
    """Examples of a surface to score: those that have the objective, and for a conversion those that will have it."""
    delayed = {o.name: o for o in contract.conversion_objectives}
    if objective not in delayed:
        return select_cell(parts, key, surface, objective)
    optimised = not delayed[objective].surfaces or surface in delayed[objective].surfaces
    return _cell(parts, key, surface, objective, [np.full(part.size, optimised) for part in parts])


def _cell(parts: list[EncodedDay], key: str, surface: str, objective: str, has_it: list[npt.NDArray[np.bool_]]) -> Cell:
    place, k = _place(parts[0].layout, key, surface, objective)
    chosen = [
        (part, np.flatnonzero((part.surface_N == place) & mask_N)) for part, mask_N in zip(parts, has_it, strict=True)
    ]
    return Cell(key=key, surface=surface, objective=k, rows=[(part, index) for part, index in chosen if len(index)])


def _place(layout: InputLayout, key: str, surface: str, objective: str) -> tuple[int, int]:
    if surface not in layout.surfaces or objective not in layout.objectives:
        raise ConfigError(
            f"Vertical {key} names no surface and objective of the contract.",
            remedy="Name it <surface>__<objective>.",
        )
    return layout.surfaces.index(surface), layout.objectives.index(objective)


def rebuild(stored: StoredModel, cell: Cell) -> VerticalModel:
    """A stored vertical model with its weights."""
    model = VerticalModel(cell.rows[0][0].layout, VerticalConfig.from_dict(stored.config()["model"]))
    model.load_state_dict(stored.weights())
    return model


def _lessons(context: DayContext, parts: list[EncodedDay]) -> dict[str, Lesson]:
    """By objective: a column is learnt from the plan's day, a conversion from the partition that matures on it."""
    today = Lesson(parts=parts, teaching=_teaching(context, parts))
    lessons = {o.name: today for o in context.contract.column_objectives}
    asked = {objective for _, _, objective in vertical_cells(context.plan)}
    for day in context.matured:
        if asked & set(day.objectives):
            window = context.run.vertical.history
            older = context.read(day.date, window=window, as_of=day.as_of, objectives=day.objectives)
            for objective in day.objectives:
                teaching = _matured_teaching(context, older, day.date, objective)
                lessons[objective] = Lesson(parts=older, teaching=teaching)
    return lessons


def _teaching(context: DayContext, parts: list[EncodedDay]) -> Teaching:
    date = context.plan.date
    if context.plan.previous_date is None:
        return NO_TEACHER
    found = _soft_labels(context, parts, date)
    if found is None:
        raise PartitionError(
            f"Table teacher_outputs has no rows for date {date}, so the taught verticals have no teacher.",
            remedy="Materialise teacher_outputs for this date first.",
        )
    return found


def _matured_teaching(context: DayContext, parts: list[EncodedDay], date: str, objective: str) -> Teaching:
    """Soft labels of an older partition; none where its teacher had not yet had a label of the objective."""
    found = _soft_labels(context, parts, date)
    if found is None or objective not in learnt_conversions(context.home, found.model_id or ""):
        return NO_TEACHER
    return found


def _soft_labels(context: DayContext, parts: list[EncodedDay], date: str) -> Teaching | None:
    ids = pa.concat_arrays([part.impression_ids for part in parts])
    found = read_teacher(context.contract, context.lake, date=date, teacher=GEM, impression_ids=ids)
    return None if found is None else Teaching(model_id=found[0], prob_NK=torch.from_numpy(found[1]))


@torch.no_grad()
def score_cell(model: VerticalModel, cell: Cell) -> npt.NDArray[np.float32]:
    """Probabilities of the serving head in the order of `Cell.impression_ids`."""
    model.eval()
    logits = [model(batch).logit_B for batch in cell.batches(batch_size=SCORING_BATCH)]
    return torch.sigmoid(torch.cat(logits)).numpy()


def _score(context: DayContext, parent: StoredModel, cell: Cell, name: str) -> pa.Table:
    return prediction_rows(
        date=context.plan.date, model=name, model_id=parent.model_id, trained_through=parent.date,
        objective=cell.rows[0][0].layout.objectives[cell.objective], impression_ids=cell.impression_ids,
        prob_N=score_cell(rebuild(parent, cell), cell),
    )  # fmt: skip


def new_vertical(cell: Cell, config: VerticalConfig) -> VerticalModel:
    """A vertical model that starts from the cell's base rate and dense moments."""
    parts = [part for part, _ in cell.rows]
    model = VerticalModel(parts[0].layout, config)
    rate_SK = label_rates(parts)
    model.init_bias(float(rate_SK[parts[0].layout.surfaces.index(cell.surface), cell.objective]))
    model.init_dense(*(torch.from_numpy(moment) for moment in dense_moments(parts)))
    return model


def _train(
    context: DayContext, cell: Cell, arm: str, parent: StoredModel | None, teaching: Teaching, fingerprint: str
) -> ModelReport:
    plan, run, name = context.plan, context.run, vertical_model(cell.key, arm)
    started = time.perf_counter()
    seed_torch(plan.seed, "vertical", cell.key, plan.date)  # both arms start from the same weights
    model = rebuild(parent, cell) if parent else new_vertical(cell, run.vertical)
    if parent:
        model.init_dense(*map(torch.from_numpy, dense_moments(part for part, _ in cell.rows)), late=True)
    optimizer = ModelOptimizer(model, run.vertical_training)
    if parent:
        optimizer.load_state(parent.optimizer())
    rows = sample_cell(cell.rows, cell.objective, run.vertical_training.negatives, seed=plan.seed)
    learnt = replace(cell, rows=rows)
    loss = VerticalLoss(cell.objective, teaching.prob_NK if arm == "kd" else None, run.distillation)
    curve = LossCurve()
    size = run.vertical_training.batch_size
    steps = sum(-(-len(index) // size) for _, index in learnt.rows)
    optimizer.begin_day(steps * run.vertical_training.epochs)
    for epoch in range(run.vertical_training.epochs):
        order = numpy_generator(plan.seed, "vertical", cell.key, plan.date, str(epoch))
        learn(model, optimizer, learnt.batches(batch_size=size, generator=order), loss, curve)
    metrics = loss_metrics(curve, time.perf_counter() - started)
    stored = context.store.save(
        name,
        plan.date,
        digest(name, fingerprint),
        weights=optimizer.served_weights(),
        optimizer=optimizer.state(),
        config=model_config(
            "vertical",
            context,
            model.layout.to_dict(),
            model.config.to_dict(),
            parent,
            window=run.vertical.history,
            dates={plan.date, *(day.date for day in context.matured)},
        )
        | {"surface": cell.surface, "objective": model.layout.objectives[cell.objective], "arm": arm},
        report={"metrics": metrics},
    )
    lineage = _lineage(context, arm, parent, teaching)
    params: dict[str, str | int | float | bool] = {"arm": arm, "size": plan.size, "seed": plan.seed}
    return track_model(context, stored, metrics=metrics, params=params, lineage=lineage, curves={"loss": curve.losses})


def _lineage(context: DayContext, arm: str, parent: StoredModel | None, teaching: Teaching) -> dict[str, str]:
    lineage = {"previous_model_id": parent.model_id} if parent else {}
    if arm == "kd" and teaching.model_id:
        lineage["teacher_model_id"] = teaching.model_id
        date = model_date(context.home, GEM, teaching.model_id)
        if date is not None and model_id_in_force(context.home, GEM, date) == teaching.model_id:
            known = context.tracker.find(GEM, date, teaching.model_id)
            lineage |= {"teacher_run_id": known.run_id} if known else {}
    return lineage
