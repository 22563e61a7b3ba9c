"""Evaluation: every model of a day on the same examples, none of which it had learned from."""

from typing import Any

import dagster as dg

from assets.partitions import DAYS, ONE_RUN, asset
from assets.reports import data_version_of, materialized
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import Estimate
from gem_pipeline.runs.evaluation import EvaluationReport, evaluate, scored_dates
from resources.plots import bars
from resources.settings import GemSettings

INTERVALS = BootstrapConfig(resamples=200, auc_resamples=50)  # of a day in the UI; `gem demo` draws more, pooled


@asset(
    group_name="evaluation", kinds={"python"}, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN,
    deps=["teacher_outputs", "vertical_models", "logistic_regression", "attributed_conversions"],
)  # fmt: skip
def evaluation(context: dg.AssetExecutionContext, settings: GemSettings) -> dg.MaterializeResult:
    """NE, AUC and calibration with intervals by surface, objective and model; none on the first day of a chain."""
    contract, home = str(settings.contract_path()), str(settings.home_path())
    scored = set(scored_dates(settings.load_contract(), settings.home_path()))
    reports = {
        date: evaluate(contract, home, (date,), INTERVALS) if date in scored else None
        for date in context.partition_keys
    }
    versions = {date: data_version_of(found.to_dict() if found else None) for date, found in reports.items()}
    return materialized(context, "evaluation", versions, {date: numbers(found) for date, found in reports.items()})


def numbers(report: EvaluationReport | None) -> dict[str, Any]:
    """The results of a day: a table, and the pooled normalized entropy of each objective and model as bars."""
    if report is None:
        return {"state": "not scored: the chain starts here, so no model had seen an earlier day"}
    rows = report.rows
    entropy = {
        f"{row.objective} {row.model}": row.metrics.ne.value
        for row in rows
        if row.surface == "all" and isinstance(row.metrics.ne, Estimate)
    }
    records = [
        dg.TableRecord({"impressions of": ", ".join(report.judged[row.objective]), "surface": row.surface,
                        "objective": row.objective, "model": row.model,
                        "NE": _text(row.metrics.ne), "AUC": _text(row.metrics.auc),
                        "calibration": _text(row.metrics.calibration)})
        for row in rows
    ]  # fmt: skip
    return {
        "dagster/row_count": len(rows),
        "table": dg.MetadataValue.table(records),
        "plot": bars(entropy, title="normalized entropy over all surfaces (1: the base rate)", unit="NE", line=1.0),
    }


def _text(metric: object) -> str:
    if isinstance(metric, Estimate):
        return f"{metric.value:.4f} [{metric.low:.4f}, {metric.high:.4f}]"
    return str(metric)
