"""What it costs to materialise histories just in time, and how much of a training step waits for them.

Every figure has both sides in one run: windows of several lengths over the same table, with and without reading
ahead, with and without sharing. One thread computes (torch and Arrow); the thread that reads ahead is the second.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from benchmarks._generated_lake import LakeShape, write_lake
from benchmarks._lines import commit
from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.batching import batch_rows
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.sources import LakeParts, PartSource, ResidentParts
from gem_pipeline.batches.stream import BatchStream
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.config.ladder import RunConfig, run_config
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.places import contract_path, home_path
from gem_pipeline.training.loop import LossCurve, joint_loss, learn
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.plan import example_dates

SIZE = "tiny"  # a step of a larger size waits for a smaller share of its time
LARGER = {"small": 24, "base": 6}  # and so many of its steps are timed
AHEAD = {"read ahead": 1, "not read ahead": 0}
BATCH = 512


class Waiting(Iterator[Any]):
    """Counts the seconds that a consumer waits for the next item, the first one included."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items, self.seconds = items, 0.0

    def __next__(self) -> Any:
        begun = time.perf_counter()
        try:
            return next(self._items)
        finally:
            self.seconds += time.perf_counter() - begun


def read_day(contract: DataContract, lake: Path, date: str, window: WindowSpec) -> float:
    """Materialised events per CPU second of one pass: planning, reading, encoding and cutting batches."""
    config = ReaderConfig(prefetch=0)
    begun = time.process_time()
    reader = DayReader(contract, lake, window=window, config=config)
    events = 0
    for batch in BatchStream(LakeParts(reader, date), batch_size=BATCH, config=config):
        events += batch.event_dense_TE.shape[0]
    return events / (time.process_time() - begun)


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch:
    """What an epoch took: wall and CPU seconds, and the share of the wall time spent waiting for batches."""

    wall_s: float
    cpu_s: float
    wait_share: float


def train(batches: Iterator[Batch], layout: InputLayout, run: RunConfig) -> Epoch:
    """Train a new foundation model on some batches."""
    torch.manual_seed(0)
    model = FoundationModel(layout, run.foundation)
    optimizer = ModelOptimizer(model, run.training)
    waiting = Waiting(batches)
    begun, worked = time.perf_counter(), time.process_time()
    learn(model, optimizer, waiting, joint_loss, LossCurve())
    wall_s = time.perf_counter() - begun
    return Epoch(wall_s=wall_s, cpu_s=time.process_time() - worked, wait_share=waiting.seconds / wall_s)


def unshared(source: PartSource, batch_size: int, config: ReaderConfig) -> Iterator[Batch]:
    """The batches of a shuffled stream that shares histories, row by row, with a window a row."""
    generator = np.random.default_rng(0)
    for part in source.parts(generator.permutation(len(source.sizes)).tolist()):
        for rows in batch_rows(part, batch_size=batch_size, config=config, generator=generator):
            yield part.batch(rows)


def repeated(measure: Callable[[], float], runs: int) -> dict[str, float | int]:
    """Median of some runs and their range, after one that warms caches."""
    measure()
    values = [measure() for _ in range(runs)]
    return {"value": statistics.median(values), "low": min(values), "high": max(values), "runs": runs}


def speed_lines(contract: DataContract, lake: Path, date: str, name: str, lengths: Sequence[int], runs: int
                ) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Events per second by length of the window, and with the ids of ads alone."""
    narrow = WindowSpec(max_events=lengths[0], inputs=("event_ad",))
    specs = {f"window {n}": WindowSpec(max_events=n) for n in lengths} | {f"window {lengths[0]}, ids only": narrow}
    for size, spec in specs.items():
        found = repeated(lambda spec=spec: read_day(contract, lake, date, spec), runs)
        yield _line("events_per_second_per_core", found, unit="events/s", baseline=None, size=f"{name}, {size}")


def wait_lines(
    contract: DataContract, lake: Path, date: str, name: str, runs: int, *, size: str = SIZE, steps: int | None = None
) -> Iterator[dict[str, Any]]:
    """The share of an epoch, or of its first steps, that waits for data, read ahead and not, and what that saves."""
    run = run_config(size)
    epochs: dict[str, list[Epoch]] = {label: [] for label in AHEAD}
    for _ in range(runs):
        for label, ahead in AHEAD.items():
            config = replace(run.reading, prefetch=ahead)
            reader = DayReader(contract, lake, window=run.foundation.read_window, config=config)
            source, generator = LakeParts(reader, date), np.random.default_rng(0)
            stream = BatchStream(source, batch_size=run.training.batch_size, config=config, generator=generator)
            epochs[label].append(train(islice(stream, steps), source.layout, run))
            stream.close()
    for label, found in epochs.items():
        shares = _spread([epoch.wait_share for epoch in found])
        yield _line("wait_share_small", shares, unit="share of a step", baseline="not read ahead",
                    size=f"{name}, size {size}, {label}")  # fmt: skip
    pairs = zip(epochs["read ahead"], epochs["not read ahead"], strict=True)
    ratios = [fast.wall_s / slow.wall_s for fast, slow in pairs]
    yield _line("read_ahead_over_not", _spread(ratios), unit="ratio of epochs, wall", baseline="not read ahead",
                size=f"{name}, size {size}")  # fmt: skip


def sharing_lines(contract: DataContract, lake: Path, date: str, name: str, window: int, runs: int
                  ) -> Iterator[dict[str, Any]]:  # fmt: skip
    """An epoch with shared histories over the same batches without, and the bytes of a batch likewise."""
    run = run_config(SIZE)
    run = replace(run, foundation=replace(run.foundation, history=WindowSpec(max_events=window)))
    reader = DayReader(contract, lake, window=run.foundation.read_window)
    source = ResidentParts(list(reader.day(date)))
    grouped, batch_size = ReaderConfig(share_histories=True), run.training.batch_size

    def shared() -> BatchStream:
        return BatchStream(source, batch_size=batch_size, config=grouped, generator=np.random.default_rng(0))

    ratios = []
    for _ in range(runs):
        once, each = (
            train(shared(), source.layout, run),
            train(unshared(source, batch_size, grouped), source.layout, run),
        )
        ratios.append(once.cpu_s / each.cpu_s)
    size = f"{name}, window {window}, size {SIZE}"
    yield _line("shared_over_not", _spread(ratios), unit="ratio of epochs, CPU", baseline="same batches, not shared",
                size=size)  # fmt: skip
    stored = spread = 0
    for batch in shared():
        stored += batch.event_dense_TE.shape[0]
        spread += batch.window_numbers().shape[0]
    found = {"value": stored / spread, "low": None, "high": None, "runs": 1}
    yield _line("stored_over_seen_events", found, unit="ratio", baseline="a window a row", size=size)


def _spread(values: Sequence[float]) -> dict[str, float | int]:
    return {"value": statistics.median(values), "low": min(values), "high": max(values), "runs": len(values)}


def _line(figure: str, found: dict[str, Any], *, unit: str, baseline: str | None, size: str) -> dict[str, Any]:
    return {
        "bench": "reading", "figure": figure, **found, "unit": unit, "baseline": baseline, "seed": 0, "size": size,
        "why": "", "commit": commit(), "cpu": platform.processor() or platform.machine(),
    }  # fmt: skip


def measured(contract: DataContract, quick: bool) -> Iterator[dict[str, Any]]:
    """All lines: over the log of a finished demo where there is one, and over a generated lake."""
    runs = 1 if quick else 3
    home = home_path()
    if dates := example_dates(contract, home):
        lake = home / "lake"
        yield from speed_lines(contract, lake, dates[-1], contract.name, (64,), runs)
        yield from wait_lines(contract, lake, dates[-1], contract.name, runs)
        yield from sharing_lines(contract, lake, dates[-1], contract.name, 64, runs)
    shape = LakeShape(users=300, heavy_users=2) if quick else LakeShape()
    with tempfile.TemporaryDirectory(prefix="gem-reading-") as folder:
        date = write_lake(contract, Path(folder), shape)
        name = f"{shape.num_events / 1e6:.1f} M events, {shape.heavy_users} users of {shape.heavy_events}"
        yield from speed_lines(contract, Path(folder), date, name, (64, 1024) if quick else (64, 1024, 16_384), runs)
        yield from wait_lines(contract, Path(folder), date, name, runs)
        for size, steps in LARGER.items():
            yield from wait_lines(contract, Path(folder), date, name, runs, size=size, steps=steps)
        yield from sharing_lines(contract, Path(folder), date, name, 256, runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.reading", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run, a smaller lake")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    contract = load_contract(contract_path())
    with options.json.open("a", encoding="utf-8") as target:
        for line in measured(contract, options.quick):
            target.write(json.dumps(line | {"config_hash": contract.content_hash}) + "\n")
            target.flush()
            print(line["figure"], "|", line["size"], "|", line["value"], line["low"], line["high"], flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
