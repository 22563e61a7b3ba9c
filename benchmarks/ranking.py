"""Do light models rank experiments as the full size does? An experiment is a block changed, or an input taken away.

Both sizes learn the same two days and are judged on the same later ones. The figure is Spearman's correlation of the
experiments' relative NE (against the whole model of their own size) between the sizes, for all of them and for each
sort; a replicate of its interval draws users, the same for all models, and seeds of each size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks import ablation
from benchmarks._lines import append, line
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import Log, derived
from benchmarks.trials.judging import CONFIG, interval, scored
from gem_pipeline.batches.layout import input_layout
from gem_pipeline.metrics.comparison import user_sums
from gem_pipeline.metrics.intervals import percentile_interval, resampled_sums
from gem_pipeline.metrics.ne import log_losses
from gem_pipeline.metrics.rows import user_positions
from gem_pipeline.metrics.state import Estimate, MetricState

FULL, LIGHT = "small", "small+light"
FULL_SEEDS, LIGHT_SEEDS = 1, 1
FEWEST_ROWS = 3  # a correlation of fewer says nothing
LEARNT = ablation.LEARNT[-2:]
BLOCKS = ("early_compression", "interformer", "dlrm", "dcnv2")
INPUTS = {  # prefixes of the names that are taken away
    "no user counters": ("user__", "user_surface__", "user_history__", "user_advertiser__"),
    "no ad counters": ("ad__", "ad_surface__", "ad_history__", "advertiser__"),
    "no outcomes of events": ("did_click", "did_long_view", "did_profile_enter", "did_like", "log_value"),
    "no profile": ("activity", "follow", "fan", "friends", "tenure", "is_author", "segment_"),
    "no ad id": ("ad",),
    "no content": ("tags", "format", "upload", "music", "length", "length_s"),
}
ROWS = (*BLOCKS, *INPUTS)
SORTS = {"blocks": BLOCKS, "inputs": tuple(INPUTS)}
OBJECTIVES = ("click", "long_view")

Floats = NDArray[np.float64]


def trial(size: str, row: str, seed: int) -> Trial:
    """An experiment at a size; the empty name is the whole model."""
    whole = replace(ablation.trial("", seed), model=size, learnt=LEARNT)
    if row in INPUTS:
        return replace(whole, missing=taken(row))
    return replace(whole, model=f"{size}+{row}" if row else size)


def taken(row: str) -> tuple[str, ...]:
    """Names of the inputs that an experiment takes away; a prefix that is a name means this one only."""
    layout = input_layout(derived(Log()))
    names = (*(f.name for f in layout.tokens), *layout.dense, *layout.event_dense)
    return tuple(
        name for name in names
        if any(name == prefix or (prefix not in names and name.startswith(prefix)) for prefix in INPUTS[row])
    )  # fmt: skip


def spearman(left_RV: Floats, right_RV: Floats) -> Floats:
    """Rank correlation of each replicate over V experiments, [R]."""
    ranks = [rankdata(values, axis=1) for values in (left_RV, right_RV)]
    centred = [values - values.mean(axis=1, keepdims=True) for values in ranks]
    product_R = (centred[0] * centred[1]).sum(axis=1)
    return product_R / np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))


def relative_losses(runs: Sequence[Sequence[Cell]]) -> tuple[Floats, Floats]:
    """Relative NE of rows against the first of them: the measured one [1, V - 1], and of every replicate [R, V - 1].

    Args:
        runs: cells of each row, the whole model first, one a seed.
    """
    seeds, names = len(runs[0]), [objective.name for objective in derived(Log()).objectives]
    columns = [names.index(objective) for objective in OBJECTIVES]
    judged = scored({str(place): found for place, found in enumerate(runs)})
    position_N, num_users = user_positions(judged.user_N, num_rows=len(judged.user_N))
    sums = []
    for place, found in enumerate(runs):
        for cell in found:
            prob_NK = judged.prob_by_model[f"{place}@{cell.trial.seed}"]
            loss_N = np.zeros(len(position_N))
            for column in columns:
                mask_N = judged.mask_NK[:, column]
                label_n = judged.label_NK[mask_N, column]
                rate = label_n.mean()
                entropy = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate)) * len(label_n)
                loss_N[mask_N] += log_losses(label_n, prob_NK[mask_N, column]) / entropy
            sums.append(user_sums(loss_N, position_N, num_users))
    sums_US = np.stack(sums, axis=1)
    sums_RS = resampled_sums(sums_US, config=CONFIG)
    weight_RS = np.random.default_rng((CONFIG.seed, seeds)).multinomial(
        seeds, np.full(seeds, 1 / seeds), CONFIG.resamples
    )
    measured_V = sums_US.sum(axis=0).reshape(len(runs), seeds).mean(axis=1)
    drawn_RV = (sums_RS.reshape(-1, len(runs), seeds) * weight_RS[:, None, :]).mean(axis=2)
    return measured_V[None, 1:] / measured_V[0] - 1, drawn_RV[:, 1:] / drawn_RV[:, :1] - 1


def agreement(full: Sequence[Sequence[Cell]], light: Sequence[Sequence[Cell]]) -> Estimate | MetricState:
    """Spearman's correlation of the rows of two sizes, with its interval."""
    (full_1V, full_RV), (light_1V, light_RV) = relative_losses(full), relative_losses(light)
    value = float(spearman(full_1V, light_1V)[0])
    return percentile_interval(value, spearman(full_RV, light_RV), level=CONFIG.level)


def lines(rows: Sequence[str], full_seeds: int, light_seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Agreement of the sizes, and what a light row costs."""
    names = ("", *rows)
    plan = {FULL: full_seeds, LIGHT: light_seeds}
    wanted = [trial(size, row, seed) for size, seeds in plan.items() for seed in range(seeds) for row in names]
    found = {cell.trial: cell for cell in cells(wanted, jobs=jobs)}
    by_size = {
        size: [[found[trial(size, row, seed)] for seed in range(seeds)] for row in names]
        for size, seeds in plan.items()
    }
    for sort, members in {"all": tuple(rows), **SORTS}.items():
        chosen = [place for place, row in enumerate(names) if not row or row in members]
        if len(chosen) <= FEWEST_ROWS:
            continue
        full, light = ([by_size[size][place] for place in chosen] for size in (FULL, LIGHT))
        yield line(
            "ablation", "rank_agreement_light", **interval(agreement(full, light)), unit="Spearman's correlation",
            runs=full_seeds, size=f"{sort}: {len(chosen) - 1} experiments, {LIGHT} against {FULL}",
            baseline=f"{FULL}, {full_seeds} seed(s), against {light_seeds}",
        )  # fmt: skip
    for size in (FULL, LIGHT):
        for row, value in zip(rows, relative_losses(by_size[size])[0][0], strict=True):
            yield line(
                "ablation", "ne_delta_ranked", float(value), unit="relative NE", size=f"{row}, {size}", baseline=size,
                runs=plan[size],
            )  # fmt: skip
    full, light = (by_size[size][0][0].facts["flops_per_example"] for size in (FULL, LIGHT))
    yield line(
        "ablation", "flops_relative", light / full, unit="ratio of forward FLOPs", size=f"whole, {LIGHT}",
        baseline=FULL,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.ranking", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, three rows")
    parser.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS, metavar="ROW")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not Log().is_there():
        why, unit = "the real log is not here", "Spearman's correlation"
        append(options.json, [line("ablation", "rank_agreement_light", None, unit=unit, size="all", why=why)])
        return 0
    rows, seeds = (options.rows[:3], (1, 1)) if options.quick else (options.rows, (FULL_SEEDS, LIGHT_SEEDS))
    append(options.json, lines(rows, *seeds, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
