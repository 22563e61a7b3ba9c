"""How many FLOPs an example fit into a fixed step time and memory, for GEM against InterFormer.

Micro-sizes of both take one training step over full histories; GEM's FLOPs are read off its own ladder, between its
sizes on logarithmic axes, at the step time and at the memory of one size of InterFormer. The lesser of the two counts.
Memory is what autograd keeps for the backward pass, plus weights. Published for Kunlun: 2.5 times.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._generated_lake import LakeShape, write_lake
from benchmarks._lines import line
from benchmarks.scaling_study.ladder import GEM, INTERFORMER, MODELS, RUNGS, overrides
from benchmarks.trials.cells import Trial
from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.models.flops import forward_flops
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.places import contract_path
from gem_pipeline.training.loop import joint_loss
from gem_pipeline.training.seeding import seed_torch

LENGTH, ROWS, ROUNDS = 256, 32, 5
FIGURE, UNIT = "complexity_ratio_over_interformer", "GEM's FLOPs an example over InterFormer's"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Of one training step.

    Attributes:
        flops: forward, an example.
        seconds: forward and backward, median over rounds.
        kept_bytes: saved for the backward pass, and weights.
    """

    flops: float
    seconds: float
    kept_bytes: float


def kept_bytes(model: FoundationModel, batch: Batch) -> float:
    """Bytes of tensors that autograd saves in one forward pass, each storage once, and of the weights."""
    storages: dict[int, int] = {}

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        loss = joint_loss(model, batch)  # alive until counted, so that no storage is used twice
    for parameter in model.parameters():
        storages[parameter.untyped_storage().data_ptr()] = parameter.untyped_storage().nbytes()
    del loss
    return float(sum(storages.values()))


def cost(architecture: str, size: str, lake: Path, day: str) -> Cost:
    """Measure one size over full histories."""
    trial = Trial(
        log="", model=MODELS[architecture], learnt=(day,), judged=(), history=LENGTH,
        foundation=overrides(architecture, size, LENGTH),
    )  # fmt: skip
    run = trial.run_config()
    reader = DayReader(load_contract(contract_path()), lake, window=run.foundation.read_window, config=run.reading)
    part = max(reader.day(day), key=lambda read: int(read.window.lengths.sum()))
    batch = part.batch(np.flatnonzero(part.window.lengths == LENGTH)[:ROWS])
    seed_torch(0, "room", size)
    model = FoundationModel(part.layout, run.foundation)
    taken = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        joint_loss(model, batch).backward()
        taken.append(time.perf_counter() - begun)
        model.zero_grad()
    return Cost(
        flops=forward_flops(model, batch), seconds=statistics.median(taken[1:]), kept_bytes=kept_bytes(model, batch)
    )


def flops_at(costs: list[Cost], field: str, limit: float) -> float | None:
    """FLOPs whose cost is a limit, between two sizes; None where the ladder does not reach it on either side."""
    values, flops = (np.log([getattr(one, name) for one in costs]) for name in (field, "flops"))
    if not values[0] <= np.log(limit) <= values[-1]:
        return None
    return float(np.exp(np.interp(np.log(limit), np.maximum.accumulate(values), flops)))


def lines(quick: bool) -> Iterator[dict[str, Any]]:
    """The ratio at two sizes of InterFormer."""
    torch.set_num_threads(1)
    sizes = list(RUNGS[GEM])[: 3 if quick else None]
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder)
        shape = LakeShape(users=60, events=2 * LENGTH, heavy_users=0, examples=2, days=10)
        day = write_lake(load_contract(contract_path()), lake, shape)
        costs = {name: [cost(name, size, lake, day) for size in sizes] for name in (GEM, INTERFORMER)}
    for size in sizes[1:-1][-2:]:
        limit = costs[INTERFORMER][sizes.index(size)]
        by_time = flops_at(costs[GEM], "seconds", limit.seconds)
        by_memory = flops_at(costs[GEM], "kept_bytes", limit.kept_bytes)
        place = f"{size}, {LENGTH} events, one thread"
        if by_time is None or by_memory is None:
            why = "the cost of InterFormer's size lies outside of GEM's ladder"
            yield line("scaling", FIGURE, None, unit=UNIT, size=place, why=why)
            continue
        told = f"by time {by_time / limit.flops:.2f}, by memory {by_memory / limit.flops:.2f}"
        ratio = min(by_time, by_memory) / limit.flops
        yield line(
            "scaling", FIGURE, ratio, unit=UNIT, size=place, runs=ROUNDS,
            baseline=f"{INTERFORMER}, {limit.flops / 1e6:.1f} MFLOP in {limit.seconds:.2f} s; {told}",
        )  # fmt: skip
