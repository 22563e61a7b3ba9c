"""Pairs of models judged by a world's true click probabilities instead of labels: no label's chance enters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from benchmarks.trials.cells import Cell
from benchmarks.trials.homes import Log, derived
from benchmarks.trials.judging import CONFIG, judged_rows
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.metrics.comparison import user_sums
from gem_pipeline.metrics.intervals import percentile_interval, resampled_sums
from gem_pipeline.metrics.rows import user_positions
from gem_pipeline.metrics.state import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrueDifference:
    """A model against another one, by expected losses over users and seeds.

    Attributes:
        relative: relative difference of the expected log loss (so of NE), below 0: the model is better.
        excess_ratio: what its loss exceeds that of the truth by, over what the other's does.
    """

    relative: Estimate
    excess_ratio: Estimate


@cache
def true_clicks(log: str, days: tuple[str, ...]) -> Floats:
    """The true click probability of the judged rows of a world, in storage order, [N]."""
    source = Log.parse(log)
    reader = DayReader(derived(source), source.home / "lake", window=WindowSpec(max_events=1))
    ids = pa.concat_arrays([part.impression_ids for day in days for part in reader.day(day)])
    served = (
        DeltaTable(str(source.home / "lake" / "worlds" / "served"))
        .to_pyarrow_table(filters=[("date", "in", list(days))], columns=["impression_id", "p_click"])
        .combine_chunks()
    )
    keys = pc.cast(served["impression_id"], ids.type).combine_chunks()
    return served["p_click"].take(pc.index_in(ids, value_set=keys)).to_numpy()


def expected_losses(true_N: Floats, prob_N: Floats) -> Floats:
    """Log loss of each row, expected over its label, [N]."""
    prob_N = np.clip(prob_N, 1e-7, 1 - 1e-7)
    return -(true_N * np.log(prob_N) + (1 - true_N) * np.log1p(-prob_N))


def true_difference(model: list[Cell], baseline: list[Cell], *, column: int = 0) -> TrueDifference:
    """Compare clicks, seed by seed, with a bootstrap over users and over pairs of seeds."""
    trial = model[0].trial
    true_N = true_clicks(trial.log, trial.judged)
    position_N, num_users = user_positions(judged_rows(trial.log, trial.judged).user_N, num_rows=len(true_N))
    probs = [cell.prob_NK[:, column].astype(np.float64) for cell in (*model, *baseline)] + [true_N]
    sums_US = np.stack([user_sums(expected_losses(true_N, p), position_N, num_users) for p in probs], axis=1)
    seeds, totals_S = len(model), sums_US.sum(axis=0)
    weight_RS = np.random.default_rng(CONFIG.seed).multinomial(seeds, np.full(seeds, 1 / seeds), CONFIG.resamples)
    sums_RS = resampled_sums(sums_US, config=CONFIG)
    model_R = (sums_RS[:, :seeds] * weight_RS).sum(axis=1)
    other_R = (sums_RS[:, seeds : 2 * seeds] * weight_RS).sum(axis=1)
    least_R = seeds * sums_RS[:, -1]
    model_total, other_total = totals_S[:seeds].sum(), totals_S[seeds : 2 * seeds].sum()
    least = seeds * totals_S[-1]
    excess = (model_total - least) / (other_total - least)
    return TrueDifference(
        relative=percentile_interval(model_total / other_total - 1, model_R / other_R - 1, level=CONFIG.level),
        excess_ratio=percentile_interval(excess, (model_R - least_R) / (other_R - least_R), level=CONFIG.level),
    )
