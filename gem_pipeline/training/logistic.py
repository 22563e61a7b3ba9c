"""The logistic-regression baseline, made as strong as a linear model on the same inputs gets (ours).

One-hot ids, standardised dense inputs (counters among them) with an interaction of each with the surface, and a
pooled history. One model an objective over all surfaces, L2 penalty chosen on the newest training day (McMahan et
al., 2013, "Ad click prediction: a view from the trenches", for the family). The scales of the blocks set their
relative penalty; they were chosen on the validation day 2022-05-05 of KuaiRand and are not tuned further.
N rows, C columns, F dense inputs, K objectives.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from gem_pipeline.errors import ConfigError, ModelStoreError
from gem_pipeline.metrics.ne import log_loss_sums
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.training.logistic_design import DesignMatrix, LogisticEncoder
from gem_pipeline.training.logistic_inputs import FloatArray, IntArray, LogisticInputs, LogisticRows
from gem_pipeline.training.store import StoredModel

logger = logging.getLogger(__name__)

_HELD_OUT_SHARE = 0.2  # of the rows, where all are of one day


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticConfig:
    """How the baseline is fitted.

    Attributes:
        inverse_penalties: values of C tried, rising: from the strongest penalty on, each warm-started, until
            the validation loss rises.
        tolerance: largest gradient of the mean loss at which L-BFGS stops, for balanced labels; rarer ones have
            smaller gradients, and their tolerance shrinks with the variance of the label.
        max_iterations: L-BFGS iterations at most, for each C.
        min_positives: positives and negatives that tuning needs on each side of the split; with fewer, the
            strongest penalty is taken.
    """

    inverse_penalties: tuple[float, ...] = (0.0005, 0.002, 0.008, 0.03, 0.12, 0.5, 2.0)
    tolerance: float = 1e-4
    max_iterations: int = 80
    min_positives: int = 10

    def __post_init__(self) -> None:
        grid = self.inverse_penalties
        if not grid or min(grid) <= 0.0 or list(grid) != sorted(set(grid)):
            raise ConfigError(f"Inverse penalties {grid} must be positive and rise.", remedy="Use (0.001, 0.01, 0.1).")
        if self.tolerance <= 0.0 or self.max_iterations < 1 or self.min_positives < 1:
            raise ConfigError("Tolerance, iterations and positives must be above 0.", remedy="Use the defaults.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveModel:
    """Weights of one objective.

    Attributes:
        state: `ok`; `one_class`: a constant at the smoothed rate (P + 1) / (N + 2); `no_rows`: predicts nothing.
        inverse_penalty: the C it was fitted with; 0 where nothing was fitted.
        intercept: logit of a row of zeros.
        weight_C: one weight a column of the design [C].
    """

    state: MetricState
    inverse_penalty: float
    intercept: float
    weight_C: FloatArray

    def predict(self, design: DesignMatrix) -> NDArray[np.float64]:
        """Probability of each row [N]; NaN (not scored) where the objective had no rows to learn from."""
        if self.state is MetricState.NO_ROWS:
            return np.full(design.shape[0], np.nan)
        logit_N = np.asarray(design @ self.weight_C, dtype=np.float64) + self.intercept
        return np.asarray(np.exp(-np.logaddexp(0.0, -logit_N)))


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticBaseline:
    """The fitted baseline of all objectives."""

    encoder: LogisticEncoder
    models: dict[str, ObjectiveModel]

    def predict(self, inputs: LogisticInputs) -> NDArray[np.float64]:
        """Probabilities [N, K], objectives in the order of `models`; NaN where one predicts nothing."""
        design = self.encoder.design(inputs)
        return np.stack([model.predict(design) for model in self.models.values()], axis=1)

    @property
    def inverse_penalties(self) -> dict[str, float]:
        """The C of each fitted objective: pass it to `fit_logistic` to skip the tuning."""
        return {name: model.inverse_penalty for name, model in self.models.items() if model.state is MetricState.OK}

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays for safetensors and a JSON-ready configuration."""
        arrays, encoder = self.encoder.to_arrays()
        for name, model in self.models.items():
            arrays[f"weight.{name}"] = model.weight_C
        objectives = [
            {"name": name, "state": m.state.value, "inverse_penalty": m.inverse_penalty, "intercept": m.intercept}
            for name, m in self.models.items()
        ]
        return arrays, {"encoder": encoder, "objectives": objectives}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> LogisticBaseline:
        """Rebuild the baseline.

        Raises:
            ModelStoreError: an array or a key is missing, or a weight does not fit the encoder.
        """
        try:
            encoder = LogisticEncoder.from_arrays(arrays, config["encoder"])
            models = {
                part["name"]: ObjectiveModel(
                    state=MetricState(part["state"]),
                    inverse_penalty=float(part["inverse_penalty"]),
                    intercept=float(part["intercept"]),
                    weight_C=np.asarray(arrays[f"weight.{part['name']}"], dtype=np.float32),
                )
                for part in config["objectives"]
            }
        except KeyError as error:
            raise ModelStoreError(f"The stored logistic baseline lacks {error}.", remedy="Fit it again.") from error
        if strangers := [name for name, m in models.items() if m.weight_C.shape != (encoder.num_columns,)]:
            raise ModelStoreError(
                f"Weights of {strangers} do not fit the {encoder.num_columns} columns of the stored encoder.",
                remedy="Fit the baseline again.",
            )
        return LogisticBaseline(encoder=encoder, models=models)


def load_logistic(stored: StoredModel) -> LogisticBaseline:
    """Rebuild the baseline that a stored model holds.

    Raises:
        ModelStoreError: a file is missing or damaged, or its parts do not fit.
    """
    arrays = {name: tensor.numpy() for name, tensor in stored.weights().items()}
    return LogisticBaseline.from_arrays(arrays, stored.config()["model"])


def fit_logistic(
    rows: LogisticRows,
    objectives: tuple[str, ...],
    *,
    config: LogisticConfig,
    inverse_penalties: Mapping[str, float] | None = None,
) -> LogisticBaseline:
    """Fit every objective on all rows.

    Args:
        rows: training rows, all of days before those that will be scored.
        objectives: names of the label columns.
        config: grid and solver.
        inverse_penalties: C by objective where it is known already (from an earlier day): no tuning there.

    Returns:
        The baseline; an objective with one class or no rows is a named state.

    Raises:
        ConfigError: the number of objectives does not fit the labels.
    """
    if len(objectives) != rows.label_NK.shape[1]:
        raise ConfigError(
            f"{len(objectives)} objectives for {rows.label_NK.shape[1]} label columns.",
            remedy="Name the objectives in the order of the layout.",
        )
    known = inverse_penalties or {}
    encoder = LogisticEncoder.from_inputs(rows.inputs)
    design = encoder.design(rows.inputs)
    models = {}
    for column, name in enumerate(objectives):
        chosen_N = rows.mask_NK[:, column]
        whole = bool(chosen_N.all())
        models[name] = fit_objective(
            design if whole else design[np.flatnonzero(chosen_N)],
            rows.label_NK[chosen_N, column],
            newest_N=newest_rows(rows.day_N[chosen_N], rows.order_N[chosen_N]),
            config=config,
            inverse_penalty=known.get(name),
        )
        logger.info("logistic %s: %s, C=%g", name, models[name].state.value, models[name].inverse_penalty)
    return LogisticBaseline(encoder=encoder, models=models)


def newest_rows(day_N: IntArray, order_N: IntArray) -> NDArray[np.bool_]:
    """Rows that tuning holds out [N]: the newest day, or the last fifth where there is only one day."""
    if day_N.size == 0 or day_N.min() < day_N.max():
        return np.asarray(day_N == day_N.max(initial=0))
    held_out_N = np.zeros(day_N.size, dtype=bool)
    by_time = np.argsort(order_N, kind="stable")
    held_out_N[by_time[round((1.0 - _HELD_OUT_SHARE) * day_N.size) :]] = True
    return held_out_N


def fit_objective(
    design: DesignMatrix,
    label_N: FloatArray,
    *,
    newest_N: NDArray[np.bool_],
    config: LogisticConfig,
    inverse_penalty: float | None = None,
) -> ObjectiveModel:
    """Fit one objective: choose C on the newest rows unless it is given, then fit all rows.

    Args:
        design: features [N, C].
        label_N: 0 or 1 [N].
        newest_N: rows held out while C is chosen [N].
        config: grid and solver.
        inverse_penalty: C, where it is known.

    Returns:
        The fitted model, or a named state without exception.
    """
    num_positives = int(label_N.sum())
    if num_positives in (0, label_N.size):
        rate = (num_positives + 1.0) / (label_N.size + 2.0)
        return ObjectiveModel(
            state=MetricState.ONE_CLASS if label_N.size else MetricState.NO_ROWS,
            inverse_penalty=0.0,
            intercept=float(np.log(rate / (1.0 - rate))),
            weight_C=np.zeros(design.shape[1], dtype=np.float32),
        )
    rate = num_positives / label_N.size
    solver = _solver(config, tolerance=config.tolerance * 4.0 * rate * (1.0 - rate))
    chosen = inverse_penalty or _tuned(solver, design, label_N, newest_N=newest_N, config=config)
    solver.C = chosen
    _fit(solver, design, label_N)
    return ObjectiveModel(
        state=MetricState.OK,
        inverse_penalty=chosen,
        intercept=float(solver.intercept_[0]),
        weight_C=solver.coef_[0].astype(np.float32),
    )


def _tuned(
    solver: LogisticRegression,
    design: DesignMatrix,
    label_N: FloatArray,
    *,
    newest_N: NDArray[np.bool_],
    config: LogisticConfig,
) -> float:
    """C with the lowest log loss on the newest rows; leaves the solver at its weights, to start the last fit from."""
    smallest_class = [min(int(label_N[part].sum()), int((1.0 - label_N[part]).sum())) for part in (~newest_N, newest_N)]
    if min(smallest_class) < config.min_positives:
        return config.inverse_penalties[0]
    earlier, newest = design[np.flatnonzero(~newest_N)], design[np.flatnonzero(newest_N)]
    best_loss, best_c = np.inf, config.inverse_penalties[0]
    for inverse_penalty in config.inverse_penalties:
        before = (solver.coef_, solver.intercept_) if np.isfinite(best_loss) else None
        solver.C = inverse_penalty
        _fit(solver, earlier, label_N[~newest_N])
        prob_N = solver.predict_proba(newest)[:, 1].clip(0.0, 1.0)
        loss = log_loss_sums(label_N[newest_N], prob_N).loss
        if before is not None and loss >= best_loss:
            solver.coef_, solver.intercept_ = before
            break
        best_loss, best_c = loss, inverse_penalty
    return best_c


def _solver(config: LogisticConfig, *, tolerance: float) -> LogisticRegression:
    return LogisticRegression(solver="lbfgs", tol=tolerance, max_iter=config.max_iterations, warm_start=True)


def _fit(solver: LogisticRegression, design: DesignMatrix, label_N: FloatArray) -> None:
    """Fit from the solver's present weights; a path cut short by the iteration limit is logged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        solver.fit(design, label_N)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        logger.info("logistic C=%g stopped after %d iterations", solver.C, solver.max_iter)
