"""What CompSkip saves and what it costs.

FLOPs and step time of Kunlun's sequence side at full history, with and without skipping; NE of trained models, on a
world by true probabilities and on the real log by its labels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import _lines, ablation
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log
from benchmarks.trials.judging import against, interval, scored
from benchmarks.trials.truth import true_difference
from gem_pipeline.config.ladder import run_config
from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.metrics.pooling import ALL
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.foundation_config import FoundationConfig

TRAINED = ablation.WHOLE
SEEDS = 5
BASELINE = "the same layers, none skipped"


class SequenceSide(nn.Module):
    """Entry, summaries and layers of a backbone without the other side, which a random context stands for."""

    def __init__(self, config: FoundationConfig) -> None:
        super().__init__()
        backbone, levels = config.sequence(), range(config.layers + 1)
        self.entry = backbone.entry()
        self.summaries = nn.ModuleList(backbone.summary(level) for level in levels)
        self.layers = nn.ModuleList(backbone.layer(level) for level in range(config.layers))

    def forward(self, context_BCD: Tensor, rows: EventRows) -> Tensor:
        """Context [B, C, D] and events [T, D] -> the sum of all summaries [B, M, D]."""
        state = self.summaries[0](self.entry(context_BCD, rows))
        total_BMD = state.summary_BMD
        for summary, layer in zip(self.summaries[1:], self.layers, strict=True):
            state = summary(layer(state, context_BCD))
            total_BMD = total_BMD + state.summary_BMD
        return total_BMD


def inputs(config: FoundationConfig, num_rows: int) -> tuple[Tensor, EventRows]:
    """A context and rows of full histories."""
    length = config.history.max_events
    generator = torch.Generator().manual_seed(0)
    rows = EventRows(
        value_TD=torch.randn(num_rows * length, config.dim, generator=generator),
        offsets_B1=lengths_to_offsets(torch.full((num_rows,), length)),
        gap_s_T=torch.rand(num_rows * length, generator=generator) * 1e6,
    )
    return torch.randn(num_rows, config.num_summary, config.dim, generator=generator), rows


def flops(config: FoundationConfig) -> float:
    """Forward FLOPs of the sequence side for one full history."""
    given, side = inputs(config, 1), SequenceSide(config)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        side(*given)
    return float(counter.get_total_flops())


def step_seconds(side: SequenceSide, given: tuple[Tensor, EventRows]) -> float:
    """One forward and backward pass."""
    begun = time.perf_counter()
    side(*given).square().mean().backward()
    return time.perf_counter() - begun


def lines(sizes: Sequence[str], timed: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Savings by rung, and the step time of one rung."""
    for size in sizes:
        skipping, whole = both(size)
        saved = 1.0 - flops(skipping) / flops(whole)
        yield _lines.line(
            "compskip", "flops_reduction", saved, unit="share of sequence FLOPs", size=size, baseline=BASELINE
        )
    sides = [(SequenceSide(config), inputs(config, 4)) for config in both(timed)]
    ratios = [step_seconds(*sides[1]) / step_seconds(*sides[0]) for _ in range(rounds + 1)][1:]
    low, value, high = statistics.quantiles(ratios, n=4, method="inclusive")
    yield _lines.line(
        "compskip", "step_time_ratio", value, unit="times faster", size=timed, low=low, high=high, runs=rounds,
        baseline=BASELINE,
    )  # fmt: skip


def quality_lines(seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """What trained models lose by skipping: on a world, then on the real log where it is here."""
    found = true_difference(*_pair(ablation.world_trial, seeds, jobs))
    more: dict[str, Any] = {"size": f"{TRAINED}, {ablation.WORLD.key}", "baseline": BASELINE, "runs": seeds}
    yield _lines.line("compskip", "ne_rise_relative", **interval(found.relative), unit="relative true NE", **more)
    yield _lines.line(
        "compskip", "ne_rise_upper", found.relative.high, unit="relative true NE, end of the interval", **more
    )
    yield _lines.line("compskip", "excess_loss_ratio", **interval(found.excess_ratio), unit="ratio", **more)
    if not Log().is_there():
        why = "the real log is not here"
        yield _lines.line("compskip", "ne_loss_relative", None, unit="relative NE", size=TRAINED, why=why)
        return
    skipping, whole = _pair(ablation.trial, seeds, jobs)
    rows = scored({"skipping": skipping, "whole": whole})
    for row in against(rows, KUAIRAND, [("skipping", "whole")]):
        if row.surface == ALL and row.objective in ablation.OBJECTIVES:
            yield _lines.line(
                "compskip", "ne_loss_relative", **interval(row.difference.relative), unit="relative NE",
                size=f"{TRAINED}, {KUAIRAND}, {row.objective}", baseline=BASELINE, runs=seeds,
            )  # fmt: skip


def _pair(trial_of: Callable[[str, int], Trial], seeds: int, jobs: int) -> tuple[list[Cell], list[Cell]]:
    """Cells with and without CompSkip, seed by seed: two rows of the ablation."""
    found = cells([trial_of(row, seed) for seed in range(seeds) for row in ("", "no_compskip")], jobs=jobs)
    return found[::2], found[1::2]


def both(size: str) -> tuple[FoundationConfig, FoundationConfig]:
    """A rung's model with and without CompSkip."""
    config = run_config(size).foundation
    return tuple(replace(config, kunlun=replace(config.kunlun, comp_skip=skip)) for skip in (True, False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.compskip", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="sizes small and base only, nothing is trained")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sizes = ("small", "base") if options.quick else ("small", "base", "large")
    _lines.append(options.json, lines(sizes, "base", 3 if options.quick else 9))
    if not options.quick:
        _lines.append(options.json, quality_lines(SEEDS, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
