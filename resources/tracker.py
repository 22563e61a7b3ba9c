"""MLflow behind the tracker protocol: one run a model and partition, written by few, batched calls."""

import fcntl
import json
import logging
import math
import os
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import psutil
from mlflow import MlflowClient
from mlflow.entities import Dataset as LoggedDataset
from mlflow.entities import DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD

from gem_pipeline.training.tracker import RunHeader, TableInput, TrackedModel
from resources.registry import find_version, register

logger = logging.getLogger(__name__)

EXPERIMENT = "gem_pipeline"
_FLUSH_S, _FLUSH_AT = 2.0, 500  # metrics are written every two seconds, or when so many wait
_PARENT, _RUN_NAME, _PROCESS = "mlflow.parentRunId", "mlflow.runName", "process"


@contextmanager
def exclusive(path: Path) -> Generator[None, None, None]:
    """Hold a file lock that dies with its process; for what SQLite and MLflow cannot do at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _process_tag() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.0f}"


def _has_ended(process: str) -> bool:
    """True where a process of this host is gone; of another host nothing is known."""
    host, _, identity = process.partition(":")
    pid, _, started = identity.partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != started
    except psutil.NoSuchProcess:
        return True


def _table_input(table: TableInput) -> DatasetInput:
    """A Delta input. Version 0 would be dropped from MLflow's source, so the digest carries it as well."""
    source = json.dumps({"path": table.path, "delta_table_version": table.version})
    dataset = LoggedDataset(table.name, f"v{table.version}-{table.digest}"[:36], "delta_table", source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


class MlflowRun:
    """An open MLflow run."""

    def __init__(self, client: MlflowClient, run_id: str, experiment_id: str, header: RunHeader, home: Path) -> None:
        self.run_id = run_id
        self._client, self._experiment, self._header, self._home = client, experiment_id, header, home
        self._waiting: list[Metric] = []
        self._tags: dict[str, str] = {}
        self._flushed = time.monotonic()

    def log_metrics(self, metrics: Mapping[str, float | None], step: int = 0) -> None:
        """Log finite numbers; None and non-finite values become a tag `state/<metric>`, never a number."""
        now = int(time.time() * 1000)
        for name, value in metrics.items():
            if value is None or not math.isfinite(value):
                self._tags[f"state/{name}"] = "undefined" if value is None else str(float(value))
            else:
                self._waiting.append(Metric(name, float(value), now, step))
        if len(self._waiting) >= _FLUSH_AT or time.monotonic() - self._flushed > _FLUSH_S:
            self.flush()

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags; they are written with the metrics."""
        self._tags |= tags

    def log_model(self, directory: Path) -> int:
        """Store and register the model of this run; `candidate` never moves to an earlier date."""
        with exclusive(self._home / "mlflow.lock"):  # MLflow has no compare-and-set for aliases
            version, logged_id = register(self._client, self._experiment, self.run_id, self._header, directory)
        self.set_tags({"registered_version": str(version), "mlflow_model_id": logged_id})
        return version

    def flush(self) -> None:
        """Write the metrics and tags that wait."""
        tags = [RunTag(key, value) for key, value in self._tags.items()]
        for start in range(0, max(len(self._waiting), 1), _FLUSH_AT):
            self._client.log_batch(self.run_id, metrics=self._waiting[start : start + _FLUSH_AT], tags=tags)
            tags = []
        self._waiting.clear()
        self._tags.clear()
        self._flushed = time.monotonic()


class MlflowTracker:
    """Runs in MLflow: SQLite and local artifacts under `home`, or a server.

    Args:
        home: folder of all state.
        uri: tracking server or database; None: `home/mlflow.db`.
        tags: set on every run, for example `dagster_run_id`.
    """

    def __init__(self, home: Path, *, uri: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        self._home = home.absolute()
        self._uri = uri or f"sqlite:///{self._home / 'mlflow.db'}"
        self._tags = dict(tags or {})

    @cached_property
    def _client(self) -> MlflowClient:
        """The client; several first users of a fresh database at once would break it, so one makes it."""
        with exclusive(self._home / "mlflow.lock"):
            return MlflowClient(self._uri, self._uri)

    @cached_property
    def _experiment_id(self) -> str:
        client = self._client
        with exclusive(self._home / "mlflow.lock"):
            if (known := client.get_experiment_by_name(EXPERIMENT)) is not None:
                return str(known.experiment_id)
            location = (self._home / "mlartifacts").as_uri() if self._uri.startswith("sqlite") else None
            return str(client.create_experiment(EXPERIMENT, artifact_location=location))

    def find(self, name: str, date: str, model_id: str) -> TrackedModel | None:
        """The finished run that made exactly this model, so that running a day again adds nothing."""
        wanted = (
            f"tags.model_name = '{name}' and tags.date = '{date}' and tags.model_id = '{model_id}' "
            "and attributes.status = 'FINISHED'"
        )
        runs = self._client.search_runs([self._experiment_id], wanted, max_results=1)
        if not runs:
            return None
        run_id = runs[0].info.run_id
        return TrackedModel(run_id=run_id, registered_version=find_version(self._client, name, run_id))

    @contextmanager
    def start_run(self, header: RunHeader) -> Generator[MlflowRun, None, None]:
        """Open a fresh run: finished when the block ends, failed when it raises, killed when it is interrupted."""
        tags = {
            **self._tags, **header.tags, _RUN_NAME: f"{header.name} {header.date}", _PROCESS: _process_tag(),
            "model_name": header.name, "date": header.date, "model_id": header.model_id,
            **{f"version/{table.name}": str(table.version) for table in header.inputs},
        }  # fmt: skip
        if header.parent_run_id:
            tags[_PARENT] = header.parent_run_id
        run_id = self._client.create_run(self._experiment_id, tags=tags, run_name=tags[_RUN_NAME]).info.run_id
        run = MlflowRun(self._client, run_id, self._experiment_id, header, self._home)
        status = "FAILED"
        try:
            self._client.log_batch(run_id, params=[Param(key, str(value)) for key, value in header.params.items()])
            if header.inputs:
                self._client.log_inputs(run_id, [_table_input(table) for table in header.inputs])
            yield run
            status = "FINISHED"
        except (KeyboardInterrupt, SystemExit):
            status = "KILLED"
            raise
        finally:
            run.flush()
            self._client.set_terminated(run_id, status)

    def sweep(self) -> int:
        """Close runs that a dead process of this host left open; returns how many."""
        closed = 0
        for run in self._client.search_runs(
            [self._experiment_id], "attributes.status = 'RUNNING'", max_results=SEARCH_MAX_RESULTS_THRESHOLD
        ):
            if _has_ended(run.data.tags.get(_PROCESS, "")):
                try:
                    self._client.set_terminated(run.info.run_id, "KILLED")
                except MlflowException as error:
                    logger.warning("run %s could not be closed: %s", run.info.run_id, error)
                closed += 1
        return closed
