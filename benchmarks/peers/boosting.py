"""LightGBM on exported rows: `python -m benchmarks.peers.boosting TASK`, by an interpreter that has LightGBM.

A tree reads no sequence, so the history comes as summaries: of the newest 1, 3, 10 and all events how many there
were and how often each outcome, their age, and the same of the events with the row's ad, advertiser or surface. The
day-lagged counters are the dense inputs of the export. Ids are categories or left out, as a hyper-parameter says.
N rows, C columns, L events.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.rows import Rows, Task

NEWEST = (1, 3, 10, 50)
MATCHES = ("ad", "advertiser", "surface")
LARGE = ("token_ad", "token_advertiser")  # their rates by day-lagged counters are dense inputs in any case
ROUNDS, PATIENCE = 3000, 50
Floats = NDArray[np.float32]


def features(
    rows: Rows, layout: dict[str, Any], *, ids: str, sources: list[int]
) -> tuple[Floats, list[str], list[str]]:
    """Columns [N, C], their names, and which of them are categories.

    Args:
        rows: exported rows.
        layout: of the export.
        ids: `all`, `small` (without ads and advertisers) or `none`: which ids are categories.
        sources: ids of the sources of events.
    """
    named: dict[str, NDArray[Any]] = {name: rows.arrays["dense"][:, i] for i, name in enumerate(layout["dense"])}
    named |= _history(rows.arrays, layout, sources)
    tokens = [name for name in rows.arrays if name.startswith("token_")]
    chosen = {"none": [], "small": [name for name in tokens if name not in LARGE], "all": tokens}[ids]
    named |= {name: rows.arrays[name][:, 0] for name in chosen}
    named["surface"] = rows.arrays["surface"]
    names = list(named)
    return np.stack([value_N.astype(np.float32) for value_N in named.values()], axis=1), names, [*chosen, "surface"]


def _history(arrays: dict[str, NDArray[Any]], layout: dict[str, Any], sources: list[int]) -> dict[str, NDArray[Any]]:
    """Summaries of the histories; sources differ in the outcomes that they know, so each has its own."""
    length_N, did_NL = arrays["event_length"], arrays["event_did"]
    there_NL = np.arange(did_NL.shape[1]) >= did_NL.shape[1] - length_N[:, None]
    named: dict[str, NDArray[Any]] = {"length": length_N, "newest_gap": arrays["event_log_gap"][:, -1]}
    named["newest_value"] = arrays["event_log_value"][:, -1]
    bits = {k: (did_NL >> i) & 1 for i, k in enumerate(layout["kinds"]) if k in layout["objectives"]}
    for place, source in enumerate(sources):
        of_source_NL = there_NL & (arrays["event_source"] == source)
        for newest in NEWEST:
            chosen_NL = of_source_NL.copy()
            chosen_NL[:, : did_NL.shape[1] - newest] = False
            named |= _rates(f"source{place}_newest{newest}", chosen_NL, bits)
        for match in MATCHES:
            own_N1 = arrays[f"token_{match}"][:, :1]
            named |= _rates(f"source{place}_same_{match}", of_source_NL & (arrays[f"event_{match}"] == own_N1), bits)
    return named


def _rates(name: str, chosen_NL: NDArray[np.bool_], bits: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """How many events were chosen, and the smoothed rate of each outcome among them."""
    count_N = chosen_NL.sum(axis=1)
    named = {f"{name}_events": count_N}
    for kind, bit_NL in bits.items():
        done_N = (bit_NL * chosen_NL).sum(axis=1)
        named[f"{name}_{kind}"] = (done_N + 1.0) / (count_N + 2.0)
    return named


def main(task: Task) -> None:
    """Train with early stopping, and score."""
    import lightgbm

    began = time.perf_counter()
    parameters = dict(task.parameters)
    learnt, chosen_on = task.rows(task.learnt), task.rows([task.chosen_on])
    kept = learnt.known
    sources = np.setdiff1d(learnt.arrays["event_source"], [0]).tolist()
    rule = {"ids": parameters.pop("ids"), "sources": sources}
    x_NC, names, categories = features(learnt, task.layout, **rule)
    train = lightgbm.Dataset(
        x_NC[kept], learnt.label[kept], feature_name=names, categorical_feature=categories, free_raw_data=False
    )
    valid_NC = features(chosen_on, task.layout, **rule)[0]
    valid = train.create_valid(valid_NC[chosen_on.known], chosen_on.label[chosen_on.known])
    settings = {"objective": "binary", "metric": "binary_logloss", "num_threads": 1, "seed": task.seed, "verbose": -1}
    started = time.perf_counter()
    model = lightgbm.train(
        settings | parameters, train, ROUNDS, valid_sets=[valid],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    trained = time.perf_counter()
    prob_N, frozen_N = (
        model.predict(features(task.rows(task.judged, frozen=frozen), task.layout, **rule)[0], num_threads=1)
        for frozen in (False, True)
    )
    task.write(
        prob_N, frozen_N, began=began, train_seconds=trained - started, examples=int(kept.sum()),
        rounds=model.best_iteration, columns=len(names),
    )  # fmt: skip


if __name__ == "__main__":
    main(Task.read(Path(sys.argv[1])))
