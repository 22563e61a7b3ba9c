"""Evaluate what was scored before it was learnt: per surface, objective and model, with intervals.

The gem's scores come from `teacher_outputs`, the others' from `predictions`, labels from `examples` and
`attributed_conversions`. On a day the columns of the impressions are judged for that day, and each conversion for
the day whose labels mature on it. Every model of a cell is judged on the same rows. The constant base rate is that
of all labels known before the judged day. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from gem_pipeline.batches.labels import partition_labels
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.errors import PartitionError
from gem_pipeline.metrics.cell import CellRule
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.pooling import (
    Comparison,
    ComparisonRow,
    ScoredRows,
    TableRow,
    comparison_rows,
    pool_days,
    table_rows,
)
from gem_pipeline.metrics.state import Estimate, MetricState, metric_to_json
from gem_pipeline.metrics.transfer_ratio import transfer_ratio
from gem_pipeline.runs.records import learnt_conversions
from gem_pipeline.training.maturity import MaturedDay, matured_days
from gem_pipeline.training.plan import GEM, LOGISTIC, base_rates, partition_dates, vertical_key, vertical_model

BASE_RATE, ALONE, TAUGHT = "base_rate", "vertical_alone", "vertical_kd"
MODEL_ORDER = (BASE_RATE, LOGISTIC, GEM, ALONE, TAUGHT)


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Results over some scored days.

    Attributes:
        dates: days pooled.
        judged: by objective, the dates of the impressions that are judged on these days.
        rows: one a surface x objective x model.
        comparisons: relative NE of pairs of models.
        transfer: transfer ratio by vertical key.
    """

    dates: tuple[str, ...]
    judged: dict[str, tuple[str, ...]]
    rows: list[TableRow]
    comparisons: list[ComparisonRow]
    transfer: dict[str, Estimate | MetricState]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form."""
        return {
            "dates": list(self.dates),
            "judged_dates": {objective: list(dates) for objective, dates in self.judged.items()},
            "rows": [row.to_dict() for row in self.rows],
            "comparisons": [row.to_dict() for row in self.comparisons],
            "transfer_ratio": {key: metric_to_json(value) for key, value in self.transfer.items()},
        }

    def find(self, surface: str, objective: str, model: str) -> TableRow | None:
        """The row of a cell and model, if there is one."""
        wanted = (surface, objective, model)
        return next((row for row in self.rows if (row.surface, row.objective, row.model) == wanted), None)


def scored_dates(contract: DataContract, home: Path) -> tuple[str, ...]:
    """Days that the teacher has scored, oldest first."""
    return partition_dates(home, tables.teacher_outputs(contract).name)


def evaluate(contract_path: str, home: str, dates: tuple[str, ...], config: BootstrapConfig) -> EvaluationReport:
    """Evaluate all models over some scored days, pooled.

    Raises:
        PartitionError: none of the days was scored.
    """
    contract = load_contract(Path(contract_path))
    known = set(scored_dates(contract, Path(home)))
    chosen = tuple(date for date in dates if date in known)
    if not chosen:
        raise PartitionError(
            f"Table teacher_outputs has no scores for {', '.join(dates)}.",
            remedy="Materialise teacher_outputs for a day that has an earlier foundation model.",
        )
    days = [day for date in chosen for day in judged_days(contract, date, known)]
    rows = pool_days([_load(contract, Path(home), day) for day in days])
    names = {"surfaces": contract.surfaces, "objectives": tuple(o.name for o in contract.objectives)}
    rule = CellRule(min_positives=contract.verticals.min_positives, min_negatives=contract.verticals.min_negatives)
    pairs = [(GEM, BASE_RATE), (GEM, LOGISTIC), (TAUGHT, ALONE), (TAUGHT, LOGISTIC)]
    wanted = [
        Comparison(model=a, baseline=b, model_runs=(a,), baseline_runs=(b,))
        for a, b in pairs
        if {a, b} <= set(rows.prob_by_model)
    ]
    return EvaluationReport(
        dates=chosen,
        judged={o.name: tuple(d.date for d in days if o.name in d.objectives) for o in contract.objectives},
        rows=table_rows(rows, config=config, rule=rule, **names),
        comparisons=comparison_rows(rows, wanted, config=config, **names),
        transfer=_transfer(contract, rows, config),
    )


def judged_days(contract: DataContract, date: str, scored: Iterable[str]) -> list[MaturedDay]:
    """What is judged on a date: its columns, and the conversions of older scored partitions that mature on it."""
    columns = MaturedDay(date=date, objectives=tuple(o.name for o in contract.column_objectives), as_of=date)
    return [columns, *matured_days(contract, date, scored)]


def load_day(contract: DataContract, home: Path, date: str) -> ScoredRows:
    """What is judged on a date: labels, and the probabilities of every model that scored their rows."""
    days = judged_days(contract, date, scored_dates(contract, home))
    return pool_days([_load(contract, home, day) for day in days])


def _load(contract: DataContract, home: Path, day: MaturedDay) -> ScoredRows:
    lake, date = home / "lake", day.date
    objectives = [o.name for o in contract.objectives]
    labels = partition_labels(contract, lake, date, day.as_of, columns=["user_id"])
    examples, chosen_K = labels.rows, np.isin(objectives, day.objectives)
    ids = examples["impression_id"].combine_chunks()
    place = np.array([contract.surfaces.index(name) for name in examples["surface"].to_pylist()], dtype=np.int64)
    columns = ["impression_id", "model_id", *(f"prob__{name}" for name in objectives)]
    teacher = _rows(lake, "teacher_outputs", date, columns)
    taken = teacher.take(_positions(ids, teacher, "teacher_outputs", date))
    probs: dict[str, npt.NDArray[np.float64]] = {
        BASE_RATE: _constant(contract, home, date, place),
        GEM: np.stack([taken[f"prob__{name}"].to_numpy() for name in objectives], axis=1).astype(np.float64),
    }
    learnt = learnt_conversions(home, str(taken["model_id"][0].as_py()))
    for k, o in enumerate(contract.objectives):
        if o.conversion is not None and o.name not in learnt:
            probs[GEM][:, k] = np.nan  # it had not had a label yet, so it does not score
    probs |= _predictions(contract, lake, date, ids, place)
    return ScoredRows(
        surface_N=place,
        user_N=examples["user_id"].to_numpy(),
        label_NK=labels.label_NK.astype(np.float64) * chosen_K,
        mask_NK=labels.mask_NK & chosen_K,
        prob_by_model={name: probs[name] for name in MODEL_ORDER if name in probs},
    )


def _rows(lake: Path, table: str, date: str, columns: list[str]) -> pa.Table:
    return DeltaTable(str(lake / table)).to_pyarrow_table(filters=[("date", "=", date)], columns=columns)


def _positions(ids: pa.Array, rows: pa.Table, table: str, date: str) -> pa.Array:
    position = pc.index_in(ids, rows["impression_id"].combine_chunks())
    if position.null_count:
        raise PartitionError(
            f"Table {table} lacks {position.null_count} of {len(ids)} impressions of {date}.",
            remedy=f"The examples were derived again since: materialise {table} for this date.",
        )
    return position


def _constant(contract: DataContract, home: Path, date: str, place: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The base rate of every surface and objective before the day; the pooled one where a surface had no rows.

    Where no label was known, a column's rate is a half, and a conversion has none (NaN).
    """
    rates = base_rates(contract, home, date)
    unknown = {o.name: 0.5 if o.conversion is None else np.nan for o in contract.objectives}
    table_SK = np.array(
        [
            [rates[surface].get(o.name, rates["all"].get(o.name, unknown[o.name])) for o in contract.objectives]
            for surface in contract.surfaces
        ]
    )
    return table_SK[place]


def _predictions(
    contract: DataContract, lake: Path, date: str, ids: pa.Array, place: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.float64]]:
    """Probabilities [N, K] of the baseline and of the verticals by arm; NaN where a model does not score."""
    path = str(lake / tables.predictions().name)
    if not DeltaTable.is_deltatable(path):
        return {}
    rows = _rows(lake, "predictions", date, ["model", "objective", "impression_id", "prob"])
    position = pc.index_in(rows["impression_id"].combine_chunks(), ids)
    rows = rows.append_column("row", position).filter(pc.is_valid(position))
    sources = [(LOGISTIC, LOGISTIC, o.name) for o in contract.objectives]
    for surface in contract.surfaces:
        for o in contract.objectives:
            key = vertical_key(surface, o.name)
            sources += [(arm, vertical_model(key, short), o.name) for arm, short in ((ALONE, "alone"), (TAUGHT, "kd"))]
    found: dict[str, npt.NDArray[np.float64]] = {}
    objectives = [o.name for o in contract.objectives]
    for name, stored, objective in sources:
        part = rows.filter(pc.and_(pc.equal(rows["model"], stored), pc.equal(rows["objective"], objective)))
        if part.num_rows:
            grid = found.setdefault(name, np.full((len(place), len(objectives)), np.nan))
            grid[part["row"].to_numpy(), objectives.index(objective)] = part["prob"].to_numpy()
    return found


def _transfer(contract: DataContract, rows: ScoredRows, config: BootstrapConfig) -> dict[str, Estimate | MetricState]:
    if not {ALONE, TAUGHT} <= set(rows.prob_by_model):
        return {}
    ratios: dict[str, Estimate | MetricState] = {}
    for s, surface in enumerate(contract.surfaces):
        for k, objective in enumerate(contract.objectives):
            probs = {name: rows.prob_by_model[name][:, k] for name in (ALONE, TAUGHT, GEM)}
            chosen = (rows.surface_N == s) & rows.mask_NK[:, k]
            chosen &= ~np.isnan(np.stack(list(probs.values()))).any(axis=0)
            if chosen.any():
                ratios[vertical_key(surface, objective.name)] = transfer_ratio(
                    rows.label_NK[chosen, k], alone_N=probs[ALONE][chosen], taught_N=probs[TAUGHT][chosen],
                    teacher_N=probs[GEM][chosen], user_N=rows.user_N[chosen], config=config,
                )  # fmt: skip
    return ratios
