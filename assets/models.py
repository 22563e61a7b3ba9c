"""What the model assets tell: numbers by model, links to MLflow runs, bars by metric."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow.compute as pc
from deltalake import DeltaTable

from assets.reports import data_version_of, materialized
from gem_pipeline.contracts import tables
from gem_pipeline.training.plan import GEM, vertical_model
from resources.launcher import Report
from resources.plots import bars
from resources.settings import GemSettings

PLOTTED = (
    ("loss_", "loss over the first and the last tenth of the day", "log loss"),
    ("c_", "inverse penalty, chosen by cross-validation", "C"),
)


def score_result(
    context: dg.AssetExecutionContext, key: str, settings: GemSettings, reports: Mapping[str, Report]
) -> dg.MaterializeResult:
    """The teacher's outputs of each date; the first date of a chain has no teacher."""
    told = {date: report["teacher_outputs"] for date, report in reports.items()}
    numbers: dict[str, dict[str, Any]] = {
        date: {"dagster/row_count": outputs.get("rows", 0), "teacher_model_id": outputs.get("model_id", "none"),
               "seconds": round(reports[date]["seconds"].get("score", 0.0), 2)}
        for date, outputs in told.items()
    }  # fmt: skip
    for date, outputs in told.items():
        if outputs and (rates := teacher_rates(settings, date)):
            numbers[date]["plot"] = bars(rates, title=f"mean probability on {date}", unit="probability")
    return materialized(context, key, {date: data_version_of(date, outputs) for date, outputs in told.items()}, numbers)


def model_results(
    context: dg.AssetExecutionContext, key: str, reports: Mapping[str, Report], name: str
) -> dg.MaterializeResult:
    """The model of each date; a date on which it could not be trained says so."""
    models = {date: [m for m in report["models"] if m["name"] == name] for date, report in reports.items()}
    return materialized(
        context,
        key,
        {date: found[0]["model_id"] if found else "none" for date, found in models.items()},
        {date: model_numbers(found) for date, found in models.items()},
    )


def vertical_results(
    context: dg.AssetExecutionContext,
    key: str,
    reports: Mapping[str, Report],
    partitions: list[str],
    arms: tuple[str, ...],
) -> dg.MaterializeResult:
    """The models of each date and vertical, all arms of a cell together."""
    fingerprints, numbers = {}, {}
    for partition in partitions:
        date, _, vertical = partition.partition("|")
        names = {vertical_model(vertical, arm) for arm in arms}
        found = [model for model in reports[date]["models"] if model["name"] in names]
        fingerprints[partition] = data_version_of([model["model_id"] for model in found])
        numbers[partition] = model_numbers(found)
    return materialized(context, key, fingerprints, numbers)


def model_numbers(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Metadata of the models of one partition: metrics, seconds, MLflow run and version; a bar plot of one model."""
    if not models:
        return {"state": "no model: the day has too few examples of the cell, or the chain starts here"}
    numbers: dict[str, Any] = {}
    for model in models:
        prefix = "" if len(models) == 1 else f"{model['name']}/"
        numbers |= {f"{prefix}{metric}": value for metric, value in sorted(model["metrics"].items())}
        numbers[f"{prefix}seconds"] = round(model["seconds"], 2)
        numbers[f"{prefix}unchanged"] = model["unchanged"]
        numbers[f"{prefix}mlflow_run"] = model["mlflow_run_id"] or "none"
        numbers[f"{prefix}registered_version"] = model["registered_version"] or 0
    return numbers | learning_plot(models)


def learning_plot(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Bars of the first kind of metric that the models have: losses, else the penalties that were chosen."""
    for word, title, unit in PLOTTED:
        values = {
            metric if len(models) == 1 else f"{model['name']} {metric}": value
            for model in models
            for metric, value in model["metrics"].items()
            if metric.startswith(word)
        }
        if values:
            return {"plot": bars(values, title=title, unit=unit)}
    return {}


def teacher_rates(settings: GemSettings, date: str) -> dict[str, float]:
    """Mean of the teacher's probabilities of a day by objective."""
    schema = tables.teacher_outputs(settings.load_contract())
    if not DeltaTable.is_deltatable(settings.table_uri(schema.name)):
        return {}
    columns = [name for name in schema.column_names if name.startswith("prob__")]
    chosen = [("date", "=", date), ("teacher", "=", GEM)]
    rows = DeltaTable(settings.table_uri(schema.name)).to_pyarrow_table(filters=chosen, columns=columns)
    return {name.removeprefix("prob__"): pc.mean(rows[name]).as_py() for name in columns} if rows.num_rows else {}
