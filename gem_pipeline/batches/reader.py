"""A day from Delta, without Spark: examples joined with their histories just in time.

User slice by user slice: only the events of one slice's users are read, and of those only the columns that the
model's layout needs, from the files that can hold a visible event. No history is stored with an example
(versioned late materialisation, arXiv 2604.24806, section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.features import encode, event_columns, impression_times
from gem_pipeline.batches.history import longs
from gem_pipeline.batches.labels import NOTHING_KNOWN, KnownConversions, known_conversions
from gem_pipeline.batches.lake import SilverTable, TablePart
from gem_pipeline.batches.layout import InputLayout, input_layout
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.slices import BucketUsers, UserSlice, cut_slices
from gem_pipeline.batches.vectors import GivenVectors, VectorReader, VectorRows
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import PartitionError

ARRAY_BYTES = 80  # working arrays of an event: order, keys and times, visibility, place
SLICES_A_RANK = 8  # slices are cut this much finer than a rank's share, so that shares come out even


class DayReader:
    """Reads the examples of a date with their histories.

    Memory: events take at most `ReaderConfig.max_resident_bytes` (see there), plus a few blocks of a file while
    it is scanned, plus the examples of the slices held and their vectors, each once.

    Args:
        contract: names features, counters, surfaces and objectives.
        lake: root folder of the lake.
        window: events that an example may see.
        config: memory, prefetching and batches.
        versions: Delta version of each table to read; tables not named are read at what is newest at first use.
        whole_ids: ids are not hashed into the rows of their tables (`InputLayout.managed`).

    Raises:
        ConfigError: the window names something that the contract does not declare.
    """

    def __init__(
        self,
        contract: DataContract,
        lake: Path,
        *,
        window: WindowSpec,
        config: ReaderConfig | None = None,
        versions: dict[str, int] | None = None,
        whole_ids: bool = False,
    ) -> None:
        window.check(contract)
        self.contract, self.lake, self.window = contract, lake, window
        layout = input_layout(contract).narrowed(window.inputs)
        layout = layout.with_event_vectors(contract) if window.vectors else layout
        self.layout: InputLayout = layout.managed() if whole_ids else layout
        self.config = config or ReaderConfig()
        self._asked_versions = versions or {}
        self._event_columns = event_columns(contract, self.layout, window)

    @property
    def versions(self) -> dict[str, int]:
        """Delta versions that are read."""
        read = (self._examples, self._events, *(reader.table for reader in self._vectors))
        return {table.schema.name: table.version for table in read}

    @property
    def event_bytes(self) -> int:
        """Bytes that an event takes while its slice is held: its columns, working arrays and inputs."""
        types = tables.user_events(self.contract).arrow()
        names = (*self.contract.surfaces, *self.contract.sequence.sources)
        text = 4 + max(len(name) for name in names)
        raw = sum(
            text if pa.types.is_string(types.field(c).type) else types.field(c).type.bit_width // 8
            for c in self._event_columns
        )
        return (
            raw
            + ARRAY_BYTES
            + 8 * len(self.layout.event_ids)
            + 4 * len(self.layout.event_dense)
            + 8 * len(self.layout.event_vectors)
        )

    def plan(self, date: str, *, ranks: int = 1, counted: bool = False) -> tuple[UserSlice, ...]:
        """Cut a day into user slices, in the order of (bucket, user).

        Args:
            date: the partition.
            ranks: ranks that will share them; for several, slices are cut finer than memory asks for.
            counted: the events of every user are counted, also where they are known to fit, so that the cost of
                a slice is known.

        Raises:
            PartitionError: the date has no examples.
            SchemaError: a table uses a Delta feature or lacks a column that the reader needs.
        """
        examples = self._examples.part([("date", "=", date)])
        pointers = examples.read(("bucket", "user_id", "impression_ts"), pc.scalar(True))
        if not pointers.num_rows:
            raise PartitionError(
                f"Table examples has no rows for date {date}.", remedy="Materialise examples for this date first."
            )
        max_events = self.config.max_resident_bytes // self.config.slices_held // self.event_bytes
        bucket_N, user_N = pointers["bucket"].to_numpy(), pointers["user_id"].to_numpy()
        when = self._time_condition(pointers["impression_ts"])
        buckets = []
        for bucket in np.unique(bucket_N).tolist():
            user_U, examples_U = np.unique(user_N[bucket_N == bucket], return_counts=True)
            part = self._event_part(date, bucket, when)
            fits = part.num_rows is not None and part.num_rows <= max_events
            events_U = None if fits and not counted else self._count(part, user_U, when)
            buckets.append(BucketUsers(bucket=bucket, user_U=user_U, examples_U=examples_U, events_U=events_U))
        rule = {"max_events": self.window.max_events, "max_resident_events": max_events}
        slices = cut_slices(buckets, **rule)
        if ranks == 1:
            return slices
        share = sum(piece.cost for piece in slices) // (ranks * SLICES_A_RANK)
        return cut_slices(buckets, **rule, max_cost=max(1, share))

    def known(self, date: str, as_of: str | None, *, objectives: tuple[str, ...] | None = None) -> KnownConversions:
        """What the labels of a date are made of; see `day`."""
        version = self._asked_versions.get(tables.attributed_conversions().name)
        known = known_conversions(self.contract, self.lake, date, as_of, version=version)
        return known if objectives is None else replace(known, shown=frozenset(objectives))

    def read(self, date: str, piece: UserSlice, *, known: KnownConversions = NOTHING_KNOWN) -> EncodedDay:
        """Read and encode the examples of one slice, and the events that they may see."""
        rows = self._example_rows(date, piece, tables.examples(self.contract).column_names)
        when = self._time_condition(rows["impression_ts"]) & _users_of(piece)
        users = pc.field("user_id").isin(pc.unique(rows["user_id"]))
        events = self._event_part(date, piece.bucket, when).read(self._event_columns, when & users)
        vectors: dict[str, VectorRows] = {}
        for reader in self._vectors:
            vectors |= reader.read(rows, impression_times(rows))
        return encode(
            self.contract, self.layout, rows, events, window=self.window, first_row=piece.first_row, known=known,
            vectors=GivenVectors(examples=vectors, events=self._of_events),
        )  # fmt: skip

    def _of_events(self, events: pa.Table) -> dict[str, VectorRows]:
        """Vectors of the ads of some events, in force when they happened."""
        happened_E = longs(events, "event_ts")
        readers = [reader for reader in self._vectors if reader.origin == "ads"]
        return {name: rows for reader in readers for name, rows in reader.read(events, happened_E).items()}

    def impression_ids(self, date: str, pieces: Sequence[UserSlice]) -> pa.Array:
        """Ids of the examples of some slices, in their order."""
        found = [self._example_rows(date, piece, self._examples.schema.sort_by)["impression_id"] for piece in pieces]
        return pa.concat_arrays([chunk for ids in found for chunk in ids.chunks])

    def day(
        self, date: str, *, as_of: str | None = None, objectives: tuple[str, ...] | None = None
    ) -> Iterator[EncodedDay]:
        """Yield the day slice by slice, in the order of (bucket, user).

        Args:
            date: the partition.
            as_of: day whose knowledge the labels of conversions are: only those that were mature by then exist.
                None: none of them exists.
            objectives: whose labels are shown; None: all.

        Raises:
            PartitionError: the date has no examples.
            SchemaError: a table uses a Delta feature or lacks a column that the reader needs.
        """
        known = self.known(date, as_of, objectives=objectives)
        for piece in self.plan(date):
            yield self.read(date, piece, known=known)

    @cached_property
    def _examples(self) -> SilverTable:
        return self._table(tables.examples(self.contract), tables.examples(self.contract).column_names)

    @cached_property
    def _events(self) -> SilverTable:
        return self._table(tables.user_events(self.contract), self._event_columns)

    @cached_property
    def _vectors(self) -> tuple[VectorReader, ...]:
        return tuple(
            VectorReader(
                self.contract, origin, self._table(schema, schema.column_names), max_bytes=self.config.max_vector_bytes
            )
            for origin, schema in tables.vector_tables(self.contract)
        )

    def _table(self, schema: tables.TableSchema, columns: tuple[str, ...]) -> SilverTable:
        table = SilverTable(self.lake, schema, version=self._asked_versions.get(schema.name))
        table.require(columns)
        return table

    def _example_rows(self, date: str, piece: UserSlice, columns: tuple[str, ...]) -> pa.Table:
        part = self._examples.part([("date", "=", date), ("bucket", "=", str(piece.bucket))])
        rows = part.read(columns, _users_of(piece))
        return rows.sort_by([(column, "ascending") for column in self._examples.schema.sort_by])

    def _event_part(self, date: str, bucket: int, when: pc.Expression) -> TablePart:
        return self._events.part([("date", "<=", date), ("bucket", "=", str(bucket))], when)

    def _time_condition(self, as_of: pa.ChunkedArray) -> pc.Expression:
        """Events that some of the impressions may see: not too late for the last, not too old for the first."""
        last = pc.max(as_of).as_py()
        allowance = timedelta(seconds=self.contract.visibility.allowance_s)
        when = (pc.field("event_ts") < pa.scalar(last)) & (pc.field("ingest_ts") <= pa.scalar(last + allowance))
        if self.window.look_back_s is None:
            return when
        first = pc.min(as_of).as_py()
        age = min(timedelta(seconds=self.window.look_back_s), first - datetime(1, 1, 2, tzinfo=UTC))
        oldest = first - age
        # Statistics of a file cut its largest time to whole milliseconds: a bound between two of them could miss it.
        oldest -= timedelta(microseconds=oldest.microsecond % 1000)
        return when & (pc.field("event_ts") >= pa.scalar(oldest))

    @staticmethod
    def _count(part: TablePart, user_U: np.ndarray, when: pc.Expression) -> np.ndarray:
        """Events of each user, counted a block at a time."""
        count_U = np.zeros(len(user_U), dtype=np.int64)
        users = pc.field("user_id").isin(pa.array(user_U))
        for block in part.blocks(("user_id",), when & users):
            count_U += np.bincount(np.searchsorted(user_U, block["user_id"].to_numpy()), minlength=len(user_U))
        return count_U


def _users_of(piece: UserSlice) -> pc.Expression:
    return (pc.field("user_id") >= piece.first_user) & (pc.field("user_id") <= piece.last_user)
