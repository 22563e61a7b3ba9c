"""One impression explained: its pointer, the history it saw, its features and labels, versions, and every stored score.

Ours. The history is recounted here by the contract's rule as it is written, not by the reader's search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from gem_pipeline.batches.labels import known_conversions
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import DataSourceError
from gem_pipeline.quality.gate import read_gate
from gem_pipeline.runs.lineage import newest_versions
from gem_pipeline.training.plan import partition_dates

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What is known of one impression.

    Attributes:
        example: its row of `examples`: pointer, features, counters, labels of columns.
        matured: label of each conversion objective, None where it is not mature yet.
        num_visible: events of its user that it could see.
        events: the newest of them, newest first, with `seconds_before` and `kinds` in words.
        versions: newest Delta version of each table, and the content hash that its date passed its gate with.
        scores: stored probabilities: model, objective, probability, what the model was trained through, its id.
    """

    example: Row
    matured: dict[str, int | None]
    num_visible: int
    events: list[Row]
    versions: dict[str, dict[str, Any]]
    scores: list[Row]


def explain(
    contract: DataContract, home: Path, impression_id: str, *, date: str | None = None, num_events: int = 20
) -> Explanation:
    """Explain an impression.

    Args:
        contract: the data contract.
        home: folder of all state.
        impression_id: as it stands in `examples`.
        date: its partition, where it is known; otherwise every partition is searched.
        num_events: events to list.

    Raises:
        DataSourceError: there is no such impression; where it was left out for a fault, the message says for which.
    """
    lake = home / "lake"
    example = _example(lake, impression_id, date)
    num_visible, events = _history(contract, lake, example, num_events)
    versions: dict[str, dict[str, Any]] = {}
    for table, version in newest_versions(lake).items():
        marker = read_gate(home, table, tables.gate_date(table, example["date"]))
        versions[table] = {"delta_version": version, "content_hash": marker.content_hash if marker else None}
    return Explanation(
        example=example, matured=_matured(contract, home, example), num_visible=num_visible, events=events,
        versions=versions, scores=[*_teacher_scores(contract, lake, example), *_predictions(lake, example)],
    )  # fmt: skip


def _rows(lake: Path, table: str, where: pc.Expression, partitions: list[tuple[str, str, str]]) -> list[Row]:
    path = str(lake / table)
    if not DeltaTable.is_deltatable(path):
        return []
    found = DeltaTable(path).to_pyarrow_dataset(file_pruning_predicate=partitions or None)
    rows: list[Row] = found.to_table(filter=where).to_pylist()
    return rows


def _example(lake: Path, impression_id: str, date: str | None) -> Row:
    on_date = [("date", "=", date)] if date else []
    found = _rows(lake, "examples", ds.field("impression_id") == impression_id, on_date)
    if found:
        return min(found, key=lambda row: str(row["date"]))
    named = pc.match_substring(ds.field("row"), json.dumps(impression_id))
    left_out = _rows(lake, "quarantine/examples", named, on_date)
    if left_out:
        raise DataSourceError(
            f"Impression {impression_id} of {left_out[0]['date']} was left out of examples: {left_out[0]['reason']}.",
            remedy="Mend the row in the source and derive the date again.",
        )
    raise DataSourceError(
        f"Table examples has no impression {impression_id}{f' on {date}' if date else ''}.",
        remedy="Name an id of the impressions table, and a date that has been derived.",
    )


def _history(contract: DataContract, lake: Path, example: Row, num_events: int) -> tuple[int, list[Row]]:
    """The rule as it is written: event_ts < impression_ts and ingest_ts <= impression_ts + allowance."""
    at = example["impression_ts"]
    seen = (
        (ds.field("user_id") == example["user_id"])
        & (ds.field("event_ts") < pa.scalar(at))
        & (ds.field("ingest_ts") <= pa.scalar(at + timedelta(seconds=contract.visibility.allowance_s)))
    )
    partitions = [("bucket", "=", str(example["bucket"])), ("date", "<=", example["date"])]
    rows = _rows(lake, "user_events", seen & (ds.field("date") <= example["date"]), partitions)
    rows.sort(key=lambda row: (row["event_ts"], row["ingest_ts"], row["event_key"]), reverse=True)
    kinds = contract.sequence.kinds
    newest = [
        row | {"seconds_before": (at - row["event_ts"]).total_seconds(),
               "kinds": [kind for i, kind in enumerate(kinds) if row["actions"] >> i & 1]}
        for row in rows[:num_events]
    ]  # fmt: skip
    return len(rows), newest


def _matured(contract: DataContract, home: Path, example: Row) -> dict[str, int | None]:
    """Labels of conversions as of the newest day with examples."""
    if not contract.conversion_objectives:
        return {}
    as_of = max(partition_dates(home, "examples"))
    known = known_conversions(contract, home / "lake", example["date"], as_of)
    labels: dict[str, int | None] = {}
    for objective in contract.conversion_objectives:
        here = not objective.surfaces or example["surface"] in objective.surfaces
        mature = here and objective.name in known.mature and example.get(tables.OPTED_OUT) != 1
        ids = known.impressions.get(objective.name)
        positive = ids is not None and example["impression_id"] in ids.to_pylist()
        labels[objective.name] = int(positive) if mature else None
    return labels


def _teacher_scores(contract: DataContract, lake: Path, example: Row) -> Iterator[Row]:
    here = ds.field("impression_id") == example["impression_id"]
    for row in _rows(lake, "teacher_outputs", here, [("date", "=", example["date"])]):
        for objective in contract.objectives:
            yield {"model": row["teacher"], "objective": objective.name, "prob": row[f"prob__{objective.name}"],
                   "trained_through": row["trained_through"], "model_id": row["model_id"]}  # fmt: skip


def _predictions(lake: Path, example: Row) -> Iterator[Row]:
    here = ds.field("impression_id") == example["impression_id"]
    names = ("model", "objective", "prob", "trained_through", "model_id")
    for row in _rows(lake, "predictions", here, [("date", "=", example["date"])]):
        yield {name: row[name] for name in names}


def text(contract: DataContract, found: Explanation) -> Iterator[str]:
    """The explanation in lines for people."""
    row = found.example
    pointer = ("bucket", "user_id", "impression_ts")
    yield f"Impression {row['impression_id']} of {row['date']}, surface {row['surface']}, ad {row['ad_id']}"
    yield f"Pointer: bucket {row['bucket']}, user {row['user_id']}, as of {row['impression_ts'].isoformat()}"
    labels = {o.name: row[tables.label_column(o.name)] for o in contract.column_objectives} | found.matured
    yield "Labels: " + ", ".join(f"{name} {'not known' if value is None else value}" for name, value in labels.items())
    counters = tables.counter_columns(contract)
    hidden = {"date", "impression_id", "surface", "ad_id", *pointer, *counters}
    hidden |= {tables.OPTED_OUT, *(tables.label_column(o.name) for o in contract.objectives)}
    yield "Features: " + ", ".join(f"{name}={_short(value)}" for name, value in row.items() if name not in hidden)
    yield "Counters: " + ", ".join(f"{name.removeprefix('count__')}={row[name]}" for name in counters)
    yield f"History: {found.num_visible} visible event(s); the newest {len(found.events)}:"
    for event in found.events:
        yield (
            f"  {event['seconds_before']:>12.1f} s before  {event['surface']:<12} {event['source']:<8} "
            f"{'+'.join(event['kinds']) or '-':<24} ad {event['ad_id']}  value {_short(event['value'])}"
        )
    for table, version in found.versions.items():
        yield f"Table {table}: Delta version {version['delta_version']}, content {version['content_hash'] or 'no gate'}"
    for score in found.scores:
        yield (
            f"Score {score['model']}, {score['objective']}: {score['prob']:.6f} "
            f"(trained through {score['trained_through']}, model {score['model_id']})"
        )
    if not found.scores:
        yield "Score: none is stored; no model has scored this date."


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
