"""The rows and features that GEM gets, as plain arrays that another environment can read; written once per contract.

One `<day>.npz` a day, rows in storage order (that of `judging.judged_rows`), histories left-padded to the same length,
newest event last, at row 0 of their tables where there is no event. N rows, M ids of the longest multi-hot value,
L events of a history, F dense inputs, K objectives.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.trials.homes import Log, derived
from gem_pipeline.atomic import write_text
from gem_pipeline.batches.encoded_day import LOG_GAP_SCALE, EncodedDay
from gem_pipeline.batches.layout import DID_PREFIX, input_layout
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec

EVENTS = 50  # newest events of a history
Arrays = dict[str, NDArray[Any]]


def exported(log: Log, days: tuple[str, ...]) -> Path:
    """The folder with the arrays of some days; what is missing is written. Labels of conversions are masked."""
    contract = derived(log)
    folder = log.home / "export" / f"{contract.content_hash}-{EVENTS}"
    folder.mkdir(parents=True, exist_ok=True)
    reader = DayReader(contract, log.home / "lake", window=WindowSpec(max_events=EVENTS))
    for day in days:
        target = folder / f"{day}.npz"
        if target.exists():
            continue
        parts = [_arrays(part) for part in reader.day(day)]
        widest = {name: max(part[name].shape[-1] for part in parts) for name in parts[0] if name.startswith("token_")}
        joined = {name: np.concatenate([_wide(part[name], widest.get(name)) for part in parts]) for name in parts[0]}
        partial = target.with_name(f".{os.getpid()}-{target.name}")
        np.savez(partial, **joined)
        partial.rename(target)
    layout = input_layout(contract)
    tables = {table.name: table.rows for table in layout.tables}
    write_text(
        folder / "layout.json",
        json.dumps(
            {
                "dense": layout.dense,
                "surfaces": layout.surfaces,
                "objectives": layout.objectives,
                "kinds": [name.removeprefix(DID_PREFIX) for name in layout.event_dense if name.startswith(DID_PREFIX)],
                "rows": {f.name: tables[f.table] for f in (*layout.tokens, *layout.event_ids)},
                "table": {f.name: f.table for f in (*layout.tokens, *layout.event_ids)},
            }
        ),
    )
    return folder


def _arrays(part: EncodedDay) -> Arrays:
    """Arrays of one slice of users."""
    rows = np.arange(part.size)
    index_T, length_N = part.window.select(rows)
    row_T = np.repeat(rows, length_N)
    place_T = EVENTS - np.repeat(np.cumsum(length_N), length_N) + np.arange(len(row_T))
    names = list(part.layout.event_dense[1:])
    did = [names.index(name) for name in names if name.startswith(DID_PREFIX)]
    gap_T = np.log1p((part.as_of_N[row_T] - part.window.happened_E[index_T]) / 1e6) / LOG_GAP_SCALE
    did_T = (part.event_dense_EF[index_T][:, did] > 0) @ (1 << np.arange(len(did)))
    events: Arrays = {
        **{f.name: part.event_ids[f.name][index_T].astype(np.int32) for f in part.layout.event_ids},
        "event_did": did_T.astype(np.uint16),
        "event_log_gap": gap_T.astype(np.float32),
        "event_log_value": part.event_dense_EF[index_T, names.index("log_value")],
    }
    return {
        **{f"token_{f.name}": _padded(*part.token_ids[f.name]) for f in part.layout.tokens},
        **{name: _placed(value_T, row_T, place_T, part.size) for name, value_T in events.items()},
        "event_length": length_N.astype(np.int16),
        "dense": part.dense_NF,
        "surface": part.surface_N.astype(np.int8),
        "user": part.user_N,
        "label": part.label_NK.astype(np.int8),
        "mask": part.mask_NK,
    }


def _placed(value_T: NDArray[Any], row_T: NDArray[np.int64], place_T: NDArray[np.int64], num_rows: int) -> NDArray[Any]:
    """Jagged values at their places, [N, L]."""
    out_NL = np.zeros((num_rows, EVENTS), dtype=value_T.dtype)
    out_NL[row_T, place_T] = value_T
    return out_NL


def _padded(id_V: NDArray[np.int64], length_N: NDArray[np.int64]) -> NDArray[np.int32]:
    """Jagged ids, those of a row from the left, [N, M]."""
    row_V = np.repeat(np.arange(len(length_N)), length_N)
    place_V = np.arange(len(id_V)) - np.repeat(np.cumsum(length_N) - length_N, length_N)
    out_NM = np.zeros((len(length_N), max(1, int(length_N.max(initial=1)))), dtype=np.int32)
    out_NM[row_V, place_V] = id_V
    return out_NM


def _wide(value_NM: NDArray[Any], width: int | None) -> NDArray[Any]:
    """Padded on the right to a width, where there is one."""
    return value_NM if width is None else np.pad(value_NM, ((0, 0), (0, width - value_NM.shape[1])))
