"""Day batches from Delta, without Spark: examples joined with their histories just in time.

Bucket by bucket: the events of one user bucket are held at a time, so memory is bounded by the largest
bucket. Histories are sliced from `user_events` by the pointer of each example; no copy is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from deltalake import DeltaTable
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches import encoding
from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.history import History, Window
from gem_pipeline.batches.labels import NOTHING_KNOWN, KnownConversions, known_conversions, labels_and_masks
from gem_pipeline.batches.layout import EVENT_AD, EVENT_SOURCE, EVENT_SURFACE, InputLayout, input_layout
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import PartitionError, SchemaError

LOG_GAP_SCALE = 8.0  # log1p of the gap of an event is divided by this to be of order one


@dataclass(frozen=True, kw_only=True)
class EncodedDay:
    """All examples of a day (or of one bucket of it), encoded; histories by position into `events`.

    Attributes:
        token_ids: embedding rows of each token feature and the ids a row.
        window: events of each example.
        event_ids: embedding rows of each event-id feature, for every event of the bucket, shape [E].
        event_dense_EF: dense event inputs but the time gap, shape [E, F - 1].
        event_ts_E: event times in microseconds.
    """

    layout: InputLayout
    token_ids: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    dense_NF: npt.NDArray[np.float32]
    surface_N: npt.NDArray[np.int64]
    label_NK: npt.NDArray[np.float32]
    mask_NK: npt.NDArray[np.bool_]
    user_N: npt.NDArray[np.int64]
    as_of_N: npt.NDArray[np.int64]
    example_N: npt.NDArray[np.int64]
    impression_ids: pa.Array
    window: Window
    event_ids: dict[str, npt.NDArray[np.int64]]
    event_dense_EF: npt.NDArray[np.float32]
    event_ts_E: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.surface_N)

    def batch(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Materialise a batch of the given rows: ids, dense inputs and jagged histories, oldest event first."""
        values: list[npt.NDArray[np.int64]] = []
        lengths: list[npt.NDArray[np.int64]] = []
        for feature in self.layout.tokens:
            ids, length_N = self.token_ids[feature.name]
            values.append(_pick(ids, length_N, rows))
            lengths.append(length_N[rows])
        event_T = _pick(self.window.index_T, self.window.length_N, rows)
        event_length_B = self.window.length_N[rows]
        for feature in self.layout.event_ids:
            values.append(self.event_ids[feature.name][event_T])
            lengths.append(event_length_B)
        gap_s_T = (np.repeat(self.as_of_N[rows], event_length_B) - self.event_ts_E[event_T]) / 1e6
        log_gap_T1 = (np.log1p(gap_s_T) / LOG_GAP_SCALE)[:, None].astype(np.float32)
        return Batch(
            ids=KeyedJaggedTensor.from_lengths_sync(
                keys=list(self.layout.keys),
                values=torch.from_numpy(np.concatenate(values)),
                lengths=torch.from_numpy(np.concatenate(lengths)),
            ),
            dense_BF=torch.from_numpy(self.dense_NF[rows]),
            event_dense_TE=torch.from_numpy(np.concatenate([log_gap_T1, self.event_dense_EF[event_T]], axis=1)),
            surface_B=torch.from_numpy(self.surface_N[rows]),
            label_BK=torch.from_numpy(self.label_NK[rows]),
            mask_BK=torch.from_numpy(self.mask_NK[rows]),
            user_B=torch.from_numpy(self.user_N[rows]),
            example_B=torch.from_numpy(self.example_N[rows]),
        )


def _pick(
    flat: npt.NDArray[np.int64], length_N: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Concatenate the jagged rows `rows` of `flat`."""
    begin_N = np.cumsum(length_N) - length_N
    begin, length = begin_N[rows], length_N[rows]
    offset = np.cumsum(length) - length
    return flat[np.repeat(begin - offset, length) + np.arange(int(length.sum()))]


class DayReader:
    """Reads the examples of a date with their histories.

    Args:
        contract: names features, counters, surfaces and objectives.
        lake: root folder of the lake.
        max_events: events an example may see, the newest ones.
        versions: Delta version of each table to read; tables not named are read at their newest.
    """

    def __init__(
        self, contract: DataContract, lake: Path, *, max_events: int, versions: dict[str, int] | None = None
    ) -> None:
        self.contract, self.lake, self.max_events = contract, lake, max_events
        self.layout = input_layout(contract)
        self.versions = versions or {}

    def day(self, date: str, *, as_of: str | None = None) -> Iterator[EncodedDay]:
        """Yield the day bucket by bucket, in bucket order; empty buckets are left out.

        Args:
            date: the partition.
            as_of: day whose knowledge the labels of conversions are: only those that were mature by then exist.
                None: none of them exists.

        Raises:
            PartitionError: the date has no examples.
            SchemaError: a table uses a Delta feature or lacks a column that the reader needs.
        """
        total = 0
        version = self.versions.get(tables.attributed_conversions().name)
        known = known_conversions(self.contract, self.lake, date, as_of, version=version)
        for bucket in range(self.contract.visibility.user_buckets):
            rows = self._read(tables.examples(self.contract), [("date", "=", date), ("bucket", "=", bucket)])
            if not rows.num_rows:
                continue
            events = self._read(tables.user_events(self.contract), [("date", "<=", date), ("bucket", "=", bucket)])
            yield encode(
                self.contract, self.layout, rows, events, max_events=self.max_events, first_row=total, known=known
            )
            total += rows.num_rows
        if not total:
            raise PartitionError(
                f"Table examples has no rows for date {date}.", remedy="Materialise examples for this date first."
            )

    def batches(self, date: str, *, batch_size: int, generator: np.random.Generator | None = None) -> Iterator[Batch]:
        """Yield batches of a day: in storage order, or shuffled within buckets by `generator`."""
        for part in self.day(date):
            yield from day_batches(part, batch_size=batch_size, generator=generator)

    def _read(self, schema: tables.TableSchema, filters: list[tuple[str, str, str | int]]) -> pa.Table:
        table = DeltaTable(str(self.lake / schema.name), version=self.versions.get(schema.name))
        if extra := set(table.protocol().reader_features or ()):
            raise SchemaError(
                f"Table {schema.name} uses Delta reader features {sorted(extra)} that would be read wrongly.",
                remedy="Recreate the table without deletion vectors and column mapping.",
            )
        have = {field.name for field in table.schema().fields}
        if missing := [name for name in schema.column_names if name not in have]:
            raise SchemaError(
                f"Table {schema.name} lacks column(s) {', '.join(missing)}.",
                remedy="The contract changed since it was derived: materialise it again.",
            )
        rows = table.to_pyarrow_table(filters=filters, columns=list(schema.column_names))
        order = [(column, "ascending") for column in schema.sort_by]
        return rows.sort_by(order) if schema.name == "examples" else rows


def day_batches(part: EncodedDay, *, batch_size: int, generator: np.random.Generator | None = None) -> Iterator[Batch]:
    """Cut an encoded part into batches; the last one may be smaller, none is empty."""
    order = np.arange(part.size) if generator is None else generator.permutation(part.size)
    for first in range(0, part.size, batch_size):
        yield part.batch(order[first : first + batch_size])


def encode(
    contract: DataContract,
    layout: InputLayout,
    rows: pa.Table,
    events: pa.Table,
    *,
    max_events: int,
    first_row: int = 0,
    known: KnownConversions = NOTHING_KNOWN,
) -> EncodedDay:
    """Encode examples and the events they may see.

    Args:
        contract: names the columns.
        layout: `input_layout(contract)`.
        rows: examples, in storage order.
        events: events of (at least) the users of `rows`.
        max_events: window length.
        first_row: number of the first example within its date.
        known: conversions of the date; by default no label of a conversion exists.
    """
    history = History(events, allowance_s=contract.visibility.allowance_s)
    user_N = rows["user_id"].to_numpy()
    as_of_N = rows["impression_ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    size = {spec.name: spec.rows for spec in layout.tables}
    label_NK, mask_NK = labels_and_masks(contract, rows, known)
    return EncodedDay(
        layout=layout,
        token_ids=_token_ids(contract, layout, rows, size),
        dense_NF=_dense(contract, rows),
        surface_N=_place_rows(rows["surface"], contract.surfaces) - 1,
        label_NK=label_NK,
        mask_NK=mask_NK,
        user_N=user_N,
        as_of_N=as_of_N,
        example_N=np.arange(first_row, first_row + rows.num_rows),
        impression_ids=rows["impression_id"].combine_chunks(),
        window=history.window(user_N, as_of_N, max_events=max_events),
        event_ids=_event_ids(contract, history.events, size),
        event_dense_EF=_event_dense(contract, history.events),
        event_ts_E=history.events["event_ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(),
    )


def _place_rows(column: pa.ChunkedArray, names: tuple[str, ...], first: int = 1) -> npt.NDArray[np.int64]:
    """Rows of the place table: position of the name plus `first`."""
    encoded = column.combine_chunks().dictionary_encode()
    position = np.array([names.index(name) + first for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return position[encoded.indices.to_numpy()] if len(position) else np.zeros(len(column), dtype=np.int64)


def _token_ids(
    contract: DataContract, layout: InputLayout, rows: pa.Table, size: dict[str, int]
) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    one_N = np.ones(rows.num_rows, dtype=np.int64)
    ad = encoding.id_rows(rows["ad_id"], salt="ad", rows=size[contract.sequence.ad_table])
    ids = {"ad": (ad, one_N), "surface": (_place_rows(rows["surface"], contract.surfaces), one_N)}
    attribute = {a.column: a.name for a in contract.sequence.attributes}
    for feature in contract.features:
        if feature.table is None:
            continue
        column, table_rows = rows[feature.name], size[feature.table]
        if feature.kind == "multi_hot":
            ids[feature.name] = encoding.multi_hot_rows(column, salt=feature.name, rows=table_rows)
        elif feature.kind == "bucketed":
            cut = encoding.bucket_rows(column, feature.boundaries, salt=feature.name, rows=table_rows)
            ids[feature.name] = (cut, one_N)
        else:
            shared = tables.is_event_attribute(contract, feature)
            salt = attribute[feature.column] if shared else feature.name
            ids[feature.name] = (encoding.id_rows(column, salt=salt, rows=table_rows), one_N)
    return {feature.name: ids[feature.name] for feature in layout.tokens}


def _dense(contract: DataContract, rows: pa.Table) -> npt.NDArray[np.float32]:
    """Dense inputs in the order of `layout.dense`."""
    columns = [encoding.number_inputs(rows[f.name], f.transform) for f in contract.features if f.kind == "dense"]
    groups = contract.counters.groups
    for counter in groups:
        events_N = rows[tables.count_column(counter.name)].to_numpy()
        columns.append(encoding.count_inputs(events_N))
        prior = next(c for c in groups if not c.keys and c.source == counter.source)
        for kind in counter.kinds:
            hits_N = rows[tables.count_column(counter.name, kind)].to_numpy()
            over_all = rows[tables.count_column(prior.name, kind)], rows[tables.count_column(prior.name)]
            base = encoding.prior_rates(over_all[0].to_numpy(), over_all[1].to_numpy()) if counter.keys else None
            columns.append(encoding.rate_inputs(hits_N, events_N, base))
    return np.stack(columns, axis=1) if columns else np.zeros((rows.num_rows, 0), dtype=np.float32)


def _event_ids(contract: DataContract, events: pa.Table, size: dict[str, int]) -> dict[str, npt.NDArray[np.int64]]:
    ids = {EVENT_AD: encoding.id_rows(events["ad_id"], salt="ad", rows=size[contract.sequence.ad_table])}
    for a in contract.sequence.attributes:
        ids[f"event_{a.name}"] = encoding.id_rows(events[a.name], salt=a.name, rows=size[a.table])
    ids[EVENT_SURFACE] = _place_rows(events["surface"], contract.surfaces)
    ids[EVENT_SOURCE] = _place_rows(events["source"], contract.sequence.sources, first=1 + len(contract.surfaces))
    return ids


def _event_dense(contract: DataContract, events: pa.Table) -> npt.NDArray[np.float32]:
    """log1p of the value, then one 0/1 column a kind."""
    value = np.log1p(np.maximum(np.nan_to_num(events["value"].to_numpy()), 0)) / encoding.LOG_SCALE
    bits = events["actions"].to_numpy()
    did = [(bits >> i & 1).astype(np.float32) for i in range(len(contract.sequence.kinds))]
    return np.stack([value.astype(np.float32), *did], axis=1)
