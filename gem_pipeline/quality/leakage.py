"""Leaked events, counted by another engine and another formulation than the ones that derived the tables.

The derivation turns the contract's rule into one visible time an event and adds up daily increments.
Here a sample of impressions is recounted with the rule as it is written, `event_ts < impression_ts and
ingest_ts <= impression_ts + allowance`, over all events, without Spark. Ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.counters import Counter
from gem_pipeline.quality.gate import CheckResult

Impression = Mapping[str, Any]
_TIMES = ("event_ts", "ingest_ts")


def event_columns(contract: DataContract) -> list[str]:
    """Columns of `user_events` that a recount reads."""
    names = [attribute.name for attribute in contract.sequence.attributes]
    return [*_TIMES, "user_id", "ad_id", "surface", "source", "actions", *names]


def recount(
    sample: list[Impression], batches: Iterable[pa.RecordBatch], contract: DataContract
) -> dict[str, CheckResult]:
    """Recount a sample of impressions in one pass over the events.

    Two kinds of leak are counted: an event of the user that is visible by its visible time although a
    clock forbids it, and a counter larger than the number of events that both clocks allowed.

    Args:
        sample: rows of `examples` with `impression_us` (time in microseconds) and `attribute__<name>`.
        batches: events, with the columns of `event_columns`; memory is bounded by one batch.
        contract: visibility, counters.

    Returns:
        date -> the check `zero_leaked_events`.
    """
    allowed = [{c.name: np.zeros(1 + len(c.kinds), dtype=np.int64) for c in contract.counters.groups} for _ in sample]
    leaked = np.zeros(len(sample), dtype=np.int64)
    for batch in batches:
        events = _plain(batch, contract)
        for row, impression in enumerate(sample):
            seen, visible = _visibility(events, impression["impression_us"], contract)
            leaked[row] += np.count_nonzero(visible & ~seen & (events["user_id"] == impression["user_id"]))
            for counter in contract.counters.groups:
                allowed[row][counter.name] += _count(events, seen, impression, counter, contract)
    for row, impression in enumerate(sample):
        for counter in contract.counters.groups:
            names = [tables.count_column(counter.name, kind) for kind in (None, *counter.kinds)]
            claimed = np.array([impression[name] for name in names], dtype=np.int64)
            leaked[row] += np.maximum(claimed - allowed[row][counter.name], 0).sum()
    return _checks(sample, leaked)


def _checks(sample: list[Impression], leaked: npt.NDArray[np.int64]) -> dict[str, CheckResult]:
    checks = {}
    for date in sorted({str(impression["date"]) for impression in sample}):
        rows = [row for row, impression in enumerate(sample) if impression["date"] == date]
        total = int(leaked[rows].sum())
        checks[date] = CheckResult(
            name="zero_leaked_events",
            passed=total == 0,
            observed=f"{len(rows)} impressions recounted",
            unexpected_count=total,
        )
    return checks


def _plain(batch: pa.RecordBatch, contract: DataContract) -> dict[str, Any]:
    """Columns as numpy arrays [E]: times in microseconds, each name of a string column as a mask, nulls as a mask."""
    events: dict[str, Any] = {}
    for name in event_columns(contract):
        column = batch.column(name)
        if name in _TIMES:
            events[name] = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
        elif name in ("surface", "source"):
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            codes = coded.indices.to_numpy(zero_copy_only=False)
            events[name] = {value: codes == code for code, value in enumerate(coded.dictionary.to_pylist())}
        else:
            events[name] = column.fill_null(0).to_numpy(zero_copy_only=False)
            events[f"null {name}"] = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return events


def _visibility(
    events: Mapping[str, Any], impression_us: int, contract: DataContract
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether the two clocks allow each event [E], and whether its visible time has come [E]."""
    allowance_us = contract.visibility.allowance_s * 1_000_000
    seen = (events["event_ts"] < impression_us) & (events["ingest_ts"] <= impression_us + allowance_us)
    visible = np.maximum(events["event_ts"] + 1, events["ingest_ts"] - allowance_us) <= impression_us
    return seen, visible


def _count(
    events: Mapping[str, Any], seen: npt.NDArray[np.bool_], impression: Impression, counter: Counter,
    contract: DataContract,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """Events of the counter's keys that were seen, and how many of them carry each of its kinds."""
    nobody = np.zeros(len(seen), dtype=bool)
    chosen = seen & events["source"].get(counter.source, nobody)
    for key in counter.keys:
        if key == "surface":
            chosen = chosen & events["surface"].get(impression["surface"], nobody)
            continue
        column = {"user": "user_id", "ad": "ad_id"}.get(key, key)
        value = impression[column if key in ("user", "ad") else f"attribute__{key}"]
        same = nobody if value is None else events[column] == value
        unknown = events[f"null {column}"]
        chosen = chosen & same if unknown is None else chosen & same & ~unknown
    actions = events["actions"][chosen]
    bits = [1 << contract.sequence.kinds.index(kind) for kind in counter.kinds]
    return np.array([len(actions), *(np.count_nonzero(actions & bit) for bit in bits)], dtype=np.int64)
