"""The foundation model's day: the frozen model of d-1 scores it, then the model of d learns from it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.sources import PartSource
from gem_pipeline.batches.stream import BatchStream
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.runs.context import DayContext, label_rates
from gem_pipeline.runs.lineage import lineage_of
from gem_pipeline.runs.moments import fit_moments
from gem_pipeline.runs.records import DayReport
from gem_pipeline.runs.tracking import track_model
from gem_pipeline.training.loop import LossCurve, joint_loss, learn, score
from gem_pipeline.training.maturity import MaturedDay
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.plan import GEM, digest
from gem_pipeline.training.sampling import sample_negatives
from gem_pipeline.training.seeding import numpy_generator, seed_torch
from gem_pipeline.training.store import StoredModel
from gem_pipeline.transfer.teacher_outputs import write_teacher_outputs

SCORING_BATCH = 512
PAIRS_TOLD = 5  # crossed features whose strengths are tracked
GATES_TOLD = 5  # features of the network over ids whose gates are


def score_day(context: DayContext, parts: PartSource) -> DayReport:
    """Score a day with the model of the day before: its evaluation and the teacher output at once."""
    report = DayReport(date=context.plan.date)
    previous = context.plan.previous_date
    if previous is None:  # the chain starts here: there is no teacher yet
        return report
    started = time.perf_counter()
    teacher = _of_this_size(context, context.store.require(GEM, previous))
    model = rebuild(teacher, parts.layout)
    batches = context.stream(parts, batch_size=SCORING_BATCH)
    label = f"{context.plan.date} gem scores"
    scores = score(model, context.progress.track(batches, label=label, total=len(batches)))
    write_teacher_outputs(
        context.contract,
        context.lake,
        date=context.plan.date,
        teacher=GEM,
        model_id=teacher.model_id,
        trained_through=context.trained_through,
        impression_ids=parts.impression_ids(),
        scores=scores,
    )
    report.teacher_outputs = {"teacher": GEM, "model_id": teacher.model_id, "rows": len(scores.prob_NK)}
    report.seconds["score"] = time.perf_counter() - started
    return report


def _of_this_size(context: DayContext, stored: StoredModel) -> StoredModel:
    """The model of the day before; a chain goes on in the shape that it began in.

    Raises:
        ConfigError: the plan asks for another size, or variant of one.
    """
    config = stored.config()
    if FoundationConfig.from_dict(config["model"]) != context.run.foundation:
        raise ConfigError(
            f"Model {stored.name} of {stored.date} is of size {config['size']!r}, the plan of {context.plan.date} asks "
            f"for {context.plan.size!r}.",
            remedy="Go on with the size that the chain began in, or start another chain in a GEM_HOME of its own.",
        )
    return stored


def rebuild(stored: StoredModel, layout: InputLayout) -> FoundationModel:
    """A stored foundation model with its weights, on the layout of the examples."""
    model = FoundationModel(layout, FoundationConfig.from_dict(stored.config()["model"]))
    model.load_state_dict(stored.weights())
    return model


def train_foundation(context: DayContext, parts: PartSource, fingerprint: str) -> DayReport:
    """Train the model of the day before on this day, then on the conversions that mature on it; cold at the start.

    Days that the plan replays are learnt again with the day itself, each pass in another order of days.
    """
    plan, run = context.plan, context.run
    started = time.perf_counter()
    parent = _of_this_size(context, context.store.require(GEM, plan.previous_date)) if plan.previous_date else None
    seed_torch(plan.seed, GEM, plan.date)
    model = rebuild(parent, parts.layout) if parent else FoundationModel(parts.layout, run.foundation)
    days = {plan.date: parts} | context.replayed
    if parent is None:
        by_surface = not model.config.surfaces_alike
        model.init_bias(torch.from_numpy(label_rates(_all_parts(days), by_surface=by_surface)))
    # A later day is measured by its first slice of users where it is not kept in memory.
    measured = _all_parts(days) if parent is None or run.reading.keep_day else islice(parts, 1)
    fit_moments(model, measured, late=parent is not None)
    optimizer = ModelOptimizer(model, run.training)
    if parent:
        optimizer.load_state(parent.optimizer())
    matured = {day: context.matured_source(day) for day in context.matured}
    sampling = run.training.negatives
    learnt_of = {day: sample_negatives(source, sampling, seed=plan.seed) for day, source in matured.items()}
    learnt_days = {date: sample_negatives(source, sampling, seed=plan.seed) for date, source in days.items()}
    learnt = set(parent.config().get("learnt", ())) if parent else set()
    for day, source in matured.items():
        if fresh := set(day.objectives) - learnt:
            learnt |= _start_heads(model, optimizer, source, fresh)
    curve = LossCurve()
    for epoch in range(run.training.epochs):
        passes = _passes(context, learnt_days, learnt_of, epoch, cold=parent is None)
        if epoch == 0:
            optimizer.begin_day(sum(len(each.batches) for each in passes) * run.training.epochs)
        for each in passes:
            model.expect_news(each.is_news)
            shown = context.progress.track(each.batches, label=each.label, total=len(each.batches))
            learn(model, optimizer, _admitted(model, optimizer, shown), joint_loss, curve)
    seconds = time.perf_counter() - started
    return _store(context, model, optimizer, curve, parent, fingerprint=fingerprint, seconds=seconds, learnt=learnt)


def _all_parts(days: Mapping[str, PartSource]) -> Iterator[EncodedDay]:
    return chain.from_iterable(days.values())


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """Batches that are learnt, what they are called, and whether the model reads their labels for the first time."""

    label: str
    batches: BatchStream
    is_news: bool


def _passes(
    context: DayContext,
    days: Mapping[str, PartSource],
    matured: Mapping[MaturedDay, PartSource],
    epoch: int,
    *,
    cold: bool,
) -> list[_Pass]:
    """One pass over everything that is learnt on a date: days in any order, then conversions.

    The order of days is drawn for each pass: the model shall end neither on the oldest nor always on the newest.
    """
    plan, size = context.plan, context.run.training.batch_size
    purpose = (plan.seed, GEM, plan.date, str(epoch))
    dates, passes = list(days), []
    for place in numpy_generator(*purpose, "days").permutation(len(dates)).tolist():
        today = dates[place] == plan.date
        label = f"{plan.date} gem learns" + ("" if today else f" {dates[place]} again")
        order = numpy_generator(*purpose) if today else numpy_generator(*purpose, "again", dates[place])
        batches = context.stream(days[dates[place]], batch_size=size, generator=order)
        is_news = epoch == 0 and (today or cold)  # a cold model has not learnt the replayed days before
        passes.append(_Pass(label=label, batches=batches, is_news=is_news))
    for day, source in matured.items():
        order = numpy_generator(*purpose, day.date)
        batches = context.stream(source, batch_size=size, generator=order)
        passes.append(_Pass(label=f"{plan.date} gem learns of {day.date}", batches=batches, is_news=epoch == 0))
    return passes


def _admitted(model: FoundationModel, optimizer: ModelOptimizer, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches whose ids have found their rows; rows that pass from one id to another begin anew."""
    for batch in batches:
        if model.managed is not None:
            optimizer.restart_rows(model.managed.admit(model.attended(batch).ids))
        yield batch


def _start_heads(
    model: FoundationModel, optimizer: ModelOptimizer, source: PartSource, objectives: set[str]
) -> set[str]:
    """Start the heads of conversions from the base rates of their first labels; returns those that had labels."""
    rate_SK = label_rates(source, by_surface=not model.config.surfaces_alike)
    fresh_K = np.isin(source.layout.objectives, list(objectives))
    rate_SK[:, ~fresh_K] = np.nan
    optimizer.reset(lambda: model.init_bias(torch.from_numpy(rate_SK)))
    return {name for k, name in enumerate(source.layout.objectives) if not np.isnan(rate_SK[:, k]).all()}


def _store(
    context: DayContext,
    model: FoundationModel,
    optimizer: ModelOptimizer,
    curve: LossCurve,
    parent: StoredModel | None,
    *,
    fingerprint: str,
    seconds: float,
    learnt: set[str],
) -> DayReport:
    plan = context.plan
    model_id = digest(GEM, fingerprint)
    metrics = loss_metrics(curve, seconds) | pair_metrics(model) | gate_metrics(model)
    stored = context.store.save(
        GEM,
        plan.date,
        model_id,
        weights=optimizer.served_weights(),
        optimizer=optimizer.state(),
        config=model_config(
            "foundation",
            context,
            model.layout.to_dict(),
            model.config.to_dict(),
            parent,
            window=context.run.foundation.read_window,
            dates=[plan.date, *context.replayed, *(day.date for day in context.matured)],
        )
        | {"learnt": sorted(learnt)},
        report={"metrics": metrics, "losses": curve.losses},
    )
    curves = {"loss": curve.losses, "grad_norm": curve.grad_norms}
    lineage = {"previous_model_id": parent.model_id} if parent else {}
    model_report = track_model(
        context, stored, metrics=metrics, curves=curves, params=_params(context), lineage=lineage
    )
    return DayReport(date=plan.date, models=[model_report], seconds={"foundation": seconds})


def model_config(
    kind: str,
    context: DayContext,
    layout: dict[str, Any],
    model: dict[str, Any],
    parent: StoredModel | None,
    *,
    window: WindowSpec,
    dates: Iterable[str],
) -> dict[str, Any]:
    """Configuration stored with a model: all that a fresh process needs to rebuild and explain it.

    `window` and `dates` say what it was trained on.
    """
    return {
        "kind": kind,
        "layout": layout,
        "model": model,
        "contract": context.contract.model_dump(mode="json"),
        "contract_hash": context.contract.content_hash,
        "date": context.plan.date,
        "seed": context.plan.seed,
        "size": context.plan.size,
        "parent_model_id": parent.model_id if parent else None,
        **lineage_of(context.versions, context.reads, window=window, dates=dates, reading=context.run.reading),
    }


def loss_metrics(curve: LossCurve, seconds: float) -> dict[str, float]:
    """Numbers of a training: losses at both ends (mean of a tenth of the steps), speed, volume."""
    tenth = max(1, len(curve.losses) // 10)
    return {
        "loss_first": float(np.mean(curve.losses[:tenth])),
        "loss_last": float(np.mean(curve.losses[-tenth:])),
        "grad_norm": float(np.mean(curve.grad_norms)),
        "examples": float(curve.num_examples),
        "examples_per_s": curve.num_examples / seconds,
        "train_s": seconds,
    }


def pair_metrics(model: FoundationModel) -> dict[str, float]:
    """How many features are crossed, and the strengths of those that count the most."""
    if model.pairs is None:
        return {}
    crossed = float(model.pairs.is_heard().sum())
    told = model.pairs.strongest(PAIRS_TOLD)
    return {"crossed_features": crossed} | {f"strength/{other}_x_{ad}": value for (other, ad), value in told.items()}


def gate_metrics(model: FoundationModel) -> dict[str, float]:
    """How wide the widest gates of the network over ids are."""
    if model.tower is None:
        return {}
    return {f"gate/{name}": value for name, value in model.tower.widest(GATES_TOLD).items()}


def _params(context: DayContext) -> dict[str, str | int | float | bool]:
    training = context.run.training
    chosen = {name: getattr(training, name) for name in ("batch_size", "epochs", "dense_lr", "embedding_lr")}
    plan = context.plan
    return {"size": plan.size, "seed": plan.seed, "replay_days": plan.replay_days, **chosen}
