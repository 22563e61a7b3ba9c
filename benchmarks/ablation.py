"""What each block earns: one row a block removed or replaced, the same data, seeds and budget, later days.

The model is the light form of `small`: every block, at a width that two CPU cores train in minutes. `size` names
the row; the figure is the relative NE of the row against the whole model (above 0: the block helps), over all
objectives and surfaces, or for one objective over all surfaces.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks._lines import append, line
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log
from benchmarks.trials.judging import against, interval, scored
from gem_pipeline.metrics.pooling import ALL

WHOLE = "small+light"
ROWS = (
    "static_y", "no_cross_layer", "early_compression", "one_directional", "separate_sequences", "no_domain_experts",
    "pma_for_hsp", "no_compskip", "interformer", "hstu", "transformer", "wukong_alone", "dlrm", "dcnv2", "din",
)  # fmt: skip
LEARNT = ("2022-04-30", "2022-05-01", "2022-05-02", "2022-05-03", "2022-05-04")
JUDGED = ("2022-05-06", "2022-05-07")
SEEDS, QUICK_SEEDS, QUICK_ROWS = 3, 1, 2
TRAINING = (("batch_size", 256), ("dense_lr", 1e-3))  # NE as with 128 and 7e-4 (tiny, on 05-05), in half the time
OBJECTIVES = (ALL, "click", "long_view")


def trial(row: str, seed: int) -> Trial:
    """A row of the table; the empty name is the whole model."""
    model = f"{WHOLE}+{row}" if row else WHOLE
    return Trial(log=KUAIRAND, model=model, seed=seed, learnt=LEARNT, judged=JUDGED, training=TRAINING)


def lines(rows: Sequence[str], seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures of every row."""
    names = ("", *rows)
    done = cells([trial(row, seed) for seed in range(seeds) for row in names], jobs=jobs)
    by_row: dict[str, list[Cell]] = {row: [] for row in names}
    for cell in done:
        by_row[cell.trial.model.removeprefix(WHOLE).removeprefix("+")].append(cell)
    judged = scored({row or "whole": found for row, found in by_row.items()})
    compared = against(judged, KUAIRAND, [(row, "whole") for row in rows])
    for found in compared:
        if found.surface == ALL and found.objective in OBJECTIVES:
            size = found.model if found.objective == ALL else f"{found.model}, {found.objective}"
            yield line(
                "ablation", "ne_delta_relative", **interval(found.difference.relative), unit="relative NE", size=size,
                baseline=f"{WHOLE}, the same seeds", runs=seeds,
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
    parser.add_argument("--quick", action="store_true", help="one seed, two rows")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not Log().is_there():
        why = "the real log is not here"
        append(options.json, [line("ablation", "ne_delta_relative", None, unit="relative NE", size="all", why=why)])
        return 0
    rows, seeds = (ROWS[:QUICK_ROWS], QUICK_SEEDS) if options.quick else (ROWS, SEEDS)
    append(options.json, lines(rows, seeds, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
