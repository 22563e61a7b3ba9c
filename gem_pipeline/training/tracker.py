"""What training asks of an experiment tracker. The trainer sees this protocol only, never MLflow."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInput:
    """A table that a run read.

    Attributes:
        name: table name.
        path: where it lies.
        version: Delta version that was read; 0 is a version like any other.
        digest: fingerprint of what was read of it.
    """

    name: str
    path: str
    version: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHeader:
    """What is known about a run before it starts.

    Attributes:
        name: model name; also the name of the registered model.
        date: partition.
        model_id: content id of the model that the run makes.
        params: sizes and hyper-parameters.
        tags: contract hash, lineage (`teacher_model_id`, `teacher_run_id`, `previous_model_id`, ...).
        inputs: tables that are read.
        parent_run_id: run that this one is a part of.
    """

    name: str
    date: str
    model_id: str
    params: Mapping[str, str | int | float | bool]
    tags: Mapping[str, str]
    inputs: Sequence[TableInput] = ()
    parent_run_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedModel:
    """A model that the tracker knows; `registered_version` is None until it is registered."""

    run_id: str
    registered_version: int | None


class TrackedRun(Protocol):
    """An open run."""

    run_id: str

    def log_metrics(self, metrics: Mapping[str, float | None], step: int = 0) -> None:
        """Log finite numbers; None and non-finite values become a tag `state/<metric>`, never a number."""
        ...

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags."""
        ...

    def log_model(self, directory: Path) -> int:
        """Store and register the model of this run.

        The alias `candidate` moves to it unless it names a model of a later date already.

        Args:
            directory: folder of the model store.

        Returns:
            The registered version.
        """
        ...


class Tracker(Protocol):
    """Remembers runs and registered models."""

    def find(self, name: str, date: str, model_id: str) -> TrackedModel | None:
        """The finished run that made exactly this model, so that running a day again adds nothing."""
        ...

    def start_run(self, header: RunHeader) -> AbstractContextManager[TrackedRun]:
        """Open a fresh run: finished when the block ends, failed when it raises, killed when it is interrupted."""
        ...


class _SilentRun:
    """Keeps nothing."""

    run_id = ""

    def log_metrics(self, metrics: Mapping[str, float | None], step: int = 0) -> None:
        """Keep nothing."""

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Keep nothing."""

    def log_model(self, directory: Path) -> int:
        """Register nothing; versions start at 1, so 0 is none."""
        return 0


class SilentTracker:
    """A tracker that keeps nothing: for benchmarks and unit tests."""

    def find(self, name: str, date: str, model_id: str) -> TrackedModel | None:
        """Know nothing."""
        return None

    @contextmanager
    def start_run(self, header: RunHeader) -> Generator[TrackedRun, None, None]:
        """Open a run that keeps nothing."""
        yield _SilentRun()
