"""What jagged operators cost: growth with the length of a history, jagged against padded, GDPA against a matrix a row.

Forward and backward where nothing else is said, one CPU thread, float32; times are medians of rounds in which the two
sides take turns. The other side of each ratio is the best form found: whole rows padded once by scaled dot products
with a mask, the personalised feed-forward as one padded batched product of every example's own matrices.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import _lines
from benchmarks._length_picture import draw_newest
from gem_pipeline.kernels.attention import jagged_attention
from gem_pipeline.kernels.grouping import real_places
from gem_pipeline.kernels.jagged import jagged_to_padded, lengths_to_offsets, offsets_to_lengths, padded_to_jagged
from gem_pipeline.kernels.pointwise import gdpa
from gem_pipeline.kernels.windowed import block_offsets, jagged_block_attention, jagged_window_attention

HEADS, WIDTH, BLOCK = 4, 32, 64
LENGTHS = {"quick": (256, 1024, 4096), "full": (256, 512, 1024, 2048, 4096, 8192, 16_384)}
QUADRATIC_UP_TO = {"quick": 1024, "full": 4096}
NUM_KEYS = 32
Step = Callable[[], object]


def alternating(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step in each round, taken in turns after one that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(rounds + 1):
        for name, step in steps.items():
            begun = time.perf_counter()
            step()
            if round_number:
                seconds[name].append(time.perf_counter() - begun)
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> dict[str, float]:
    """Median of the round-wise ratios, with the quartiles as low and high."""
    found = sorted(a / b for a, b in zip(slow, fast, strict=True))
    low, value, high = statistics.quantiles(found, n=4, method="inclusive")
    return {"value": value, "low": low, "high": high}


def exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Slope of log cost over log length by least squares."""
    x, y = [math.log(length) for length in lengths], [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope


def tensors(lengths: Sequence[int], *, grad: bool = True) -> tuple[list[Tensor], Tensor]:
    """Queries, keys and values of rows, [T, H, D] each, and their offsets."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(sum(lengths), HEADS, WIDTH, generator=generator) for _ in range(3)]
    return [x.requires_grad_(grad) for x in made], lengths_to_offsets(torch.tensor(lengths, dtype=torch.int64))


def trained(operator: Callable[..., Tensor], leaves: list[Tensor], bounds: Tensor) -> Step:
    """Forward and backward of an attention."""
    return lambda: torch.autograd.grad(operator(*leaves, bounds).sum(), leaves)


def block_attention(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor) -> Tensor:
    """Blocks of 64."""
    return jagged_block_attention(q, k, v, bounds, block=BLOCK)


def window_attention(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor) -> Tensor:
    """Neighbours up to 64 away."""
    return jagged_window_attention(q, k, v, bounds, window=BLOCK)


def full_attention(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor) -> Tensor:
    """The whole row."""
    return jagged_attention(q, k, v, bounds, bounds)


def padded_attention(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor) -> Tensor:
    """All rows padded to the longest, padding masked."""
    length_B = offsets_to_lengths(bounds)
    longest = int(length_B.max())
    parts = [jagged_to_padded(x, bounds, longest).transpose(1, 2) for x in (q, k, v)]
    mask = real_places(length_B, longest)[:, None, None, :]
    return padded_to_jagged(scaled_dot_product_attention(*parts, attn_mask=mask).transpose(1, 2), bounds, q.shape[0])


def growth(mode: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Time and FLOPs over the length of a history, for near and for full attention."""
    kinds = {"block": block_attention, "window": window_attention, "full": full_attention}
    for name, operator in kinds.items():
        lengths = [n for n in LENGTHS[mode] if name != "full" or n <= QUADRATIC_UP_TO[mode]]
        seconds: list[float] = []
        flops: list[float] = []
        for length in lengths:
            leaves, bounds = tensors([length] * max(1, 4096 // length))
            rows = bounds.shape[0] - 1
            taken = alternating({name: trained(operator, leaves, bounds)}, rounds)[name]
            seconds.append(statistics.median(taken) / rows)
            with FlopCounterMode(display=False) as counter, nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
                operator(*(x.detach() for x in leaves), bounds)
            flops.append(counter.get_total_flops() / rows)
            yield _line(f"{name}_attention_ms", value=1e3 * seconds[-1], unit="ms a row", size=str(length), runs=rounds)
        span = f"{lengths[0]} ... {lengths[-1]}"
        for what, costs in (("", seconds), ("_flops", flops)):
            slope = exponent(lengths, costs)
            unit = "exponent of the length"
            yield _line(f"{name}_attention{what}_length_exponent", value=slope, unit=unit, size=span, runs=rounds)


def drawn_lengths(mode: str) -> Iterator[tuple[str, list[int]]]:
    """Lengths of the rows of a batch, 1 ... 1024: evenly spread, and with the long tail of real logs."""
    generator = torch.Generator().manual_seed(1)
    num_rows = 128 if mode == "quick" else 256
    even = torch.rand(num_rows, generator=generator) * 1023 + 1
    tailed = torch.exp(torch.randn(num_rows, generator=generator) * 1.2 + 3.5)
    for name, length_B in (("even", even), ("long-tailed", tailed)):
        lengths = length_B.clamp(1, 1024).long().tolist()
        filled = sum(lengths) / (len(lengths) * max(lengths))
        yield f"{num_rows} rows, {name} lengths to {max(lengths)}, {filled:.0%} of a padded batch filled", lengths


def jagged_against_padded(mode: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Full and block attention on rows of unequal lengths, against the same rows padded to the longest."""
    for size, lengths in drawn_lengths(mode):
        leaves, bounds = tensors(lengths)
        kinds = {"padded": padded_attention, "full": full_attention, "block": block_attention}
        taken = alternating({name: trained(kind, leaves, bounds) for name, kind in kinds.items()}, rounds)
        baseline = "whole rows padded to the longest of the batch, masked"
        for name, figure in (("full", "jagged_over_padded"), ("block", "jagged_block_over_padded")):
            found = ratio(taken["padded"], taken[name])
            yield _line(figure, unit="times faster", size=size, baseline=baseline, runs=rounds, **found)


def gdpa_against_matrices(mode: str, rounds: int) -> Iterator[dict[str, Any]]:
    """GDPA's forward pass against the same function as a padded batched product of every example's own matrices."""
    for size, lengths in drawn_lengths(mode):
        yield _gdpa_ratio(size, lengths, rounds)


def _gdpa_ratio(size: str, lengths: list[int], rounds: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(2)
    (q, _, _), bounds = tensors(lengths, grad=False)
    num_rows, longest = len(lengths), max(lengths)
    k, v = (torch.randn(num_rows, NUM_KEYS, HEADS, WIDTH, generator=generator) / WIDTH**0.5 for _ in range(2))
    kv_bounds = torch.arange(num_rows + 1) * NUM_KEYS

    def jagged() -> Tensor:
        return gdpa(q, k.flatten(0, 1), v.flatten(0, 1), bounds, kv_bounds, activation="gelu", scale=1.0)

    def matrices() -> Tensor:
        padded = jagged_to_padded(q, bounds, longest).transpose(1, 2)
        hidden = gelu(padded @ k.permute(0, 2, 3, 1), approximate="tanh")
        return padded_to_jagged((hidden @ v.transpose(1, 2)).transpose(1, 2), bounds, q.shape[0])

    with torch.no_grad():
        torch.testing.assert_close(jagged(), matrices(), rtol=1e-5, atol=1e-5)
        taken = alternating({"jagged": jagged, "matrices": matrices}, rounds)
    return _line(
        "gdpa_over_pffn_forward", unit="times faster", size=size, runs=rounds,
        baseline="padded per-example batched product, equal to 1e-5", **ratio(taken["matrices"], taken["jagged"]),
    )  # fmt: skip


def fused_against_plain(rounds: int) -> Iterator[dict[str, Any]]:
    """The Triton kernel of block attention against the plain operators, where there is a CUDA device."""
    if not torch.cuda.is_available():
        why = "no CUDA device here; parity is tested by Triton's interpreter"
        yield _line("fused_over_reference", value=None, unit="times faster", size="block attention", why=why)
        return
    if find_spec("triton") is None:
        yield _line("fused_over_reference", value=None, unit="times faster", size="block attention", why="no Triton")
        return
    leaves, bounds = tensors([1024] * 64)
    leaves, bounds = [x.detach().cuda().requires_grad_() for x in leaves], bounds.cuda()

    def plain_attention(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
        inner = block_offsets(offsets, BLOCK)
        return jagged_attention(q, k, v, inner, inner)

    def waited(step: Step) -> Step:
        return lambda: (step(), torch.cuda.synchronize())

    kinds = {"fused": block_attention, "plain": plain_attention}
    taken = alternating({name: waited(trained(kind, leaves, bounds)) for name, kind in kinds.items()}, rounds)
    yield _line(
        "fused_over_reference", unit="times faster", size="block attention", runs=rounds,
        baseline="plain operators", **ratio(taken["plain"], taken["fused"]),
    )  # fmt: skip


def _line(figure: str, *, value: float | None, unit: str, size: str, **more: Any) -> dict[str, Any]:
    return _lines.line("kernels", figure, value, unit=unit, size=size, **more)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter histories, fewer rounds")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    mode, rounds = ("quick", 3) if options.quick else ("full", 7)
    _lines.append(options.json, gdpa_against_matrices(mode, 2 * rounds))
    _lines.append(options.json, jagged_against_padded(mode, rounds))
    _lines.append(options.json, growth(mode, rounds))
    _lines.append(options.json, fused_against_plain(rounds))
    if mode == "full":
        draw_newest(options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
