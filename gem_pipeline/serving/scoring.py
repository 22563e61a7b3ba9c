"""A stored model as a scorer: rebuilt from safetensors and configuration alone, in any process.

Rows are those of `examples`; their events come with them, so no lake is needed to serve.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import torch

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import EncodedDay, day_batches
from gem_pipeline.batches.features import encode
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.vectors import GivenVectors, VectorRows, given_vectors
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import ModelStoreError, SchemaError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from gem_pipeline.training.logistic import LogisticBaseline, load_logistic
from gem_pipeline.training.logistic_inputs import HISTORY_EVENTS, inputs_of_batch
from gem_pipeline.training.store import StoredModel

EVENTS = "events"  # column of `predict` that holds each row's events
SCORING_BATCH = 512
Events = dict[tuple[int, int], dict[str, Any]]


class Scorer:
    """A model of any kind behind one interface.

    Attributes:
        config: configuration it was stored with.
        contract: data contract it was trained under.
        objectives: names of the columns of the probabilities.
        window: events of a row that it reads.
    """

    def __init__(self, stored: StoredModel) -> None:
        self.config = stored.config()
        self.contract = DataContract.model_validate(self.config["contract"])
        self.layout = InputLayout.from_dict(self.config["layout"])
        self._model = _build(self.config, self.layout, stored)
        vertical = self.config["kind"] == "vertical"
        self.objectives = (self.config["objective"],) if vertical else self.layout.objectives
        self.window = _window(self._model)

    def score(self, parts: list[EncodedDay]) -> npt.NDArray[np.float32]:
        """Probabilities of encoded examples in their order, [N, number of objectives]."""
        batches = (batch for part in parts for batch in day_batches(part, batch_size=SCORING_BATCH))
        none = np.empty((0, len(self.objectives)), dtype=np.float32)
        return np.concatenate([none, *(self._score_batch(batch) for batch in batches)])

    @torch.no_grad()
    def _score_batch(self, batch: Batch) -> npt.NDArray[np.float32]:
        if isinstance(self._model, LogisticBaseline):
            return self._model.predict(inputs_of_batch(batch, self.layout)).astype(np.float32)
        output = self._model(batch)
        logit = output.logit_B[:, None] if isinstance(self._model, VerticalModel) else output.logit_BK
        return torch.sigmoid(logit).numpy()

    def predict(self, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Score rows that bring their events along (MLflow's pyfunc interface).

        Args:
            model_input: columns of `examples` (labels may be missing) and `events`: for each row a list of
                dictionaries with the columns of `user_events`. A vector may come as a column of its feature's name
                (None: there is none); without the column no row has it. An event may bring vectors likewise.
            params: not used; part of the interface.

        Returns:
            One column of probabilities an objective, index of the input.

        Raises:
            SchemaError: a column is missing, or holds a vector of another dimension or with NaN.
        """
        del params
        rows, known = _rows_and_events(model_input, self.contract)
        events = pa.Table.from_pylist(list(known.values()), schema=tables.user_events(self.contract).arrow())
        vectors = {
            f.name: given_vectors(model_input[f.name].tolist(), name=f.name, dim=f.dim)
            for f in self.layout.vectors
            if f.name in model_input.columns
        }
        part = encode(
            self.contract, self.layout, rows, events, window=self.window,
            vectors=GivenVectors(examples=vectors, events=partial(self._event_vectors, known)),
        )  # fmt: skip
        return pd.DataFrame(self.score([part]), columns=list(self.objectives), index=model_input.index)

    def _event_vectors(self, known: Events, events: pa.Table) -> dict[str, VectorRows]:
        """Vectors that events brought along, by name."""
        keys = zip(events["user_id"].to_pylist(), events["event_key"].to_pylist(), strict=True)
        asked = [known[key] for key in keys]
        dims = {f.name: f.dim for f in self.layout.vectors}
        return {
            name: given_vectors([event.get(name) for event in asked], name=name, dim=dims[name])
            for name in self.layout.event_vectors
        }


def load_model(path: Path) -> Scorer:
    """Load a model folder of the store, or a copy of one.

    Raises:
        ModelStoreError: the folder is incomplete or of an unknown kind.
    """
    return Scorer(StoredModel(name=path.parent.parent.name, date=path.parent.name, model_id=path.name, path=path))


def _build(
    config: dict[str, Any], layout: InputLayout, stored: StoredModel
) -> FoundationModel | VerticalModel | LogisticBaseline:
    kind = config["kind"]
    if kind == "logistic":
        return load_logistic(stored)
    if kind == "foundation":
        model: FoundationModel | VerticalModel = FoundationModel(layout, FoundationConfig.from_dict(config["model"]))
    elif kind == "vertical":
        model = VerticalModel(layout, VerticalConfig.from_dict(config["model"]))
    else:
        raise ModelStoreError(f"{stored.path} holds a model of unknown kind {kind!r}.", remedy="Upgrade this package.")
    model.load_state_dict(stored.weights())
    return model.eval()


def _window(model: FoundationModel | VerticalModel | LogisticBaseline) -> WindowSpec:
    if isinstance(model, LogisticBaseline):
        return WindowSpec(max_events=HISTORY_EVENTS)
    return model.config.read_window if isinstance(model, FoundationModel) else model.config.history


def _rows_and_events(frame: pd.DataFrame, contract: DataContract) -> tuple[pa.Table, Events]:
    """Examples with missing labels as null, and the events of all rows once each, by user and key."""
    schema = tables.examples(contract)
    labels = {tables.label_column(o.name) for o in contract.column_objectives}
    labels |= {tables.OPTED_OUT} & set(schema.column_names)
    if missing := [name for name in (*schema.column_names, EVENTS) if name not in frame.columns and name not in labels]:
        raise SchemaError(
            f"The rows to score lack column(s) {', '.join(missing)}.",
            remedy="Pass the columns of examples and a list of events a row.",
        )
    rows = frame.assign(**dict.fromkeys(labels - set(frame.columns)))
    arrow = pa.Table.from_pandas(rows[list(schema.column_names)], schema=schema.arrow(), preserve_index=False)
    return arrow, {(event["user_id"], event["event_key"]): event for events in frame[EVENTS] for event in events}
