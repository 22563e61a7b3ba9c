"""The logistic regression's day: fitted on earlier days it scores the day, then it is fitted again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import torch

from gem_pipeline.batches.encoded_day import EncodedDay, day_batches
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.runs.context import DayContext, only
from gem_pipeline.runs.foundation import SCORING_BATCH, model_config
from gem_pipeline.runs.records import DayReport
from gem_pipeline.runs.tracking import track_model
from gem_pipeline.training.logistic import LogisticBaseline, LogisticConfig, fit_logistic, load_logistic
from gem_pipeline.training.logistic_inputs import HISTORY_EVENTS, LogisticRows, concatenate_rows, rows_of_batches
from gem_pipeline.training.plan import LOGISTIC, digest, example_dates
from gem_pipeline.training.store import StoredModel
from gem_pipeline.transfer.teacher_outputs import prediction_rows, write_predictions

BASELINE_WINDOW = WindowSpec(max_events=HISTORY_EVENTS)
TUNED_DAYS = 3  # while the window is at most so long, C is tuned afresh every day


def fitted_days(context: DayContext) -> dict[str, tuple[str, ...]]:
    """Days that the baseline is fitted on, oldest first, and the objectives whose labels of them it learns.

    Each objective has a window of the newest days on which it is mature, the plan's day included.
    """
    there = [day for day in example_dates(context.contract, context.home) if day <= context.plan.date]
    wanted: dict[str, list[str]] = {context.plan.date: []}
    for o in context.contract.objectives:
        mature = [day for day in there if o.is_mature(day, context.plan.date)]
        for day in mature[-context.run.baseline_days :]:
            wanted.setdefault(day, []).append(o.name)
    return {day: tuple(wanted[day]) for day in sorted(wanted)}


def has_conversions(contract: DataContract, objectives: Iterable[str]) -> bool:
    """Whether one of some objectives is a conversion."""
    return bool({o.name for o in contract.conversion_objectives} & set(objectives))


def run_baseline(context: DayContext, fingerprint: str) -> DayReport:
    """Score the day with the baseline of the day before, then fit a window of days up to this one.

    C is tuned afresh while the window has at most `TUNED_DAYS` days. A longer window takes over the C of the
    baseline of the day before, which is then settled, and saves most of the fitting; an objective that had none
    there (it had one class) is tuned.
    """
    plan = context.plan
    started = time.perf_counter()
    today = context.read(plan.date, window=BASELINE_WINDOW)
    parent = context.store.current(LOGISTIC, plan.previous_date) if plan.previous_date else None
    known = load_logistic(parent) if parent is not None else None
    if parent is not None and known is not None:
        _score(context, known, parent, _rows(today, day=0), today)
    window = fitted_days(context)
    rows = [
        _rows(only(today if day == plan.date else _earlier(context, day), names), day=place - len(window) + 1)
        for place, (day, names) in enumerate(window.items())
    ]
    fitted = fit_logistic(
        concatenate_rows(rows), today[0].layout.objectives, config=LogisticConfig(),
        inverse_penalties=_settled(known, window),
    )  # fmt: skip
    arrays, config = fitted.to_arrays()
    seconds = time.perf_counter() - started
    metrics = {"train_s": seconds, "examples": float(sum(part.inputs.size for part in rows))}
    metrics |= {f"c_{name}": c for name, c in fitted.inverse_penalties.items()}
    stored = context.store.save(
        LOGISTIC,
        plan.date,
        digest(LOGISTIC, fingerprint),
        weights={name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()},
        config=model_config(
            "logistic", context, today[0].layout.to_dict(), config, parent, window=BASELINE_WINDOW, dates=window
        ),
        report={"metrics": metrics},
    )
    params: dict[str, str | int | float | bool] = {"days": len(window)}
    report = track_model(context, stored, metrics=metrics, params=params, lineage={})
    return DayReport(date=plan.date, models=[report], seconds={"baseline": seconds})


def _earlier(context: DayContext, day: str) -> list[EncodedDay]:
    return context.read(day, window=BASELINE_WINDOW, as_of=context.plan.date)


def _settled(known: LogisticBaseline | None, window: dict[str, tuple[str, ...]]) -> dict[str, float] | None:
    """The C of every objective whose window is long enough; None where none is."""
    if known is None:
        return None
    days = Counter(name for names in window.values() for name in names)
    return {name: c for name, c in known.inverse_penalties.items() if days[name] > TUNED_DAYS} or None


def _rows(parts: list[EncodedDay], *, day: int) -> LogisticRows:
    batches = (batch for part in parts for batch in day_batches(part, batch_size=SCORING_BATCH))
    order_N = np.concatenate([part.as_of_N for part in parts])
    return rows_of_batches(batches, parts[0].layout, day=day, order_N=order_N)


def _score(
    context: DayContext, baseline: LogisticBaseline, stored: StoredModel, rows: LogisticRows, today: list[EncodedDay]
) -> None:
    prob_NK = baseline.predict(rows.inputs)
    ids = pa.concat_arrays([part.impression_ids for part in today])
    tables = [
        prediction_rows(
            date=context.plan.date, model=LOGISTIC, model_id=stored.model_id, trained_through=context.trained_through,
            objective=objective, impression_ids=ids, prob_N=prob_NK[:, k].astype(np.float32),
        )
        for k, objective in enumerate(baseline.models)
    ]  # fmt: skip
    write_predictions(context.lake, date=context.plan.date, columns=tables)
