"""Compare the bronze tables with the contract, without Spark: every problem is named, nothing is read but schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.types as pt
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import ConversionsTable
from gem_pipeline.contracts.parts import TableRef
from gem_pipeline.datasets.landing import table_path
from gem_pipeline.errors import DataSourceError, SchemaError

TypeRule = Callable[[pa.DataType], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """A column that the contract names, and what it may be."""

    column: str
    role: str
    types: str
    fits: TypeRule


def _is_text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or getattr(pt, "is_string_view", pt.is_string)(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pt.is_list(kind) or pt.is_large_list(kind)


def _id(column: str, role: str) -> Expected:
    return Expected(
        column=column,
        role=role,
        types="an integer or a string",
        fits=lambda kind: pt.is_integer(kind) or _is_text(kind),
    )


def _text(column: str, role: str) -> Expected:
    return Expected(column=column, role=role, types="a string", fits=_is_text)


def _number(column: str, role: str) -> Expected:
    return Expected(column=column, role=role, types="a number", fits=_is_number)


def _time(column: str, role: str) -> Expected:
    return Expected(
        column=column,
        role=role,
        types="a timestamp with a zone (write it in UTC; in Spark TIMESTAMP, not TIMESTAMP_NTZ)",
        fits=lambda kind: pt.is_timestamp(kind) and kind.tz is not None,
    )


def _day(column: str) -> Expected:
    return Expected(
        column=column,
        role="partition.column",
        types="a string or a date",
        fits=lambda kind: _is_text(kind) or pt.is_date(kind),
    )


def _label(column: str, role: str) -> Expected:
    return Expected(
        column=column,
        role=role,
        types="an integer or a boolean",
        fits=lambda kind: pt.is_integer(kind) or pt.is_boolean(kind),
    )


def _flag(column: str, role: str) -> Expected:
    return Expected(column=column, role=role, types="a boolean", fits=pt.is_boolean)


def expected_columns(contract: DataContract) -> dict[str, tuple[Expected, ...]]:
    """List the columns that each bronze table of a contract must have.

    Returns:
        Table role (`impressions`, `engagements`, `users`, `ads`, and `conversions` where the contract has them)
        to its columns, in the contract's order.
    """
    tables, day = contract.tables, contract.partition.column
    impressions = [
        _id(tables.impressions.key, "key"), _id(tables.impressions.user, "user"), _id(tables.impressions.ad, "ad"),
        _text(tables.impressions.surface, "surface"), _time(tables.impressions.event_ts, "event_ts"), _day(day),
    ]  # fmt: skip
    engagements = [
        _id(tables.engagements.key, "key"), _id(tables.engagements.user, "user"), _id(tables.engagements.ad, "ad"),
        _text(tables.engagements.surface, "surface"), _text(tables.engagements.source, "source"),
        Expected(column=tables.engagements.actions, role="actions", types="a string or an array of strings",
                 fits=lambda kind: _is_text(kind) or (_is_list(kind) and _is_text(kind.value_type))),
        _time(tables.engagements.event_ts, "event_ts"), _day(day),
    ]  # fmt: skip
    if tables.impressions.ingest_ts:
        impressions.append(_time(tables.impressions.ingest_ts, "ingest_ts"))
    if tables.engagements.ingest_ts:
        engagements.append(_time(tables.engagements.ingest_ts, "ingest_ts"))
    if tables.engagements.value:
        engagements.append(_number(tables.engagements.value, "value"))
    impressions += [_label(o.column, f"objective {o.name}") for o in contract.objectives if o.column is not None]
    users, ads = [_id(tables.users.key, "key")], [_id(tables.ads.key, "key")]
    if tables.users.opt_out:
        users.append(_flag(tables.users.opt_out, "opt_out"))
    for dimension, columns in ((tables.users, users), (tables.ads, ads)):
        if dimension.valid_from:
            columns.append(_time(dimension.valid_from, "valid_from"))
    ads += [_id(a.column, f"sequence attribute {a.name}") for a in contract.sequence.attributes]
    homes = {"impressions": impressions, "users": users, "ads": ads}
    for feature in contract.features:
        if feature.origin != "context":
            homes[feature.origin].append(_feature(feature.column, feature.name, feature.kind))
    found = {
        "impressions": tuple(impressions),
        "engagements": tuple(engagements),
        "users": tuple(users),
        "ads": tuple(ads),
    }
    return found | ({"conversions": _conversions(tables.conversions, day)} if tables.conversions else {})


def _conversions(ref: ConversionsTable, day: str) -> tuple[Expected, ...]:
    columns = [
        _id(ref.key, "key"), _id(ref.user, "user"), _id(ref.ad, "ad"), _text(ref.type, "type"),
        _time(ref.event_ts, "event_ts"), _day(day),
    ]  # fmt: skip
    if ref.ingest_ts:
        columns.append(_time(ref.ingest_ts, "ingest_ts"))
    if ref.value:
        columns.append(_number(ref.value, "value"))
    return tuple(columns)


def _feature(column: str, name: str, kind: str) -> Expected:
    role = f"feature {name}"
    if kind in ("dense", "bucketed"):
        return _number(column, role)
    if kind == "multi_hot":
        return Expected(
            column=column,
            role=role,
            types="an array or a comma separated string",
            fits=lambda kind: _is_list(kind) or _is_text(kind),
        )
    if kind == "vector":
        return Expected(
            column=column,
            role=role,
            types="an array of floats",
            fits=lambda kind: (_is_list(kind) or pt.is_fixed_size_list(kind)) and pt.is_floating(kind.value_type),
        )
    return Expected(column=column, role=role, types="a single value", fits=lambda kind: not pt.is_nested(kind))


def table_schema(ref: TableRef, lake: Path) -> pa.Schema:
    """Read the Arrow schema of a bronze table.

    Raises:
        DataSourceError: there is no readable table of the format that the contract names.
    """
    path = table_path(ref, lake)
    try:
        if ref.format == "delta":
            return pa.schema(DeltaTable(path).schema().to_arrow())
        return _instants(ds.dataset(path, format="parquet", partitioning="hive"))
    except (TableNotFoundError, DeltaError, OSError, pa.ArrowException) as error:
        raise DataSourceError(
            f"There is no readable {ref.format} table at {path}: {str(error).splitlines()[0]}.",
            remedy="Mend `path` or `format` in the contract; a relative path starts at the lake under GEM_HOME.",
        ) from error


def _instants(dataset: ds.Dataset) -> pa.Schema:
    """The schema of a Parquet dataset, where Spark's INT96 columns are instants: Arrow forgets that."""
    schema, fragment = dataset.schema, next(iter(dataset.get_fragments()), None)
    if fragment is None:
        return schema
    stored = fragment.metadata.schema
    for column in (stored.column(i) for i in range(len(stored))):
        if column.physical_type == "INT96" and column.path in schema.names:
            place = schema.get_field_index(column.path)
            schema = schema.set(place, pa.field(column.path, pa.timestamp("ns", tz="UTC")))
    return schema


def check_tables(contract: DataContract, lake: Path) -> Iterator[str]:
    """Check every bronze table of a contract.

    Args:
        contract: names the tables and columns.
        lake: where relative paths start.

    Yields:
        One sentence for each table that fits.

    Raises:
        DataSourceError: a table is missing or unreadable.
        SchemaError: columns are missing or have another type; every one of the table is named.
    """
    refs: dict[str, TableRef] = {
        "impressions": contract.tables.impressions,
        "engagements": contract.tables.engagements,
        "users": contract.tables.users,
        "ads": contract.tables.ads,
        **({"conversions": contract.tables.conversions} if contract.tables.conversions else {}),
    }
    for table, columns in expected_columns(contract).items():
        schema = table_schema(refs[table], lake)
        problems = [problem for column in columns if (problem := _problem(schema, column))]
        if problems:
            raise SchemaError(
                f"Table {table} at {table_path(refs[table], lake)} does not fit the contract: {'; '.join(problems)}.",
                remedy=f"Mend these columns in the contract or in the table; it has: {', '.join(schema.names)}.",
            )
        yield f"Table {table}: {len(columns)} columns as the contract says."


def _problem(schema: pa.Schema, expected: Expected) -> str | None:
    if expected.column not in schema.names:
        return f"column {expected.column} ({expected.role}) is missing"
    kind = schema.field(expected.column).type
    if not expected.fits(kind):
        return f"column {expected.column} ({expected.role}) is {kind}, not {expected.types}"
    return None
