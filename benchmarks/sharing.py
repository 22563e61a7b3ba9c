"""What sharing saves: training steps a second with and without it, several impressions a user in a batch.

Impressions of one request (the same time) share the sequence side as far as no context enters; impressions at
different times share an event up to its time gap. Both sides see the same examples, batch building included, one step
in turn, and must score them alike.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import _lines
from benchmarks._generated_lake import LakeShape, write_lake
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.config.ladder import run_config
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.places import contract_path
from gem_pipeline.training.loop import LossCurve, joint_loss, learn
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.seeding import seed_torch

BASELINE = "the same batches, nothing shared"
EVENTS_A_BATCH = 16_384
SCORES_DIFFER_BY = 1e-5  # single precision, sums in another order


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One comparison.

    Attributes:
        size: rung of the ladder.
        window: events of an impression.
        impressions: of each user in a batch.
        together: they are one request.
    """

    size: str
    window: int
    impressions: int
    together: bool

    @property
    def name(self) -> str:
        """What the line says."""
        how = "one request" if self.together else "different times"
        return f"{self.size}, {self.window} events, {self.impressions} impressions a user, {how}"


def cases(quick: bool) -> Iterator[Case]:
    """All comparisons, or those of a quick run."""
    for size in ("small",) if quick else ("small", "base"):
        for window in (256,) if quick else (256, 1024):
            for impressions in (2, 8):
                for together in (True, False):
                    yield Case(size=size, window=window, impressions=impressions, together=together)


def whole_windows(contract: DataContract, case: Case, lake: Path) -> tuple[EncodedDay, np.ndarray]:
    """An encoded part with users whose windows are full, and the rows of one batch."""
    shape = LakeShape(
        users=40, events=2 * case.window, heavy_users=0, examples=case.impressions, days=10,
        request=case.impressions if case.together else 1,
    )  # fmt: skip
    date = write_lake(contract, lake, shape)
    window = replace(run_config(case.size).foundation.history, max_events=case.window)
    part = max(DayReader(contract, lake, window=window).day(date), key=lambda read: int(read.window.lengths.sum()))
    full = np.flatnonzero(part.window.lengths == case.window)
    users, count_U = np.unique(part.user_N[full], return_counts=True)
    rows = full[np.isin(part.user_N[full], users[count_U == case.impressions])]
    return part, rows[: max(case.impressions, EVENTS_A_BATCH // case.window)]


def check_equal(model: FoundationModel, part: EncodedDay, rows: np.ndarray) -> None:
    """Scores with sharing are those without."""
    with torch.no_grad():
        one, other = (model.eval()(part.batch(rows, share=share)).logit_BK for share in (False, True))
    torch.testing.assert_close(other, one, rtol=0, atol=SCORES_DIFFER_BY)


def step_seconds(case: Case, lake: Path, rounds: int) -> dict[bool, list[float]]:
    """Seconds of steps with and without sharing, batch building included; the first step of each is left out."""
    run, contract = run_config(case.size), load_contract(contract_path())
    part, rows = whole_windows(contract, case, lake)
    config = replace(run.foundation, history=replace(run.foundation.history, max_events=case.window))
    seed_torch(0, "sharing", case.name)
    model = FoundationModel(part.layout, config)
    check_equal(model, part, rows)
    models = {share: copy.deepcopy(model) for share in (False, True)}
    optimizers = {share: ModelOptimizer(own, run.training) for share, own in models.items()}
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + rounds):
        for share, own in models.items():
            begun = time.perf_counter()
            learn(own, optimizers[share], [part.batch(rows, share=share)], joint_loss, LossCurve())
            seconds[share].append(time.perf_counter() - begun)
    return {share: measured[1:] for share, measured in seconds.items()}


def lines(chosen: Sequence[Case], rounds: int) -> Iterator[dict[str, Any]]:
    """The speedup of each case: the median of ratios of neighbouring steps, with the quartiles of them."""
    for case in chosen:
        with tempfile.TemporaryDirectory() as lake:
            seconds = step_seconds(case, Path(lake), rounds)
        ratios = [apart / shared for apart, shared in zip(seconds[False], seconds[True], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        yield _lines.line(
            "training", "sharing_speedup", statistics.median(ratios), unit="times as many steps a second",
            size=case.name, baseline=BASELINE, low=low, high=high, runs=rounds,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.sharing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="size small at 256 events only")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    _lines.append(options.json, lines(list(cases(options.quick)), 5 if options.quick else 9))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
