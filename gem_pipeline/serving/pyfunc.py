"""The loader that an `MLmodel` file names: MLflow's pyfunc flavour without pickle.

The artifact holds safetensors and a configuration; the code that reads them is this package.
"""

from __future__ import annotations

from pathlib import Path

from gem_pipeline.serving.scoring import load_model


def _load_pyfunc(data_path: str) -> object:
    """Load a stored model; MLflow calls this by name.

    Args:
        data_path: folder of the model.

    Returns:
        A model with `predict`.

    Raises:
        ModelStoreError: the folder is incomplete.
    """
    return load_model(Path(data_path))
