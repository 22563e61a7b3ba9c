"""Rows of `examples` and `user_events` to an encoded day: the columns of the tables become inputs of a layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gem_pipeline.batches import encoding
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.history import History, longs
from gem_pipeline.batches.labels import NOTHING_KNOWN, KnownConversions, labels_and_masks
from gem_pipeline.batches.layout import DID_PREFIX, EVENT_AD, EVENT_SOURCE, EVENT_SURFACE, InputLayout
from gem_pipeline.batches.selection import find_windows
from gem_pipeline.batches.vectors import GivenVectors, VectorRows, no_vectors
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract

Longs = npt.NDArray[np.int64]
POINTER = ("user_id", "event_ts", "ingest_ts", "event_key")  # event columns that find windows, whatever they hold


def event_columns(contract: DataContract, layout: InputLayout, window: WindowSpec) -> tuple[str, ...]:
    """Columns of `user_events` that a model needs, in storage order: its inputs and what selects its events."""
    needed = {*POINTER, *layout.event_columns, *(c for group in window.groups for c in group.columns)}
    return tuple(name for name in tables.user_events(contract).column_names if name in needed)


def encode(
    contract: DataContract,
    layout: InputLayout,
    rows: pa.Table,
    events: pa.Table,
    *,
    window: WindowSpec,
    first_row: int = 0,
    known: KnownConversions = NOTHING_KNOWN,
    vectors: GivenVectors | None = None,
) -> EncodedDay:
    """Encode examples and the events they may see.

    Args:
        contract: names the columns.
        layout: `input_layout(contract)`, or a narrower one.
        rows: examples, in storage order.
        events: events of (at least) the users of `rows`, with at least `event_columns`.
        window: events that an example may see.
        first_row: number of the first example within its date.
        known: conversions of the date; by default no label of a conversion exists.
        vectors: those of the examples and of the events; by default nothing has one.
    """
    history = History(events, allowance_s=contract.visibility.allowance_s)
    user_N = rows["user_id"].to_numpy()
    as_of_N = impression_times(rows)
    windows, kept_E = find_windows(history, window, user_N, as_of_N, kinds=contract.sequence.kinds)
    seen = history.rows(kept_E)
    size = {spec.name: spec.encoded_rows for spec in layout.tables}
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
        window=windows,
        event_ids=_event_ids(contract, layout, seen, size),
        event_dense_EF=_event_dense(contract, layout, seen),
        vectors=_allowed_vectors(contract, layout, rows, vectors.examples if vectors else {}),
        event_vectors=_event_vectors(layout, seen, vectors),
    )


def _event_vectors(layout: InputLayout, events: pa.Table, given: GivenVectors | None) -> dict[str, VectorRows]:
    """Every vector that the layout's events bring, those in use only."""
    found = given.events(events) if given is not None and layout.event_vectors else {}
    dims = {f.name: f.dim for f in layout.vectors}
    return {n: (found.get(n) or no_vectors(events.num_rows, dims[n])).compact() for n in layout.event_vectors}


def _allowed_vectors(
    contract: DataContract, layout: InputLayout, rows: pa.Table, given: Mapping[str, VectorRows]
) -> dict[str, VectorRows]:
    """Every vector of the layout; none on a surface that may not use it."""
    surfaces = {f.name: f.surfaces for f in contract.features}
    found = {f.name: given.get(f.name) or no_vectors(rows.num_rows, f.dim) for f in layout.vectors}
    for name, one in found.items():
        if surfaces[name]:
            may_N = pc.is_in(rows["surface"], value_set=pa.array(surfaces[name])).to_numpy()
            found[name] = VectorRows(value_PD=one.value_PD, place_N=np.where(may_N, one.place_N, -1))
    return found


def impression_times(rows: pa.Table) -> Longs:
    """Impression times of examples, microseconds since the epoch (UTC)."""
    return longs(rows, "impression_ts")


def _place_rows(column: pa.ChunkedArray, names: tuple[str, ...], first: int = 1) -> Longs:
    """Rows of the place table: position of the name plus `first`."""
    encoded = column.combine_chunks().dictionary_encode()
    position = np.array([names.index(name) + first for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return position[encoded.indices.to_numpy()] if len(position) else np.zeros(len(column), dtype=np.int64)


def _token_ids(
    contract: DataContract, layout: InputLayout, rows: pa.Table, size: dict[str, int]
) -> dict[str, tuple[Longs, Longs]]:
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
    """Dense inputs in the order of `layout.dense`; rates are smoothed towards `Counters.prior_of`."""
    columns = [encoding.number_inputs(rows[f.name], f.transform) for f in contract.features if f.kind == "dense"]
    for counter in contract.counters.groups:
        events_N = rows[tables.count_column(counter.name)].to_numpy()
        columns.append(encoding.count_inputs(events_N))
        prior = contract.counters.prior_of(counter)
        assert prior is not None, "checked when the contract was loaded"
        for kind in counter.kinds:
            hits_N = rows[tables.count_column(counter.name, kind)].to_numpy()
            over_all = rows[tables.count_column(prior.name, kind)], rows[tables.count_column(prior.name)]
            base = encoding.prior_rates(over_all[0].to_numpy(), over_all[1].to_numpy()) if counter.keys else None
            columns.append(encoding.rate_inputs(hits_N, events_N, base))
    return np.stack(columns, axis=1) if columns else np.zeros((rows.num_rows, 0), dtype=np.float32)


def _event_ids(contract: DataContract, layout: InputLayout, events: pa.Table, size: dict[str, int]) -> dict[str, Longs]:
    table = {f"event_{a.name}": a for a in contract.sequence.attributes}
    ids: dict[str, Longs] = {}
    for feature in layout.event_ids:
        if feature.name == EVENT_AD:
            ids[EVENT_AD] = encoding.id_rows(events["ad_id"], salt="ad", rows=size[contract.sequence.ad_table])
        elif feature.name == EVENT_SURFACE:
            ids[EVENT_SURFACE] = _place_rows(events["surface"], contract.surfaces)
        elif feature.name == EVENT_SOURCE:
            first = 1 + len(contract.surfaces)
            ids[EVENT_SOURCE] = _place_rows(events["source"], contract.sequence.sources, first=first)
        else:
            a = table[feature.name]
            ids[feature.name] = encoding.id_rows(events[a.name], salt=a.name, rows=size[a.table])
    return ids


def _event_dense(contract: DataContract, layout: InputLayout, events: pa.Table) -> npt.NDArray[np.float32]:
    """Event numbers in the order of the layout but for the time gap: log1p of the value, 0 or 1 a kind."""
    columns: list[npt.NDArray[np.float32]] = []
    for name in layout.event_dense[1:]:
        if name == "log_value":
            value_E = np.log1p(np.maximum(np.nan_to_num(events["value"].to_numpy()), 0)) / encoding.LOG_SCALE
            columns.append(value_E.astype(np.float32))
        else:
            bit = contract.sequence.kinds.index(name.removeprefix(DID_PREFIX))
            columns.append((events["actions"].to_numpy() >> bit & 1).astype(np.float32))
    return np.stack(columns, axis=1) if columns else np.zeros((events.num_rows, 0), dtype=np.float32)
