"""Schemas of the silver and gold tables, derived from the contract.

One definition a table; the Spark DDL, the Arrow schema and the expectation suite come from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from gem_pipeline.contracts.contract import DataContract, Feature

ColumnType = Literal[
    "long", "int", "byte", "float", "string", "timestamp", "array<long>", "array<string>", "array<float>"
]

_SPARK = {"long": "BIGINT", "int": "INT", "byte": "TINYINT", "float": "FLOAT", "string": "STRING",
          "timestamp": "TIMESTAMP", "array<long>": "ARRAY<BIGINT>", "array<string>": "ARRAY<STRING>",
          "array<float>": "ARRAY<FLOAT>"}  # fmt: skip
_ARROW = {"long": pa.int64(), "int": pa.int32(), "byte": pa.int8(), "float": pa.float32(), "string": pa.string(),
          "timestamp": pa.timestamp("us", tz="UTC"), "array<long>": pa.list_(pa.int64()),
          "array<string>": pa.list_(pa.string()), "array<float>": pa.list_(pa.float32())}  # fmt: skip


Origin = Literal["ads", "users"]  # dimensions that may carry vectors
ALL_DAYS = "all"  # the one date partition of a table whose rows belong to no day: replaced as a whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column: its type, whether it may be null, and what it means."""

    name: str
    type: ColumnType
    nullable: bool = False
    doc: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """A table of the lake.

    Attributes:
        name: table name and its folder under the lake root.
        columns: in storage order.
        partition_by: partition columns, coarsest first; the first one is always the date.
        sort_by: order of the rows within a file.
        key: columns that identify a row within a date partition.
    """

    name: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in storage order."""
        return tuple(column.name for column in self.columns)

    def arrow(self) -> pa.Schema:
        """The Arrow schema, in storage order."""
        return pa.schema([pa.field(c.name, _ARROW[c.type], nullable=c.nullable) for c in self.columns])

    def ddl(self) -> str:
        """Spark DDL of the columns, accepted by `StructType.fromDDL` and `CREATE TABLE`."""
        return ", ".join(f"`{c.name}` {_SPARK[c.type]}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)

    def spark_type(self, name: str) -> str:
        """Spark SQL type of one column, for casts."""
        return next(_SPARK[c.type] for c in self.columns if c.name == name)


def user_events(contract: DataContract) -> TableSchema:
    """One row an event, all kinds and surfaces on one time line; each event stored once (OneSeq)."""
    return TableSchema(
        name="user_events",
        columns=(
            Column(name="date", type="string", doc="date partition of the source row"),
            Column(name="bucket", type="int", doc="user bucket"),
            Column(name="user_id", type="long"),
            Column(name="event_ts", type="timestamp", doc="when the outcome became known (UTC)"),
            Column(name="ingest_ts", type="timestamp", doc="when the platform received the event (UTC)"),
            Column(name="event_key", type="long", doc="64-bit hash of the source's event id; breaks ties in time"),
            Column(name="ad_id", type="long"),
            Column(name="surface", type="string"),
            Column(name="source", type="string"),
            Column(name="actions", type="int", doc="bit i set: the event carries kind i of the contract"),
            Column(name="value", type="float", nullable=True, doc="dwell seconds or another amount"),
            *(Column(name=a.name, type="long", nullable=True, doc="attribute of the event's ad")
              for a in contract.sequence.attributes),
        ),
        partition_by=("date", "bucket"),
        sort_by=("user_id", "event_ts", "ingest_ts", "event_key"),
        key=("user_id", "event_key"),
    )  # fmt: skip


def label_column(objective: str) -> str:
    """Column of the label in `examples`, for an objective that is a column of the impressions."""
    return f"label__{objective}"


OPTED_OUT = "opted_out"  # column of `examples` where users may opt out and conversions are objectives


def _opt_out_columns(contract: DataContract) -> tuple[Column, ...]:
    if contract.tables.users.opt_out is None or not contract.conversion_objectives:
        return ()
    doc = "1: the user had opted out, so no conversion can be credited and no label of one exists"
    return (Column(name=OPTED_OUT, type="byte", nullable=True, doc=doc),)


def count_column(counter: str, kind: str | None = None) -> str:
    """Column of a counter in `examples`: the number of events, or of those that carry `kind`."""
    return f"count__{counter}" + (f"__{kind}" if kind else "")


def is_event_attribute(contract: DataContract, feature: Feature) -> bool:
    """Whether events carry the same ad attribute, so that both must share ids: stored as a long in both tables."""
    columns = {attribute.column for attribute in contract.sequence.attributes}
    return feature.kind == "categorical" and feature.origin == "ads" and feature.column in columns


def _feature_type(contract: DataContract, feature: Feature) -> ColumnType:
    if is_event_attribute(contract, feature):
        return "long"
    return {"categorical": "string", "bucketed": "float", "multi_hot": "array<string>", "dense": "float"}[feature.kind]  # type: ignore[return-value]


def counter_columns(contract: DataContract) -> tuple[str, ...]:
    """All counter columns of `examples`, in order."""
    names: list[str] = []
    for counter in contract.counters.groups:
        names.append(count_column(counter.name))
        names.extend(count_column(counter.name, kind) for kind in counter.kinds)
    return tuple(names)


def counter_increments(contract: DataContract) -> TableSchema:
    """What became known between the opening of the day before and the opening of this day, by counter and key."""
    return TableSchema(
        name="counter_increments",
        columns=(
            Column(name="date", type="string", doc="first day whose impressions may see these counts"),
            Column(name="counter", type="string"),
            Column(name="key", type="string", doc="the key values, joined by a vertical bar"),
            Column(name="events", type="long"),
            *(Column(name=f"kind__{kind}", type="long") for kind in contract.sequence.kinds),
        ),
        partition_by=("date",),
        sort_by=("counter", "key"),
        key=("counter", "key"),
    )


def examples(contract: DataContract) -> TableSchema:
    """One row an impression: labels, features as known at its time, and a pointer into the history.

    Labels of conversion objectives are not here: readers join them from `attributed_conversions`. Neither are
    vectors: (ad_id or user_id, impression_ts) points into `ad_vectors` and `user_vectors`.
    The pointer is (bucket, user_id, impression_ts): the history is every event of the user that was
    visible then. No copy of it is stored (versioned late materialisation, arXiv 2604.24806).
    """
    return TableSchema(
        name="examples",
        columns=(
            Column(name="date", type="string"),
            Column(name="bucket", type="int", doc="pointer: user bucket"),
            Column(name="user_id", type="long", doc="pointer: user"),
            Column(name="impression_ts", type="timestamp", doc="pointer: as-of time (UTC)"),
            Column(name="impression_id", type="string"),
            Column(name="ad_id", type="long"),
            Column(name="surface", type="string"),
            *(Column(name=f.name, type=_feature_type(contract, f), nullable=True)
              for f in contract.features if f.kind != "vector"),
            *(Column(name=name, type="long") for name in counter_columns(contract)),
            *(Column(name=label_column(o.name), type="byte", nullable=True, doc="null: not an objective here")
              for o in contract.column_objectives),
            *_opt_out_columns(contract),
        ),
        partition_by=("date", "bucket"),
        sort_by=("user_id", "impression_ts", "impression_id"),
        key=("impression_id",),
    )  # fmt: skip


VECTOR_TABLES = ("ad_vectors", "user_vectors")


def gate_date(table: str, date: str) -> str:
    """The date under which a table's gate stands for what a day reads of it: the day, or `ALL_DAYS` for vectors."""
    return ALL_DAYS if table in VECTOR_TABLES else date


def entity_key(origin: Origin) -> str:
    """Column that identifies a row of a dimension in silver tables."""
    return {"ads": "ad_id", "users": "user_id"}[origin]


def vectors(contract: DataContract, origin: Origin) -> TableSchema:
    """One row each time a vector of an ad (or a user) changed: in force from `valid_from` on. Each is stored once.

    A slowly changing dimension: its rows belong to no day, so it is one partition, `ALL_DAYS`.
    """
    key = entity_key(origin)
    return TableSchema(
        name=key.replace("_id", "_vectors"),
        columns=(
            Column(name="date", type="string", doc="always the same: the table is replaced as a whole"),
            Column(name="bucket", type="int", doc="bucket of the id, as that of a user"),
            Column(name=key, type="long"),
            Column(name="valid_from", type="timestamp", doc="in force from here on (UTC); 1970 where never changing"),
            *(Column(name=f.name, type="array<float>", nullable=True, doc="null: there is none in force")
              for f in contract.vectors_of(origin)),
        ),
        partition_by=("date", "bucket"),
        sort_by=(key, "valid_from"),
        key=(key, "valid_from"),
    )  # fmt: skip


def vector_tables(contract: DataContract) -> tuple[tuple[Origin, TableSchema], ...]:
    """The vector tables that the contract has features for, with their origins."""
    return tuple((origin, vectors(contract, origin)) for origin in get_args(Origin) if contract.vectors_of(origin))


def attributed_conversions() -> TableSchema:
    """One row a conversion and objective that it was credited to: the positive labels of delayed objectives."""
    return TableSchema(
        name="attributed_conversions",
        columns=(
            Column(name="date", type="string", doc="date partition of the impression it is credited to"),
            Column(name="bucket", type="int", doc="user bucket of that impression"),
            Column(name="impression_id", type="string"),
            Column(name="objective", type="string"),
            Column(name="conversion_key", type="string"),
            Column(name="conversion_ts", type="timestamp", doc="when it happened (UTC)"),
            Column(name="ingest_ts", type="timestamp", doc="when the platform received it (UTC)"),
            Column(name="arrived", type="string", doc="date partition in which it landed"),
            Column(name="value", type="float", nullable=True, doc="an amount"),
            Column(name="attribution", type="string", doc="click or view: how the impression was touched"),
        ),
        partition_by=("date", "bucket"),
        sort_by=("impression_id", "objective", "conversion_key"),
        key=("objective", "conversion_key"),
    )


def teacher_outputs(contract: DataContract) -> TableSchema:
    """Soft labels and a representation of each example, written by the pass that evaluated its day."""
    return TableSchema(
        name="teacher_outputs",
        columns=(
            Column(name="date", type="string"),
            Column(name="teacher", type="string", doc="gem, or the name of a domain model"),
            Column(name="impression_id", type="string"),
            Column(name="trained_through", type="string", doc="last day whose labels the teacher saw"),
            Column(name="model_id", type="string", doc="content id of the teacher"),
            *(Column(name=f"prob__{o.name}", type="float") for o in contract.objectives),
            Column(name="representation", type="array<float>", doc="example-side representation"),
        ),
        partition_by=("date", "teacher"),
        sort_by=("impression_id",),
        key=("teacher", "impression_id"),
    )


def predictions() -> TableSchema:
    """Probabilities of every scored model but the teacher, before it learnt from the day."""
    return TableSchema(
        name="predictions",
        columns=(
            Column(name="date", type="string"),
            Column(name="model", type="string"),
            Column(name="impression_id", type="string"),
            Column(name="objective", type="string"),
            Column(name="prob", type="float"),
            Column(name="trained_through", type="string", doc="last day whose labels the model saw"),
            Column(name="model_id", type="string"),
        ),
        partition_by=("date", "model"),
        sort_by=("objective", "impression_id"),
        key=("model", "objective", "impression_id"),
    )


def silver_tables(contract: DataContract) -> tuple[TableSchema, ...]:
    """Every table this product writes with Spark."""
    own = [schema for _, schema in vector_tables(contract)]
    always = user_events(contract), counter_increments(contract), *own, examples(contract)
    return (*always, attributed_conversions()) if contract.conversion_objectives else always
