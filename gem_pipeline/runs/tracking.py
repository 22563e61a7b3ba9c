"""Log a stored model: one run, its curves, the tables it read, its lineage, one registered version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gem_pipeline.contracts.tables import gate_date
from gem_pipeline.quality.gate import read_gate
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.records import ModelReport
from gem_pipeline.training.store import StoredModel
from gem_pipeline.training.tracker import RunHeader, TableInput

CURVE_POINTS = 50  # a longer curve is thinned to at most so many steps


def track_model(
    context: DayContext,
    stored: StoredModel,
    *,
    metrics: Mapping[str, float],
    params: Mapping[str, str | int | float | bool],
    lineage: Mapping[str, str],
    curves: Mapping[str, Sequence[float]] | None = None,
) -> ModelReport:
    """Log and register a model once; a rerun that made the same model finds its run.

    Args:
        context: the day.
        stored: the model.
        metrics: numbers of its training.
        params: sizes and rates.
        lineage: `previous_model_id`, `teacher_model_id`, `teacher_run_id` where they apply.
        curves: numbers by step.
    """
    report = {"name": stored.name, "date": stored.date, "model_id": stored.model_id, "metrics": dict(metrics),
              "seconds": metrics.get("train_s", 0.0)}  # fmt: skip
    known = context.tracker.find(stored.name, stored.date, stored.model_id)
    if known is not None and known.registered_version is not None:
        return ModelReport(**report, mlflow_run_id=known.run_id, registered_version=known.registered_version)
    header = RunHeader(
        name=stored.name,
        date=stored.date,
        model_id=stored.model_id,
        params=params,
        tags={"contract": context.contract.name, "contract_hash": context.contract.content_hash, **lineage},
        inputs=table_inputs(context),
    )
    with context.tracker.start_run(header) as run:
        run.log_metrics(metrics)
        for name, values in (curves or {}).items():
            stride = max(1, -(-len(values) // CURVE_POINTS))
            for step in range(0, len(values), stride):
                run.log_metrics({name: values[step]}, step=step)
        version = run.log_model(stored.path)
    return ModelReport(**report, mlflow_run_id=run.run_id, registered_version=version)


def table_inputs(context: DayContext) -> list[TableInput]:
    """The tables a model of this day read, with the Delta version in force."""
    inputs = []
    for table, version in context.versions.items():
        marker = read_gate(context.home, table, gate_date(table, context.plan.date))
        path = str(context.lake / table)
        if marker is not None:
            inputs.append(TableInput(name=table, path=path, version=version, digest=marker.content_hash))
    return inputs
