"""What a peer reads and writes, on its side: numpy and the standard library only, nothing of the product.

A task is a JSON file with the fields of `Task`; its results are the probabilities of the judged rows in storage
order, `prob.npy` and for the frozen log `frozen.npy`, and `facts.json`.
N rows, M ids of a multi-hot value, L events, F dense inputs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Task:
    """A training to be done.

    Attributes:
        log: key of the log; only the product's own models need it.
        export: folder of the exported days.
        frozen: the same of the frozen log, whose judged rows are scored too.
        learnt: days that are learnt.
        chosen_on: the day that training stops by.
        judged: days whose rows are scored.
        objective: name of the label.
        seed: of everything drawn.
        parameters: hyper-parameters of the peer.
        target: folder of the results.
    """

    log: str
    export: Path
    frozen: Path
    learnt: tuple[str, ...]
    chosen_on: str
    judged: tuple[str, ...]
    objective: str
    seed: int
    parameters: dict[str, Any]
    target: Path

    @staticmethod
    def read(path: Path) -> Task:
        """Read a task."""
        known = json.loads(path.read_text(encoding="utf-8"))
        known |= {name: Path(known[name]) for name in ("export", "frozen", "target")}
        return Task(**known | {"learnt": tuple(known["learnt"]), "judged": tuple(known["judged"])})

    @property
    def layout(self) -> dict[str, Any]:
        """Names and sizes of the exported arrays."""
        return json.loads((self.export / "layout.json").read_text(encoding="utf-8"))

    def rows(self, days: Sequence[str], *, frozen: bool = False) -> Rows:
        """Rows of some days of the log, or of the frozen one, one after the other."""
        loaded, folder = [], self.frozen if frozen else self.export
        for day in days:
            with np.load(folder / f"{day}.npz") as arrays:
                loaded.append({name: arrays[name] for name in arrays.files})
        joined = {}
        for name in loaded[0]:
            parts = [day[name] for day in loaded]
            width = max(part.shape[-1] for part in parts)
            if name.startswith("token_"):
                parts = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
            joined[name] = np.concatenate(parts)
        return Rows(arrays=joined, column=self.layout["objectives"].index(self.objective))

    def write(self, prob_N: NDArray[Any], frozen_N: NDArray[Any], *, began: float, **facts: Any) -> None:
        """Keep the probabilities and what is known of the training; `began` is a `time.perf_counter()`."""
        np.save(self.target / "prob.npy", np.asarray(prob_N, dtype=np.float32))
        np.save(self.target / "frozen.npy", np.asarray(frozen_N, dtype=np.float32))
        facts["seconds"] = time.perf_counter() - began
        (self.target / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Exported rows and the objective that is learnt.

    Attributes:
        arrays: exported arrays by name.
        column: of the objective.
    """

    arrays: dict[str, NDArray[Any]]
    column: int

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.arrays["surface"])

    @property
    def label(self) -> NDArray[np.float32]:
        """0 or 1 [N]."""
        return self.arrays["label"][:, self.column].astype(np.float32)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Rows with a label [N]."""
        return self.arrays["mask"][:, self.column]
