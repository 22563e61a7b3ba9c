"""Pool scored days and produce the table: one row a surface x objective x model.

Ours. Every model of a cell is evaluated on the same rows, or not at all: a model that scored none of a cell's rows has
no row there, one that scored some of them gets a row without values and the state `partly_scored`.
N rows of a day, K objectives, S seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.cell import CellMetrics, CellRule, evaluate_models, without_values
from gem_pipeline.metrics.comparison import NeDifference, relative_ne_difference
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.rows import FloatArray, IntArray
from gem_pipeline.metrics.state import MetricState

ALL = "all"  # every surface pooled, or every objective pooled


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredRows:
    """Rows of one or several days with the predictions of every model.

    Attributes:
        surface_N: position in the table's surfaces [N].
        user_N: user [N].
        label_NK: 0 or 1 [N, K]; any value where masked.
        mask_NK: whether the label exists [N, K].
        prob_by_model: probability [N, K] of each model; NaN where the model does not score the row.
    """

    surface_N: IntArray
    user_N: IntArray
    label_NK: FloatArray
    mask_NK: NDArray[np.bool_]
    prob_by_model: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        shape = self.label_NK.shape
        fits = len(shape) == 2 and self.mask_NK.shape == shape
        fits = fits and self.surface_N.shape == self.user_N.shape == shape[:1]
        strangers = [name for name, prob_NK in self.prob_by_model.items() if prob_NK.shape != shape]
        if not fits or strangers:
            raise ConfigError(
                f"Scored rows do not fit labels of shape {shape} (models that do not: {strangers}).",
                remedy="Give every array the rows of the day in the same order, and a column an objective.",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One row of the results table."""

    surface: str
    objective: str
    model: str
    metrics: CellMetrics

    def to_dict(self) -> dict[str, object]:
        """Plain JSON-ready form."""
        return {
            "surface": self.surface,
            "objective": self.objective,
            "model": self.model,
            **self.metrics.to_dict(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two models to compare, seed by seed.

    Attributes:
        model: name of the compared model.
        baseline: name of what it is compared with.
        model_runs: keys of `ScoredRows.prob_by_model`, one a seed.
        baseline_runs: the same for the baseline; run i is paired with run i.
    """

    model: str
    baseline: str
    model_runs: tuple[str, ...]
    baseline_runs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.model_runs or len(self.model_runs) != len(self.baseline_runs):
            raise ConfigError(
                f"{self.model} has {len(self.model_runs)} runs and {self.baseline} {len(self.baseline_runs)}.",
                remedy="Pair at least one run of each, seed by seed.",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonRow:
    """Relative NE of a model against a baseline, over the rows that all their runs scored."""

    surface: str
    objective: str
    model: str
    baseline: str
    difference: NeDifference

    def to_dict(self) -> dict[str, object]:
        """Plain JSON-ready form."""
        return {
            "surface": self.surface,
            "objective": self.objective,
            "model": self.model,
            "baseline": self.baseline,
            **self.difference.to_dict(),
        }


def pool_days(days: Sequence[ScoredRows]) -> ScoredRows:
    """Concatenate days; a model that is missing on a day scored none of its rows.

    Raises:
        ConfigError: there is no day.
    """
    if not days:
        raise ConfigError("There is no scored day to pool.", remedy="Score at least one day first.")
    names = list(dict.fromkeys(name for day in days for name in day.prob_by_model))
    return ScoredRows(
        surface_N=np.concatenate([day.surface_N for day in days]),
        user_N=np.concatenate([day.user_N for day in days]),
        label_NK=np.concatenate([day.label_NK for day in days]),
        mask_NK=np.concatenate([day.mask_NK for day in days]),
        prob_by_model={
            name: np.concatenate(
                [np.asarray(day.prob_by_model.get(name, np.full(day.label_NK.shape, np.nan))) for day in days]
            )
            for name in names
        },
    )


def table_rows(
    rows: ScoredRows,
    *,
    surfaces: Sequence[str],
    objectives: Sequence[str],
    config: BootstrapConfig,
    rule: CellRule,
) -> list[TableRow]:
    """Evaluate every model on every surface and on all of them pooled.

    Args:
        rows: pooled rows, see `pool_days`.
        surfaces: surface names in the order of `surface_N`.
        objectives: objective names in the order of the label columns.
        config: replicates, level and seed of the intervals.
        rule: when a cell is judged.

    Returns:
        Rows by objective, then surface ("all" first), then model; cells without any row are listed as `no_rows`.

    Raises:
        ConfigError: a surface position or the number of objectives does not fit, or a value breaks its rule.
    """
    _check_names(rows, surfaces=surfaces, objectives=objectives)
    table: list[TableRow] = []
    for surface, objective, column, chosen_N in _cells(rows, surfaces=surfaces, objectives=objectives):
        label_n = rows.label_NK[chosen_N, column]
        probs = {name: prob_NK[chosen_N, column] for name, prob_NK in rows.prob_by_model.items()}
        whole = {name: prob_n for name, prob_n in probs.items() if not np.isnan(prob_n).any()}
        evaluated = evaluate_models(label_n, whole, rows.user_N[chosen_N], config=config, rule=rule)
        partly = without_values(MetricState.PARTLY_SCORED, label_n, rows.user_N[chosen_N])
        table.extend(
            TableRow(surface=surface, objective=objective, model=name, metrics=evaluated.get(name, partly))
            for name, prob_n in probs.items()
            if name in evaluated or not np.isnan(prob_n).all()
        )
    return table


def comparison_rows(
    rows: ScoredRows,
    comparisons: Sequence[Comparison],
    *,
    surfaces: Sequence[str],
    objectives: Sequence[str],
    config: BootstrapConfig,
) -> list[ComparisonRow]:
    """Compare models on every cell, and once on all cells pooled (surface and objective "all").

    Each comparison uses the rows that all of its runs scored; a cell without such a row is left out.

    Raises:
        ConfigError: a run is unknown, or names do not fit the rows.
    """
    _check_names(rows, surfaces=surfaces, objectives=objectives)
    if unknown := {run for c in comparisons for run in (*c.model_runs, *c.baseline_runs)} - set(rows.prob_by_model):
        raise ConfigError(f"No row was scored by {sorted(unknown)}.", remedy="Compare models that were scored.")
    table: list[ComparisonRow] = []
    for comparison in comparisons:
        model_SNK = np.stack([rows.prob_by_model[run] for run in comparison.model_runs])
        baseline_SNK = np.stack([rows.prob_by_model[run] for run in comparison.baseline_runs])
        scored_NK = ~(np.isnan(model_SNK).any(axis=0) | np.isnan(baseline_SNK).any(axis=0)) & rows.mask_NK
        user_NK = np.broadcast_to(rows.user_N[:, None], scored_NK.shape)
        cells = [(ALL, ALL, scored_NK)]
        for surface, objective, column, chosen_N in _cells(rows, surfaces=surfaces, objectives=objectives):
            cell_NK = np.zeros_like(scored_NK)
            cell_NK[:, column] = scored_NK[:, column] & chosen_N
            cells.append((surface, objective, cell_NK))
        table.extend(
            ComparisonRow(
                surface=surface,
                objective=objective,
                model=comparison.model,
                baseline=comparison.baseline,
                difference=relative_ne_difference(
                    rows.label_NK[cell_NK],
                    model_SNK[:, cell_NK],
                    baseline_SNK[:, cell_NK],
                    user_NK[cell_NK],
                    config=config,
                ),
            )
            for surface, objective, cell_NK in cells
            if cell_NK.any()
        )
    return table


def _cells(
    rows: ScoredRows, *, surfaces: Sequence[str], objectives: Sequence[str]
) -> Iterator[tuple[str, str, int, NDArray[np.bool_]]]:
    """Yield surface, objective, label column and the chosen rows [N] of each cell."""
    for column, objective in enumerate(objectives):
        mask_N = rows.mask_NK[:, column]
        yield ALL, objective, column, mask_N
        for position, surface in enumerate(surfaces):
            yield surface, objective, column, mask_N & (rows.surface_N == position)


def _check_names(rows: ScoredRows, *, surfaces: Sequence[str], objectives: Sequence[str]) -> None:
    if len(objectives) != rows.label_NK.shape[1]:
        raise ConfigError(
            f"{len(objectives)} objectives for {rows.label_NK.shape[1]} label columns.",
            remedy="Name the objectives in the order of the layout.",
        )
    outside = int(np.count_nonzero((rows.surface_N < 0) | (rows.surface_N >= len(surfaces))))
    if outside:
        raise ConfigError(
            f"{outside} rows lie on a surface beyond the {len(surfaces)} named.",
            remedy="Name the surfaces in the order of the layout.",
        )
