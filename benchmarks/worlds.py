"""NE floors of every world, surface and objective over several seeds, and the pictures of docs/worlds.md.

A seed is another population of the same world; the interval is Student's for the mean over seeds. Floors are true NE
(expected labels). `floor_logged_low` and `floor_logged_high` bracket the floor given the logged columns.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks._lines import append, line
from benchmarks._world_pictures import draw
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.runs.world_floors import Floor, floors

USERS, HISTORY_DAYS, DAYS, SEEDS = 1000, 28, 14, 4
QUICK_USERS, QUICK_SEEDS = 300, 2
KINDS = {"everything": "floor_everything", "logged_low": "floor_logged_low", "logged_high": "floor_logged_high"}


def lines(world: World, by_seed: Sequence[Sequence[Floor]]) -> Iterator[dict[str, Any]]:
    """One line a kind of floor, surface and objective; a state where a seed has too few rows."""
    values: dict[tuple[str, str], list[float | MetricState]] = defaultdict(list)
    for found in by_seed:
        for floor in found:
            for field, name in KINDS.items():
                values[name, f"{floor.surface}_{floor.objective}"].append(asdict(floor)[field])
    for (name, cell), each in values.items():
        states = [value for value in each if isinstance(value, MetricState)]
        common = {"unit": "true NE", "baseline": "the rows' expected base rate", "size": world.name, "runs": len(each)}
        if states:
            yield line("worlds", f"{name}_{cell}", None, why=f"state {states[0]}", **common)
            continue
        mean, error = float(np.mean(each)), stats.sem(each) if len(each) > 1 else 0.0
        reach = float(stats.t.ppf(0.975, max(len(each) - 1, 1)) * error)
        yield line("worlds", f"{name}_{cell}", mean, low=mean - reach, high=mean + reach, **common)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.worlds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_USERS} users, {QUICK_SEEDS} seeds, no pictures")
    parser.add_argument("--world", choices=sorted(WORLDS), help="this one alone")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    users, seeds = (QUICK_USERS, QUICK_SEEDS) if options.quick else (USERS, SEEDS)
    for world in [WORLDS[options.world]] if options.world else WORLDS.values():
        by_seed = []
        for seed in range(seeds):
            scale = Scale(users=users, history_days=HISTORY_DAYS, days=DAYS, seed=seed)
            by_seed.append(floors(world, scale, range(DAYS), trees=40 if options.quick else 150))
        append(options.json, lines(world, by_seed))
        if not options.quick:
            draw(world)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
