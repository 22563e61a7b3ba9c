"""What it costs to materialise histories just in time, and how much of a training step waits for them.

Every figure has both sides in one run: windows of several lengths over the same table, with and without reading
ahead, with and without sharing. One thread computes (torch and Arrow); the thread that reads ahead is the second.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from benchmarks._generated_lake import LakeShape, write_lake
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

SIZE = "tiny"  # the largest rung that exists
SLICE_BYTES = 32 << 20  # several slices a bucket, so that reading goes on while training does
BATCH = 512


class Waiting(Iterator[Any]):
    """Counts the seconds that a consumer waits for the next item, but for the first."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items, self.seconds, self._started = items, 0.0, False

    def __next__(self) -> Any:
        begun = time.perf_counter()
        item = next(self._items)
        if self._started:
            self.seconds += time.perf_counter() - begun
        self._started = True
        return item


def read_day(contract: DataContract, lake: Path, date: str, window: WindowSpec) -> float:
    """Materialised events per CPU second of one pass: planning, reading, encoding and cutting batches."""
    config = ReaderConfig(prefetch=0)
    begun = time.process_time()
    reader = DayReader(contract, lake, window=window, config=config)
    events = 0
    for batch in BatchStream(LakeParts(reader, date), batch_size=BATCH, config=config):
        events += batch.event_dense_TE.shape[0]
    return events / (time.process_time() - begun)


def train_day(source: PartSource, run: RunConfig, config: ReaderConfig) -> tuple[float, float]:
    """CPU seconds of an epoch of the foundation model, and the share of its wall time spent waiting for batches."""
    torch.manual_seed(0)
    model = FoundationModel(source.layout, run.foundation)
    optimizer = ModelOptimizer(model, run.training)
    generator = np.random.default_rng(0)
    stream = BatchStream(source, batch_size=run.training.batch_size, config=config, generator=generator)
    batches = Waiting(stream)
    begun, worked = time.perf_counter(), time.process_time()
    learn(model, optimizer, batches, joint_loss, LossCurve())
    seconds = time.perf_counter() - begun
    return time.process_time() - worked, batches.seconds / seconds


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


def wait_lines(contract: DataContract, lake: Path, date: str, name: str, runs: int) -> Iterator[dict[str, Any]]:
    """The share of a training epoch that waits for data, read ahead and not, and the time that this saves."""
    run = run_config(SIZE)
    shares: dict[int, list[float]] = {0: [], 1: []}
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(runs):
        for ahead in (0, 1):
            config = ReaderConfig(prefetch=ahead, max_resident_bytes=SLICE_BYTES)
            reader = DayReader(contract, lake, window=run.foundation.history, config=config)
            seconds, share = train_day(LakeParts(reader, date), run, config)
            shares[ahead].append(share)
            times[ahead].append(seconds)
    for ahead, label in ((1, "read ahead"), (0, "not read ahead")):
        yield _line("wait_share_small", _spread(shares[ahead]), unit="share of a step", baseline=label,
                    size=f"{name}, size {SIZE} (small does not exist yet), {label}")  # fmt: skip
    ratios = [fast / slow for fast, slow in zip(times[1], times[0], strict=True)]
    yield _line("read_ahead_over_not", _spread(ratios), unit="ratio of epoch times", baseline="not read ahead",
                size=f"{name}, size {SIZE}")  # fmt: skip


def sharing_lines(contract: DataContract, lake: Path, date: str, name: str, window: int, runs: int
                  ) -> Iterator[dict[str, Any]]:  # fmt: skip
    """An epoch with shared histories over the same batches without, and the bytes of a batch likewise."""
    run = run_config(SIZE)
    run = replace(run, foundation=replace(run.foundation, history=WindowSpec(max_events=window)))
    reader = DayReader(contract, lake, window=run.foundation.history)
    source = ResidentParts(list(reader.day(date)))
    grouped = ReaderConfig(share_histories=True)
    ratios = []
    for _ in range(runs):
        shared, _ = train_day(source, run, grouped)
        plain, _ = train_day(_Unshared(source), run, grouped)
        ratios.append(shared / plain)
    size = f"{name}, window {window}, size {SIZE}"
    yield _line("shared_over_not", _spread(ratios), unit="ratio of epoch times", baseline="same batches, not shared",
                size=size)  # fmt: skip
    stream = BatchStream(source, batch_size=run.training.batch_size, config=grouped, generator=np.random.default_rng(0))
    stored = spread = 0
    for batch in stream:
        stored += batch.event_dense_TE.shape[0]
        spread += batch.window_numbers().shape[0]
    found = {"value": stored / spread, "low": None, "high": None, "runs": 1}
    yield _line("stored_over_seen_events", found, unit="ratio", baseline="a window a row", size=size)


class _Unshared(ResidentParts):
    """The same parts, whose batches keep a window a row whatever is asked for."""

    def __init__(self, source: ResidentParts) -> None:
        super().__init__([_plain(part) for part in source])


def _plain(part: Any) -> Any:
    plain = replace(part)
    batch = plain.batch
    object.__setattr__(plain, "batch", lambda rows, share=False: batch(rows))
    return plain


def _spread(values: Sequence[float]) -> dict[str, float | int]:
    return {"value": statistics.median(values), "low": min(values), "high": max(values), "runs": len(values)}


def _line(figure: str, found: dict[str, Any], *, unit: str, baseline: str | None, size: str) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "bench": "reading", "figure": figure, **found, "unit": unit, "baseline": baseline, "seed": 0, "size": size,
        "why": "", "commit": commit, "cpu": platform.processor() or platform.machine(),
    }  # fmt: skip


def measured(contract: DataContract, quick: bool) -> Iterator[dict[str, Any]]:
    """All lines: over the log of a finished demo where there is one, and over a generated lake."""
    runs = 1 if quick else 3
    home = home_path()
    if dates := example_dates(contract, home):
        lake = home / "lake"
        yield from speed_lines(contract, lake, dates[-1], "KuaiRand", (64,), runs)
        yield from wait_lines(contract, lake, dates[-1], "KuaiRand", runs)
        yield from sharing_lines(contract, lake, dates[-1], "KuaiRand", 64, runs)
    shape = LakeShape(users=300, heavy_users=2) if quick else LakeShape()
    with tempfile.TemporaryDirectory(prefix="gem-reading-") as folder:
        date = write_lake(contract, Path(folder), shape)
        name = f"{shape.num_events / 1e6:.1f} M events, {shape.heavy_users} users of {shape.heavy_events}"
        yield from speed_lines(contract, Path(folder), date, name, (64, 1024) if quick else (64, 1024, 16_384), runs)
        yield from wait_lines(contract, Path(folder), date, name, runs)
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
            print(line["figure"], "|", line["size"], "|", line["value"], line["low"], line["high"], flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
