"""One sequence of everything against separate ones, and mixed surfaces against one: seconds of a training step.

Both sides of a ratio take steps in turn on the same events (the NE rows beside them are `ablation`'s
`separate_sequences` and `joint`). Batch building is included.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import _lines
from benchmarks._generated_lake import LakeShape, write_lake
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.config.ladder import run_config
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.places import contract_path
from gem_pipeline.training.loop import LossCurve, joint_loss, learn
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.seeding import seed_torch

BATCH = 96
Rows = np.ndarray


class Stepper:
    """A model that takes steps."""

    def __init__(self, size: str, part: EncodedDay) -> None:
        run = run_config(size)
        seed_torch(0, "sequences", size)
        self.part, self.model = part, FoundationModel(part.layout, run.foundation)
        self.optimizer = ModelOptimizer(self.model, run.training)

    def seconds(self, rows: Rows) -> float:
        """One step on some examples."""
        begun = time.perf_counter()
        learn(self.model, self.optimizer, [self.part.batch(rows)], joint_loss, LossCurve())
        return time.perf_counter() - begun


def quartiles(ratios: Sequence[float]) -> dict[str, Any]:
    """Median of the ratios, with their quartiles and number."""
    low, value, high = statistics.quantiles(ratios, n=4)
    return {"value": value, "low": low, "high": high, "runs": len(ratios)}


def lines(size: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Both ratios of a size."""
    contract, window = load_contract(contract_path()), run_config(size).foundation.history
    with tempfile.TemporaryDirectory() as lake:
        shape = LakeShape(users=160, events=2 * window.max_events, heavy_users=0, examples=16, days=10)
        date = write_lake(contract, Path(lake), shape)
        part = max(DayReader(contract, Path(lake), window=window).day(date), key=lambda read: read.size)
    full = np.flatnonzero(part.window.lengths == window.max_events)
    rng, whole, apart = np.random.default_rng(0), Stepper(size, part), Stepper(f"{size}+separate_sequences", part)
    mixed_rows = rng.permutation(full)[:BATCH]
    ratios = [apart.seconds(mixed_rows) / whole.seconds(mixed_rows) for _ in range(rounds + 1)][1:]
    more = {"size": f"{size}, full histories", "unit": "ratio of step times"}
    yield _lines.line(
        "training", "oneseq_over_separate", baseline="two sequences with a backbone each", **(quartiles(ratios) | more)
    )
    surfaces = np.unique(part.surface_N[full])
    alone = [full[part.surface_N[full] == surface][:BATCH] for surface in surfaces]
    size_B = min(map(len, alone))
    ratios = []
    for turn in range(rounds + 1):
        single = whole.seconds(alone[turn % len(alone)][:size_B])
        ratios.append(whole.seconds(mixed_rows[:size_B]) / single)
    yield _lines.line(
        "training", "mixing_overhead", baseline="the same number of examples of one surface",
        **(quartiles(ratios[1:]) | more),
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.sequences", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="size small+light")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    _lines.append(options.json, lines("small+light" if options.quick else "small", 5 if options.quick else 15))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
