"""What every task of a day shares: plan, contract, sizes, store, tracker, progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.sources import LakeParts, PartSource, ResidentParts
from gem_pipeline.batches.stream import BatchStream
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.config.ladder import RunConfig, run_config
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.runs.lineage import RowsRead, newest_versions
from gem_pipeline.training.maturity import MaturedDay, matured_days
from gem_pipeline.training.plan import DayPlan, example_dates
from gem_pipeline.training.progress import Progress, SilentProgress
from gem_pipeline.training.store import ModelStore
from gem_pipeline.training.tracker import SilentTracker, Tracker


@dataclass(frozen=True)
class DayContext:
    """The setting of one trainer process."""

    plan: DayPlan
    tracker: Tracker = field(default_factory=SilentTracker)
    progress: Progress = field(default_factory=SilentProgress)
    reads: list[RowsRead] = field(default_factory=list)

    @cached_property
    def versions(self) -> dict[str, int]:
        """Delta version of every table that tasks read: the same ones from the first read to the last."""
        return newest_versions(self.lake)

    @cached_property
    def contract(self) -> DataContract:
        """The data contract."""
        return load_contract(Path(self.plan.contract_path))

    @cached_property
    def run(self) -> RunConfig:
        """Sizes and learning rates."""
        return run_config(self.plan.size)

    @property
    def home(self) -> Path:
        """Root of all state."""
        return Path(self.plan.home)

    @property
    def lake(self) -> Path:
        """Root of the Delta tables."""
        return self.home / "lake"

    @cached_property
    def store(self) -> ModelStore:
        """The model store."""
        return ModelStore(self.home)

    @property
    def trained_through(self) -> str:
        """Last day whose labels a model that scores this day has seen."""
        return self.plan.previous_date or ""

    @cached_property
    def full_history(self) -> PartSource:
        """The plan's day with the foundation model's history: scored, then learnt.

        It is read once and kept, or read by every pass (`ReaderConfig.keep_day`).
        """
        return self._source(self.plan.date, window=self.run.foundation.read_window)

    @cached_property
    def matured(self) -> tuple[MaturedDay, ...]:
        """Older partitions whose conversion labels mature on the plan's day."""
        return matured_days(self.contract, self.plan.date, example_dates(self.contract, self.home))

    def matured_source(self, day: MaturedDay) -> PartSource:
        """A matured partition with the foundation model's history and the labels of its matured objectives only."""
        window = self.run.foundation.read_window
        return self._source(day.date, window=window, as_of=day.as_of, objectives=day.objectives)

    @cached_property
    def replayed(self) -> dict[str, PartSource]:
        """Earlier days that are learnt again, by date, without conversions: these are learnt when they mature."""
        names = tuple(objective.name for objective in self.contract.column_objectives)
        window = self.run.foundation.read_window
        dates = self.plan.replayed(example_dates(self.contract, self.home))
        return {date: self._source(date, window=window, objectives=names) for date in dates}

    def _source(
        self, date: str, *, window: WindowSpec, as_of: str | None = None, objectives: tuple[str, ...] | None = None
    ) -> PartSource:
        whole_ids = self.run.foundation.manages_ids
        if self.run.reading.keep_day:
            return ResidentParts(
                self.read(date, window=window, as_of=as_of, objectives=objectives, whole_ids=whole_ids)
            )
        source = LakeParts(self._reader(window, whole_ids), date, as_of=as_of, objectives=objectives)
        self._note(source, date, window, as_of, objectives)
        return source

    def read(
        self, date: str, *, window: WindowSpec, as_of: str | None = None, objectives: tuple[str, ...] | None = None,
        whole_ids: bool = False,
    ) -> list[EncodedDay]:  # fmt: skip
        """A day's examples with their histories, all in memory; labels as in `DayReader.day`, ids as in `DayReader`."""
        parts = list(self._reader(window, whole_ids).day(date, as_of=as_of, objectives=objectives))
        self._note(parts, date, window, as_of, objectives)
        return parts

    def _note(
        self, parts: Iterable[EncodedDay], date: str, window: WindowSpec, as_of: str | None,
        objectives: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        """Remember what was read, so that a model can name it."""
        read = RowsRead.of(parts, date=date, window=window, as_of=as_of, objectives=objectives)
        if read not in self.reads:
            self.reads.append(read)

    def stream(
        self, source: PartSource, *, batch_size: int, generator: np.random.Generator | None = None
    ) -> BatchStream:
        """A pass over a day, as the run's configuration has it."""
        return BatchStream(source, batch_size=batch_size, config=self.run.reading, generator=generator)

    def _reader(self, window: WindowSpec, whole_ids: bool) -> DayReader:
        return DayReader(
            self.contract, self.lake, window=window, config=self.run.reading, versions=self.versions,
            whole_ids=whole_ids,
        )  # fmt: skip


def only(parts: list[EncodedDay], objectives: tuple[str, ...]) -> list[EncodedDay]:
    """The same examples with the labels of some objectives only."""
    chosen_K = np.isin(parts[0].layout.objectives, objectives)
    return [replace(p, label_NK=p.label_NK * chosen_K, mask_NK=p.mask_NK & chosen_K) for p in parts]


PRIOR_ROWS = 50.0  # a surface's base rate is smoothed by so many rows at the rate over all surfaces


def label_rates(parts: Iterable[EncodedDay], *, by_surface: bool = True) -> npt.NDArray[np.float32]:
    """Base rates by surface and objective, smoothed towards the pooled rate, [S, K]; NaN where no label exists.

    Not by surface: the pooled rates, [1, K].
    """
    read = [(part.label_NK * part.mask_NK, part.mask_NK, part.surface_N, part.layout.surfaces) for part in parts]
    label_NK, mask_NK, surface_N = (np.concatenate([columns[i] for columns in read]) for i in range(3))
    surfaces = range(len(read[0][3]))
    with np.errstate(invalid="ignore"):
        pooled_K = label_NK.sum(axis=0) / mask_NK.sum(axis=0)
    if not by_surface:
        return pooled_K[None].astype(np.float32)
    rows = [surface_N == surface for surface in surfaces]
    positives_SK = np.stack([label_NK[row].sum(axis=0) for row in rows])
    total_SK = np.stack([mask_NK[row].sum(axis=0) for row in rows])
    return ((positives_SK + PRIOR_ROWS * pooled_K) / (total_SK + PRIOR_ROWS)).astype(np.float32)
