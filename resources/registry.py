"""Registered models: an `MLmodel` file beside safetensors, a version a run, the alias `candidate` by partition."""

import shutil
import sys
import tempfile
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode

from gem_pipeline.training.tracker import RunHeader

CANDIDATE = "candidate"
LOADER = "gem_pipeline.serving.pyfunc"
_NOT_SERVED = ("optimizer.safetensors",)  # kept in the model store, to train on from


def find_version(client: MlflowClient, name: str, run_id: str) -> int | None:
    """Registered version that a run made."""
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'", max_results=1)
    return int(versions[0].version) if versions else None


def register(
    client: MlflowClient, experiment_id: str, run_id: str, header: RunHeader, directory: Path
) -> tuple[int, str]:
    """Copy a stored model into the artifacts, register it, and move `candidate` to it if it is the newest date.

    The caller holds the registry's lock.

    Returns:
        The registered version and MLflow's id of the logged model.
    """
    tags = {"date": header.date, "model_id": header.model_id}
    logged = client.create_logged_model(experiment_id, name=header.name, source_run_id=run_id, tags=tags)
    with tempfile.TemporaryDirectory(prefix="gem-model-") as folder:
        staged = Path(folder)
        shutil.copytree(directory, staged / "model", ignore=shutil.ignore_patterns(*_NOT_SERVED))
        described = Model(run_id=run_id, model_id=logged.model_id, artifact_path=logged.artifact_location)
        described.add_flavor(
            "python_function",
            loader_module=LOADER,
            data="model",
            python_version=".".join(str(part) for part in sys.version_info[:3]),
        )
        described.save(str(staged / "MLmodel"))
        client.log_model_artifacts(logged.model_id, str(staged))
    client.finalize_logged_model(logged.model_id, "READY")
    newest = _candidate_date(client, header.name)
    version = client.create_model_version(
        header.name, logged.artifact_location, run_id, tags=tags, await_creation_for=0, model_id=logged.model_id
    )
    if header.date >= newest:
        client.set_registered_model_alias(header.name, CANDIDATE, version.version)
    return int(version.version), logged.model_id


def _candidate_date(client: MlflowClient, name: str) -> str:
    """Date of the model that `candidate` names, '' where none does; the registered model exists afterwards."""
    try:
        aliases = client.get_registered_model(name).aliases
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
            raise
        client.create_registered_model(name)
        return ""
    return client.get_model_version(name, aliases[CANDIDATE]).tags["date"] if CANDIDATE in aliases else ""
