"""What CompSkip saves: FLOPs and step time of Kunlun's sequence side with and without skipping, at full history."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import _lines
from gem_pipeline.config.ladder import run_config
from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.foundation import FoundationConfig

UNMEASURED = ("ne_rise_upper", "excess_loss_ratio", "ne_loss_relative")
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
    """Savings by rung, the step time of one rung, and what needs trainings."""
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
    for figure in UNMEASURED:
        why = "needs trainings over seeds on a simulated world and the real log: not run yet"
        yield _lines.line("compskip", figure, None, unit="relative", size=timed, baseline=BASELINE, why=why)


def both(size: str) -> tuple[FoundationConfig, FoundationConfig]:
    """A rung's model with and without CompSkip."""
    config = run_config(size).foundation
    return tuple(replace(config, kunlun=replace(config.kunlun, comp_skip=skip)) for skip in (True, False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.compskip", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="sizes small and base only")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sizes = ("small", "base") if options.quick else ("small", "base", "large")
    _lines.append(options.json, lines(sizes, "base", 3 if options.quick else 9))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
