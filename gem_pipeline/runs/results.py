"""The results of an evaluation as a table for the terminal, a picture and a JSON document."""

from __future__ import annotations

import io
from collections.abc import Iterable

from gem_pipeline.metrics.pooling import ALL, TableRow
from gem_pipeline.metrics.state import Estimate, MetricState
from gem_pipeline.runs.evaluation import ALONE, BASE_RATE, MODEL_ORDER, TAUGHT, EvaluationReport
from gem_pipeline.training.plan import GEM, LOGISTIC, split_vertical

LABELS = {
    BASE_RATE: "base rate",
    LOGISTIC: "logistic regression",
    GEM: "GEM",
    ALONE: "vertical, no teacher",
    TAUGHT: "vertical, KD",
}
COLORS = {BASE_RATE: "#bbbbbb", LOGISTIC: "#8da0cb", GEM: "#d95f02", ALONE: "#a6d854", TAUGHT: "#1b9e77"}


def judged_cells(report: EvaluationReport) -> list[tuple[str, str]]:
    """Surface and objective of every cell with enough rows to be judged, all surfaces pooled first."""
    cells = [(row.surface, row.objective) for row in report.rows if row.model == GEM and row.metrics.judged]
    return sorted(cells, key=lambda cell: cell[0] != ALL)


def text_table(report: EvaluationReport) -> str:
    """One line a surface, objective and model: NE, AUC, calibration with 95 % intervals, rows and positives."""
    header = (
        f"{'surface':<8} {'objective':<14} {'model':<21} {'NE':<22} {'AUC':<22} {'calibration':<22} rows (positives)"
    )
    lines = [header, "-" * len(header)]
    for surface, objective in judged_cells(report):
        lines.extend(_when(report, objective))
        for row in _cell(report, surface, objective):
            metrics = row.metrics
            lines.append(
                f"{surface:<8} {objective:<14} {LABELS[row.model]:<21} {interval(metrics.ne):<22} "
                f"{interval(metrics.auc):<22} {interval(metrics.calibration):<22} "
                f"{metrics.num_rows} ({metrics.num_positives})"
            )
        lines.append("")
    return "\n".join(lines)


def delayed_dates(report: EvaluationReport, objective: str) -> tuple[str, ...]:
    """Dates of the impressions that an objective is judged on, where these are not the days of the report."""
    judged = report.judged[objective]
    return () if judged == report.dates else judged


def _when(report: EvaluationReport, objective: str) -> list[str]:
    delayed = delayed_dates(report, objective)
    return [f"impressions of {', '.join(delayed)}, whose {objective} labels are final:"] if delayed else []


def transfer_table(report: EvaluationReport) -> str:
    """What distillation gave each vertical: relative NE against no teacher, and the transfer ratio."""
    lines = [f"{'vertical':<26} {'NE, KD against alone':<28} transfer ratio"]
    for key, ratio in report.transfer.items():
        surface, objective = split_vertical(key)
        found = [c for c in report.comparisons if (c.surface, c.objective, c.model) == (surface, objective, TAUGHT)]
        change = next((percent(c.difference.relative) for c in found if c.baseline == ALONE), "")
        lines.append(f"{key:<26} {change:<28} {interval(ratio)}")
    return "\n".join(lines)


def verdicts(report: EvaluationReport, *, model: str, baseline: str) -> list[str]:
    """One sentence a judged cell: relative NE of a model against a baseline."""
    judged = set(judged_cells(report))
    return [
        f"{row.surface:<8} {row.objective:<14} {percent(row.difference.relative)}"
        for row in report.comparisons
        if (row.model, row.baseline) == (model, baseline) and (row.surface, row.objective) in judged
    ]


def _cell(report: EvaluationReport, surface: str, objective: str) -> Iterable[TableRow]:
    rows = [row for row in report.rows if (row.surface, row.objective) == (surface, objective)]
    scored = [row for row in rows if row.metrics.state is not MetricState.PARTLY_SCORED]
    return sorted(scored, key=lambda row: MODEL_ORDER.index(row.model))


def interval(metric: Estimate | MetricState | float) -> str:
    """A value with its interval, or the named reason why there is none."""
    if isinstance(metric, Estimate):
        return f"{metric.value:.4f} [{metric.low:.4f},{metric.high:.4f}]"
    return str(metric) if isinstance(metric, MetricState) else f"{metric:.4f}"


def percent(metric: Estimate | MetricState) -> str:
    """A relative difference in percent with its interval; negative is better."""
    if isinstance(metric, MetricState):
        return str(metric)
    return f"{100 * metric.value:+.2f} % [{100 * metric.low:+.2f},{100 * metric.high:+.2f}]"


def _tick(report: EvaluationReport, surface: str, objective: str) -> str:
    delayed = delayed_dates(report, objective)
    return f"{objective}\n{surface}" + (f"\n{delayed[0]} ... {delayed[-1]}" if delayed else "")


def picture(report: EvaluationReport, title: str) -> bytes:
    """NE of every model in every judged cell with intervals, as a PNG; 1 is a constant at the cell's base rate."""
    from matplotlib.figure import Figure

    cells = judged_cells(report)
    figure = Figure(figsize=(max(7.0, 1.25 * len(cells)), 4.6), layout="constrained")
    axes = figure.subplots()
    for place, model in enumerate(MODEL_ORDER):
        offset = (place - (len(MODEL_ORDER) - 1) / 2) * 0.16
        for x, (surface, objective) in enumerate(cells):
            row = report.find(surface, objective, model)
            if row is not None and isinstance(row.metrics.ne, Estimate):
                ne = row.metrics.ne
                error = [[ne.value - ne.low], [ne.high - ne.value]]
                axes.errorbar(x + offset, ne.value, yerr=error, fmt="o", color=COLORS[model], markersize=6, capsize=2)
        axes.plot([], [], "o", color=COLORS[model], label=LABELS[model])
    axes.axhline(1.0, color="#888888", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(cells)), [_tick(report, *cell) for cell in cells], fontsize=8)
    axes.set_ylabel("normalized entropy (lower is better)")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, ncols=len(MODEL_ORDER), loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
