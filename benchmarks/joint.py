"""One model of all surfaces against one a surface, and against one that treats all surfaces the same.

Same rows, days, seeds and passes; figures by surface, and by activity of the user, for new users and new ads, so
that a segment that joining hurts is seen. Below 0: joining helps.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lines import append, line
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log, derived
from benchmarks.trials.judging import against, interval, scored
from benchmarks.trials.segments import restricted, segments
from gem_pipeline.metrics.pooling import ALL

MODEL = "tiny"
LEARNT = tuple(f"2022-04-{day}" for day in range(25, 31)) + tuple(f"2022-05-0{day}" for day in range(1, 5))
JUDGED = ("2022-05-06", "2022-05-07")
SEEDS = 3
OBJECTIVES = ("click", "long_view")
JOINT, ISOLATED, SAME = "joint", "isolated", "identical_treatment"


def trial(seed: int, *, variant: str = "", surfaces: tuple[str, ...] = ()) -> Trial:
    """The joint model, a variant of it, or one of some surfaces."""
    model = f"{MODEL}+{variant}" if variant else MODEL
    return Trial(log=KUAIRAND, model=model, seed=seed, learnt=LEARNT, judged=JUDGED, surfaces=surfaces)


def merged(parts: Sequence[Cell]) -> Cell:
    """One cell of the scores of models that each scored their own surface."""
    prob_NK = parts[0].prob_NK.copy()
    for part in parts[1:]:
        prob_NK = np.where(np.isnan(prob_NK), part.prob_NK, prob_NK)
    return replace(parts[0], prob_NK=prob_NK)


def lines(seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures by surface and segment."""
    surfaces = derived(Log()).surfaces
    wanted: dict[str, list[list[Trial]]] = {
        JOINT: [[trial(seed)] for seed in range(seeds)],
        SAME: [[trial(seed, variant=SAME)] for seed in range(seeds)],
        ISOLATED: [[trial(seed, surfaces=(surface,)) for surface in surfaces] for seed in range(seeds)],
    }
    found = {t.key: c for c in cells([t for runs in wanted.values() for run in runs for t in run], jobs=jobs)
             for t in (c.trial,)}  # fmt: skip
    by_name = {name: [merged([found[t.key] for t in run]) for run in runs] for name, runs in wanted.items()}
    facts = [cell.facts for cell in by_name[JOINT]]
    pace = [1e5 * fact["train_seconds"] / fact["examples"] for fact in facts]
    yield line(
        "training", "seconds_per_100000_examples", statistics.median(pace), unit="s, one thread", size=MODEL,
        low=min(pace), high=max(pace), runs=seeds,
    )  # fmt: skip
    rows = scored(by_name)
    for segment, chosen_N in segments(KUAIRAND, LEARNT, JUDGED).items():
        part = restricted(rows, chosen_N)
        for row in against(part, KUAIRAND, [(JOINT, ISOLATED), (JOINT, SAME)]):
            by_surface = segment == "everyone" or row.surface == ALL
            if row.objective in OBJECTIVES and by_surface:
                negatives = row.difference.num_rows - row.difference.num_positives
                small = ", too few to judge" if min(row.difference.num_positives, negatives) < 300 else ""
                place = row.surface if segment == "everyone" else segment
                yield line(
                    "joint", f"ne_over_{row.baseline}", unit="relative NE", runs=seeds,
                    size=f"{place}, {row.objective}", **interval(row.difference.relative),
                    baseline=f"{row.baseline}, {row.difference.num_rows} rows{small}",
                )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.joint", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not Log().is_there():
        why = "the real log is not here"
        append(options.json, [line("joint", "ne_over_isolated", None, unit="relative NE", size="all", why=why)])
        return 0
    append(options.json, lines(1 if options.quick else SEEDS, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
