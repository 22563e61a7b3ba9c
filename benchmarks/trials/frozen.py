"""A log whose later impressions see history and counters as they were at the end of a day, and nothing newer.

Rows of earlier days are what they were: none of them could see a later event. So a model learns the same from both
logs, and its scores differ only by what the judged days themselves told about their users and ads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from numpy.typing import NDArray

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import count_column

Longs = NDArray[np.int64]


def freeze(contract: DataContract, source: Path, target: Path, day: str) -> None:
    """Write the examples and events of a frozen log.

    Args:
        contract: of the log; its counters' windows reach back to its first day, so that nothing leaves them.
        source: lake that is read.
        target: lake that is written.
        day: the last day whose events are seen.

    Raises:
        ValueError: a counter sees the open day, or there is no later day.
    """
    if contract.counters.see_open_day:
        raise ValueError("counters of the open day cannot be frozen by taking later increments away")
    schema = tables.examples(contract)
    examples = DeltaTable(str(source / schema.name)).to_pyarrow_table()
    later = sorted(date for date in pc.unique(examples["date"]).to_pylist() if date > day)
    if not later:
        raise ValueError(f"the log has no examples after {day}")
    opens = pc.min(examples.filter(pc.field("date") == later[0])["impression_ts"])
    increments = DeltaTable(str(source / tables.counter_increments(contract).name)).to_pyarrow_table()
    for date in later[1:]:
        unseen = increments.filter((pc.field("date") > later[0]) & (pc.field("date") <= date))
        examples = _without(examples, date, unseen, contract)
    write_deltalake(target / schema.name, examples, partition_by=list(schema.partition_by), mode="overwrite")
    schema = tables.user_events(contract)
    events = DeltaTable(str(source / schema.name)).to_pyarrow_table(
        filters=(pc.field("event_ts") < opens) & (pc.field("ingest_ts") <= opens)
    )
    events = events.sort_by([(column, "ascending") for column in (*schema.partition_by, *schema.sort_by)])
    write_deltalake(target / schema.name, events, partition_by=list(schema.partition_by), mode="overwrite")


def _without(examples: pa.Table, date: str, unseen: pa.Table, contract: DataContract) -> pa.Table:
    """Take increments away from the counters of one date."""
    chosen_N = pc.equal(examples["date"], date).to_numpy(zero_copy_only=False)
    for counter in contract.counters.groups:
        own = unseen.filter(pc.field("counter") == contract.counters.stored_as(counter))
        columns = {count_column(counter.name): "events"}
        columns |= {count_column(counter.name, kind): f"kind__{kind}" for kind in counter.kinds}
        summed = own.group_by("key").aggregate([(name, "sum") for name in columns.values()])
        place_N = _places(examples, counter.keys, summed["key"])
        for column, stored in columns.items():
            added = np.append(summed[f"{stored}_sum"].to_numpy(), 0)[place_N]
            value_N = examples[column].to_numpy() - np.where(chosen_N, added, 0)
            field = examples.schema.field(column)
            examples = examples.set_column(examples.schema.get_field_index(column), field, pa.array(value_N))
    return examples


def _places(examples: pa.Table, keys: tuple[str, ...], known: pa.ChunkedArray) -> Longs:
    """Where the key of each example stands among known ones; -1 where it does not, or is not known."""
    names = {"user": "user_id", "ad": "ad_id"}
    values = [pc.cast(examples[names.get(key, key)], pa.string()) for key in keys]
    if not values:
        values = [pa.array([""] * examples.num_rows)]
    joined = pc.binary_join_element_wise(*values, "|") if len(values) > 1 else values[0]
    return pc.fill_null(pc.index_in(joined, value_set=known.combine_chunks()), -1).to_numpy().astype(np.int64)
