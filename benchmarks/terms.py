"""What a model of a simulated world has not understood: how far NE would fall if it were told each term of the truth.

The logit of a click is a sum of terms (interests, journey, quality of the ad, attributes, ...) that only the simulator
knows. The model's own logit and one of them are fitted to the true probability: what that gains, the model lacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import expit, logit

from benchmarks._lines import append, line
from benchmarks.trials.cells import Trial, cells
from benchmarks.trials.homes import Log, derived
from benchmarks.trials.judging import log_days
from benchmarks.trials.truth import expected_losses, true_clicks
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.population import day_index, users
from gem_pipeline.datasets.worlds.response import click_terms
from gem_pipeline.datasets.worlds.serve import logged_day
from gem_pipeline.datasets.worlds.traffic import event_id

Floats = NDArray[np.float64]
LOG = Log(name="everyday", events=4_000_000, days=10)
QUICK = Log(name="everyday", events=400_000, days=10)
MODELS = ("tiny", "tiny+no_pairs", "tiny+no_matches+no_pairs")
DAYS = 3
NEWTON_STEPS = 30


def true_terms(log: Log, day: str) -> dict[str, Floats]:
    """The terms of the logit of a click of a day's rows, by name, in storage order, [N] each."""
    contract = derived(log)
    made = WorldLog.of(contract)
    served = logged_day(made.world, made.scale, users(made.world, made.scale, 0, made.scale.users),
                        day_index(made.scale, day))  # fmt: skip
    reader = DayReader(contract, log.home / "lake", window=WindowSpec(max_events=1))
    ids = pa.concat_arrays([part.impression_ids for part in reader.day(day)])
    known = pa.array(event_id(served.slots.at, made.scale))
    place = pc.index_in(pc.cast(ids, known.type), value_set=known).to_numpy()
    terms = click_terms(made.world, made.scale, served.slots.at, served.ad)
    return {name: np.asarray(value, dtype=np.float64)[place] for name, value in terms.items()}


def told_ne(true_N: Floats, columns: Sequence[Floats]) -> float:
    """True NE of the logistic fit of some columns to the true probability, by Newton's method."""
    design_NF = np.column_stack([np.ones_like(true_N), *columns])
    weight_F = np.zeros(design_NF.shape[1])
    weight_F[0] = logit(true_N.mean())
    for _ in range(NEWTON_STEPS):
        prob_N = expit(design_NF @ weight_F)
        curved_FF = design_NF.T @ (design_NF * (prob_N * (1 - prob_N))[:, None])
        weight_F += np.linalg.solve(curved_FF + 1e-9 * np.eye(len(weight_F)), design_NF.T @ (true_N - prob_N))
    base_N = np.full_like(true_N, true_N.mean())
    return float(expected_losses(true_N, expit(design_NF @ weight_F)).sum() / expected_losses(true_N, base_N).sum())


def missed(true_N: Floats, prob_N: Floats, terms: Mapping[str, Floats]) -> dict[str, float]:
    """NE that each term would gain, told to the model, and all of them together, under `everything`."""
    own_N = logit(np.clip(prob_N.astype(np.float64), 1e-6, 1 - 1e-6))
    alone = told_ne(true_N, [own_N])
    gains = {name: alone - told_ne(true_N, [own_N, term_N]) for name, term_N in terms.items() if term_N.std() > 0}
    return gains | {"everything": alone - told_ne(true_N, [own_N, *terms.values()])}


def lines(log: Log) -> Iterator[dict[str, Any]]:
    """Figures of every model and term."""
    days = log_days(log.key)
    learnt, judged = days[-1 - DAYS : -1], days[-1:]
    training = (("batch_size", 256), ("dense_lr", 1e-3), ("epochs", 1))
    trials = [Trial(log=log.key, model=m, learnt=learnt, judged=judged, training=training) for m in MODELS]
    terms, true_N = true_terms(log, judged[0]), true_clicks(log.key, judged)
    for cell in cells(trials):
        for name, gain in missed(true_N, cell.prob_NK[:, 0], terms).items():
            yield line(
                "terms", f"ne_lacking_{name}", gain, unit="true NE, clicks", size=f"{log.key}: {cell.trial.model}",
                baseline=f"the model itself, {DAYS} days in one pass",
            )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.terms", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the log")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    append(options.json, lines(QUICK if options.quick else LOG))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
