"""FuxiCTR's long-sequence models on exported rows: `python -m benchmarks.peers.neural TASK`, by its own interpreter.

The models, the loop with early stopping and the optimizer are the package's; the batches are ours, in the form that
its own loader of long sequences yields, because its preparation of data starts a Ray cluster for each training.
Numbers are standardised by the learnt rows; ids are numbered by the learnt rows, unknown ones are 0. An event has its
ad, advertiser, surface and, where asked for, its outcomes; the judged ad stands at the end with an outcome of its own.
B rows of a batch, L events.
"""

from __future__ import annotations

import importlib
import math
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.rows import Rows, Task

ITEM = ("ad", "advertiser", "surface")  # ids of an event and of the row itself
EVALUATIONS, PATIENCE = 2, 2  # evaluations a pass, those without a gain after which training stops
SCORING_BATCH, COUNTED_ROWS = 2048, 256
LEAST_SCALE = 0.1  # a count that hardly moves in the learnt days would leave its range later
Item = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]


class Encoder:
    """Numbers ids and scales numbers as the learnt rows say."""

    def __init__(self, rows: Rows, layout: dict[str, Any], *, user_id: bool, outcomes: bool) -> None:
        arrays = rows.arrays
        self.names: list[str] = layout["dense"]
        self.mean_F = arrays["dense"].mean(axis=0)
        self.scale_F = np.maximum(arrays["dense"].std(axis=0), LEAST_SCALE)
        known = {name: [arrays[f"token_{name}"], arrays[f"event_{name}"]] for name in ITEM}
        tokens = [name.removeprefix("token_") for name in arrays if name.startswith("token_")]
        known |= {name: [arrays[f"token_{name}"]] for name in tokens if name not in ITEM}
        known |= {"user": [arrays["user"]]} if user_id else {}
        known |= {"outcomes": [arrays["event_did"]]} if outcomes else {}
        self.known = {
            name: np.setdiff1d(np.concatenate([value.ravel() for value in part]), [0]) for name, part in known.items()
        }
        self.item = [*ITEM, "outcomes"] if outcomes else list(ITEM)
        self.width = {name: part[0].shape[1] for name, part in known.items() if name in tokens and name not in ITEM}

    def numbered(self, name: str, value: NDArray[Any]) -> torch.Tensor:
        """Places among the known ids, from 1; 0 where unknown."""
        known = self.known[name]
        place = np.minimum(np.searchsorted(known, value), len(known) - 1)
        return torch.from_numpy(np.where(known[place] == value, place + 1, 0))

    def encoded(self, rows: Rows, *, left: bool) -> Encoded:
        """Tensors of some rows; histories are padded on the left, or on the right."""
        arrays, length_N = rows.arrays, rows.arrays["event_length"].astype(np.int64)
        numbers = torch.from_numpy(((arrays["dense"] - self.mean_F) / self.scale_F).astype(np.float32))
        flat = {name: numbers[:, place] for place, name in enumerate(self.names)}
        for name in self.known:
            if name not in self.item:
                ids = self.numbered(name, arrays["user"] if name == "user" else arrays[f"token_{name}"])
                flat[name] = ids[:, 0] if self.width.get(name) == 1 else ids
        events = arrays["event_did"].shape[1]
        place_NL = np.arange(events)[None] + (0 if left else (events - length_N)[:, None])
        there_NL = np.arange(events) >= events - length_N[:, None] if left else np.arange(events) < length_N[:, None]
        place_NL = np.where(there_NL, place_NL, 0)
        item = {}
        for name in self.item:
            value = arrays["event_did" if name == "outcomes" else f"event_{name}"]
            ids_NL = self.numbered(name, np.take_along_axis(value, place_NL, axis=1)) * torch.from_numpy(there_NL)
            own_N = self.numbered(name, arrays[f"token_{name}"][:, 0]) if name in ITEM else self.own(rows.size)
            item[name] = torch.cat([ids_NL, own_N[:, None]], dim=1)
        return Encoded(
            flat=flat | {"label": torch.from_numpy(rows.label)}, item=item, mask=torch.from_numpy(there_NL).float()
        )

    def own(self, size: int) -> torch.Tensor:
        """The outcome of the judged ad itself: a value that no event has."""
        return torch.full((size,), len(self.known["outcomes"]) + 1)

    def feature_map(self, folder: Path) -> Any:
        """What the package needs to know of the features."""
        from fuxictr.features import FeatureMap

        found = FeatureMap("export", str(folder))
        features: OrderedDict[str, dict[str, Any]] = OrderedDict()
        for name in self.names:
            features[name] = {"type": "numeric", "source": "context"}
        for name, known in self.known.items():
            spec: dict[str, Any] = {"type": "categorical", "vocab_size": len(known) + 2, "padding_idx": 0}
            spec["source"] = "item" if name in self.item else "user" if name == "user" else "context"
            if self.width.get(name, 1) > 1:
                spec |= {"type": "sequence", "max_len": self.width[name]}
                spec["feature_encoder"] = "layers.MaskedAveragePooling()"
            features[name] = spec
        found.features, found.labels = features, ["label"]
        found.num_fields, found.default_emb_dim = found.get_num_fields(), None
        return found


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Tensors of rows: what is of the row, what is of its events and itself [N, L + 1], and which events there are."""

    flat: dict[str, torch.Tensor]
    item: dict[str, torch.Tensor]
    mask: torch.Tensor


class Loader:
    """Batches in the form of the package's loader of long sequences."""

    def __init__(self, rows: Encoded, size: int, *, shuffled: bool) -> None:
        self.rows, self.size, self.shuffled = rows, size, shuffled

    def __len__(self) -> int:
        """Batches of a pass."""
        return math.ceil(len(self.rows.mask) / self.size)

    def __iter__(self) -> Iterator[Item]:
        """One pass; its order comes from torch's generator."""
        count = len(self.rows.mask)
        order = torch.randperm(count) if self.shuffled else torch.arange(count)
        for chosen in order.split(self.size):
            flat = {name: value[chosen] for name, value in self.rows.flat.items()}
            item = {name: value[chosen].flatten() for name, value in self.rows.item.items()}
            yield flat, item, self.rows.mask[chosen]


def model_settings(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters of the search under the names that a model has for them."""
    hidden, dropout = parameters.pop("hidden"), parameters.pop("dropout")
    towers = {f"mlp{i}_hidden_units": hidden for i in (1, 2)} | {f"mlp{i}_dropout": dropout for i in (1, 2)}
    own = {
        "DIN": {"dnn_hidden_units": hidden, "net_dropout": dropout},
        "DIEN": {"dnn_hidden_units": hidden, "net_dropout": dropout, "batch_norm": False},
        "DCNv2": {"parallel_dnn_hidden_units": hidden, "net_dropout": dropout},
        "FinalMLP": towers,
        "TransAct": {"dcn_hidden_units": hidden, "net_dropout": dropout, "dim_feedforward": 64},
    }
    return parameters | own[name]


def main(task: Task) -> None:
    """Train with early stopping, and score."""
    from fuxictr.pytorch.torch_utils import seed_everything
    from torch.utils.flop_counter import FlopCounterMode

    began = time.perf_counter()
    torch.set_num_threads(1)
    parameters = dict(task.parameters)
    name, size, passes = parameters.pop("model"), parameters.pop("batch_size"), parameters.pop("passes")
    learnt = task.rows(task.learnt)
    chosen = {name: parameters.pop(name) for name in ("user_id", "outcomes")}
    encoder = Encoder(learnt, task.layout, **chosen)
    left = name != "DIEN"  # packed sequences start at the first place
    train, chosen_on, judged, frozen = (
        Loader(encoder.encoded(rows, left=left), batch, shuffled=shuffled)
        for rows, batch, shuffled in (
            (learnt, size, True),
            (task.rows([task.chosen_on]), SCORING_BATCH, False),
            (task.rows(task.judged), SCORING_BATCH, False),
            (task.rows(task.judged, frozen=True), SCORING_BATCH, False),
        )
    )
    del learnt
    seed_everything(task.seed)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "export").mkdir()
        features = encoder.feature_map(Path(folder))
        features.default_emb_dim = parameters["embedding_dim"]
        model = getattr(importlib.import_module(f"model_zoo.LongCTR.{name}.{name}"), name)(
            features, model_id=name, gpu=-1, task="binary_classification", loss="binary_crossentropy",
            optimizer="adam", metrics=["logloss", "AUC"], monitor="logloss", monitor_mode="min", verbose=0,
            eval_steps=math.ceil(len(train) / EVALUATIONS), early_stop_patience=PATIENCE, model_root=folder,
            **model_settings(name, parameters),
        )  # fmt: skip
        started = time.perf_counter()
        model.fit(train, epochs=passes, validation_data=chosen_on)
        seconds = time.perf_counter() - started
        prob_N, frozen_N = model.predict(judged), model.predict(frozen)
    some = Loader(chosen_on.rows, COUNTED_ROWS, shuffled=False)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.forward(next(iter(some)))
    task.write(
        prob_N, frozen_N, began=began, train_seconds=seconds, examples=model._total_steps * size,
        flops_per_example=counter.get_total_flops() / COUNTED_ROWS,
        parameters=sum(value.numel() for value in model.parameters()),
    )  # fmt: skip


if __name__ == "__main__":
    main(Task.read(Path(sys.argv[1])))
