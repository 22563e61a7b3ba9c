"""The model store: a folder a model, safetensors and configuration, written whole or not at all.

`<home>/models/<name>/<date>/<model_id>/` holds `model.safetensors`, `config.json`, `report.json` and,
for models that are trained further, `optimizer.safetensors`. `<date>/current.json` names the model in
force for the date; both appear by one atomic rename.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from gem_pipeline.atomic import write_json
from gem_pipeline.errors import ModelStoreError

WEIGHTS, OPTIMIZER, CONFIG, REPORT, CURRENT = (
    "model.safetensors", "optimizer.safetensors", "config.json", "report.json", "current.json"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """A complete model on disk."""

    name: str
    date: str
    model_id: str
    path: Path

    def config(self) -> dict[str, Any]:
        """Kind, layout, sizes and lineage."""
        return _read_json(self.path / CONFIG)

    def report(self) -> dict[str, Any]:
        """Numbers of the training that made it."""
        return _read_json(self.path / REPORT)

    def weights(self) -> dict[str, Tensor]:
        """Weights by state-dict name."""
        return load_file(self.path / WEIGHTS)

    def optimizer(self) -> dict[str, Tensor]:
        """Optimiser state.

        Raises:
            ModelStoreError: the model was stored without one.
        """
        path = self.path / OPTIMIZER
        if not path.exists():
            raise ModelStoreError(
                f"Model {self.name} of {self.date} was stored without optimiser state.",
                remedy="It serves, but training cannot go on from it.",
            )
        return load_file(path)


class ModelStore:
    """All models under `<home>/models`."""

    def __init__(self, home: Path) -> None:
        self.root = home / "models"

    def find(self, name: str, date: str, model_id: str) -> StoredModel | None:
        """The model with this content id, if it is complete."""
        path = self.root / name / date / model_id
        return StoredModel(name=name, date=date, model_id=model_id, path=path) if path.is_dir() else None

    def current(self, name: str, date: str) -> StoredModel | None:
        """The model in force for a date."""
        pointer = self.root / name / date / CURRENT
        return self.find(name, date, _read_json(pointer)["model_id"]) if pointer.exists() else None

    def require(self, name: str, date: str) -> StoredModel:
        """The model in force for a date.

        Raises:
            ModelStoreError: there is none.
        """
        stored = self.current(name, date)
        if stored is None:
            raise ModelStoreError(
                f"Model {name} of date {date} does not exist.", remedy="Materialise it for this date first."
            )
        return stored

    def set_current(self, stored: StoredModel) -> None:
        """Put a stored model in force for its date."""
        write_json(self.root / stored.name / stored.date / CURRENT, {"model_id": stored.model_id})

    def save(
        self,
        name: str,
        date: str,
        model_id: str,
        *,
        weights: dict[str, Tensor],
        config: dict[str, Any],
        report: dict[str, Any],
        optimizer: dict[str, Tensor] | None = None,
    ) -> StoredModel:
        """Store a model and put it in force; a model that is already there is kept as it is."""
        final = self.root / name / date / model_id
        if not final.is_dir():
            draft = final.with_name(f"{model_id}.{os.getpid()}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            save_file({k: v.detach().contiguous().clone() for k, v in weights.items()}, draft / WEIGHTS)
            if optimizer is not None:
                save_file(optimizer, draft / OPTIMIZER)
            write_json(draft / CONFIG, config)
            write_json(draft / REPORT, report)
            draft.rename(final)
        stored = StoredModel(name=name, date=date, model_id=model_id, path=final)
        self.set_current(stored)
        return stored


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelStoreError(
            f"The model file {path} cannot be read: {error}.", remedy="Materialise the model again."
        ) from error
    return document
