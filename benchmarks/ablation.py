"""What each block earns: one row a block removed or replaced, the same data, seeds and budget, later days.

The model is the light form of `small`: every block, at a width that two CPU cores train in minutes. `size` names
the row; the figure is the relative NE of the row against the whole model (above 0: the block helps), over all
objectives and surfaces, or for one objective over all surfaces. A world judges clicks by their true probabilities,
so that no label's chance blurs what a block does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._lines import append, line
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log
from benchmarks.trials.judging import against, interval, log_days, scored
from benchmarks.trials.truth import true_difference
from gem_pipeline.metrics.pooling import ALL

WHOLE = "small+light"
ROWS = (
    "static_y", "no_cross_layer", "early_compression", "one_directional", "separate_sequences", "no_domain_experts",
    "pma_for_hsp", "no_compskip", "interformer", "hstu", "transformer", "wukong_alone", "dlrm", "dcnv2", "din",
)  # fmt: skip
LEARNT = ("2022-04-30", "2022-05-01", "2022-05-02", "2022-05-03", "2022-05-04")
JUDGED = ("2022-05-06", "2022-05-07")
WORLD, WORLD_JUDGED = Log(name="everyday", events=400_000, days=10), 3
LOGS = (KUAIRAND, WORLD.name)
SEEDS, QUICK_SEEDS, QUICK_ROWS = 3, 1, 2
TRAINING = (("batch_size", 256), ("dense_lr", 1e-3))  # NE as with 128 and 7e-4 (tiny, on 05-05), in half the time
WORLD_TRAINING = (("batch_size", 128), ("epochs", 3), ("final_rate", 0.1))  # one pass leaves seeds 1 % of NE apart
OBJECTIVES = (ALL, "click", "long_view")


def trial(row: str, seed: int) -> Trial:
    """A row of the table; the empty name is the whole model."""
    model = f"{WHOLE}+{row}" if row else WHOLE
    return Trial(log=KUAIRAND, model=model, seed=seed, learnt=LEARNT, judged=JUDGED, training=TRAINING)


def world_trial(row: str, seed: int) -> Trial:
    """The same row on the world."""
    days = log_days(WORLD.key)
    learnt, judged = days[:-WORLD_JUDGED], days[-WORLD_JUDGED:]
    return replace(trial(row, seed), log=WORLD.key, learnt=learnt, judged=judged, training=WORLD_TRAINING, pooled=True)


def sized(row: str, part: str) -> str:
    """What a figure is known by: its row, and the objective or log that it is of."""
    return row if part == ALL else f"{row}, {part}"


def trained(rows: Sequence[str], trials: Sequence[Trial], jobs: int) -> dict[str, list[Cell]]:
    """Cells by row, the whole model's under the empty name."""
    by_row: dict[str, list[Cell]] = {row: [] for row in ("", *rows)}
    for cell in cells(trials, jobs=jobs):
        by_row[cell.trial.model.removeprefix(WHOLE).removeprefix("+")].append(cell)
    return by_row


def world_lines(rows: Sequence[str], seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures of every row on a world."""
    by_row = trained(rows, [world_trial(row, seed) for seed in range(seeds) for row in ("", *rows)], jobs)
    for row in rows:
        yield line(
            "ablation", "ne_delta_relative", **interval(true_difference(by_row[row], by_row[""]).relative),
            unit="relative true NE, clicks", size=sized(row, WORLD.key), baseline=f"{WHOLE}, the same seeds",
            runs=seeds,
        )  # fmt: skip


def lines(rows: Sequence[str], seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures of every row on the real log."""
    names = ("", *rows)
    by_row = trained(rows, [trial(row, seed) for seed in range(seeds) for row in names], jobs)
    judged = scored({row or "whole": found for row, found in by_row.items()})
    compared = against(judged, KUAIRAND, [(row, "whole") for row in rows])
    for found in compared:
        if found.surface == ALL and found.objective in OBJECTIVES:
            yield line(
                "ablation", "ne_delta_relative", **interval(found.difference.relative), unit="relative NE",
                size=sized(found.model, found.objective), baseline=f"{WHOLE}, the same seeds", runs=seeds,
            )  # fmt: skip
    whole = by_row[""][0].facts
    for row in names:
        facts = by_row[row][0].facts
        ratio = facts["flops_per_example"] / whole["flops_per_example"]
        yield line(
            "ablation", "flops_relative", ratio, unit="ratio of forward FLOPs", size=row or WHOLE, baseline=WHOLE
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.ablation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, two rows, the real log only")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--logs", nargs="*", default=LOGS, choices=LOGS, metavar="LOG")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    rows, seeds = (ROWS[:QUICK_ROWS], QUICK_SEEDS) if options.quick else (ROWS, options.seeds)
    if KUAIRAND in options.logs and Log().is_there():
        append(options.json, lines(rows, seeds, options.jobs))
    elif KUAIRAND in options.logs:
        why = "the real log is not here"
        append(options.json, [line("ablation", "ne_delta_relative", None, unit="relative NE", size="all", why=why)])
    if WORLD.name in options.logs and not options.quick:
        append(options.json, world_lines(rows, seeds, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
