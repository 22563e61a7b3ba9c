"""Staged rows: written once, as Parquet files in the table's folder, and named by a version when they have passed.

Until a commit names them no reader sees them; files that none ever names are orphans, which upkeep removes. Ours.
"""

import json
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs as pafs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts.tables import TableSchema
from gem_pipeline.errors import SchemaError

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
LONGEST_BOUND = 32  # characters of a string in the statistics; as Delta's own writer
LAST_CHARACTER = chr(0x10FFFF)


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedRows:
    """Rows computed and not yet published.

    Attributes:
        schema: the table they are meant for.
        dates: date partitions they replace.
        rows: read back from the files, with the columns of the table in their order.
        root: folder of the table.
        folder: where the files are, from there; a fresh one a staging.
        named: dates whose files a commit may name; they are never removed.
    """

    schema: TableSchema
    dates: tuple[str, ...]
    rows: DataFrame
    root: str
    folder: str
    named: set[str] = field(default_factory=set)


def write_staged(rows: DataFrame, schema: TableSchema, dates: tuple[str, ...], root: str) -> StagedRows:
    """Write ordered rows as one Parquet file a partition of the table and frame, in the order of the frame.

    Args:
        rows: sorted within their partitions, by the table's partition columns first.
        schema: the table.
        dates: date partitions they replace.
        root: folder of the table.
    """
    folder = uuid.uuid4().hex
    spark, place = rows.sparkSession, f"{root}/{folder}"
    with ExitStack() as undo:
        undo.callback(_remove, spark, place, keep=set())
        (
            rows.select(*schema.column_names)
            .write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .partitionBy(*schema.partition_by)
            .parquet(place)
        )
        read = spark.read.schema(schema.ddl()).option("basePath", place).parquet(place)
        undo.pop_all()
    return StagedRows(schema=schema, dates=dates, rows=read.select(*schema.column_names), root=root, folder=folder)


def known_values(schema: TableSchema) -> dict[str, Column]:
    """Partition columns of strings, told to be known: else Spark sorts the rows again before it writes them."""
    texts = [column.name for column in schema.columns if column.name in schema.partition_by and column.type == "string"]
    return {name: F.coalesce(F.col(name), F.lit("")) for name in texts}


def remove_unnamed(staged: StagedRows) -> None:
    """Remove the files of every date that no commit was asked to name."""
    _remove(staged.rows.sparkSession, f"{staged.root}/{staged.folder}", keep=staged.named)


def _remove(spark: SparkSession, place: str, *, keep: set[str]) -> None:
    """Delete the date folders of a staging but some, on any file system that Spark writes to."""
    hadoop: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]
    path = hadoop.fs.Path(place)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    if not system.exists(path):
        return
    if not keep:
        system.delete(path, True)
        return
    for status in system.listStatus(path):
        name = str(status.getPath().getName())
        if unquote(name.partition("=")[2]) not in keep:
            system.delete(status.getPath(), True)


def staged_files(staged: StagedRows, dates: tuple[str, ...], delta: DeltaTable) -> list[AddAction]:
    """What a commit says of the staged files of some dates: rows, and bounds and nulls of every flat column.

    Every one of them: Arrow takes a column without bounds for one without rows, and prunes the file.

    Raises:
        SchemaError: a column that may not be null holds nulls.
    """
    files = pafs.PyFileSystem(DeltaStorageHandler.from_table(delta._table))
    now = int(time.time() * 1000)
    actions = []
    for info in files.get_file_info(pafs.FileSelector(staged.folder, recursive=True, allow_not_found=True)):
        parts = info.path.split("/")
        if info.type != pafs.FileType.File or parts[-1].startswith(("_", ".")):
            continue
        values = {name: _value(text) for name, _, text in (part.partition("=") for part in parts if "=" in part)}
        if values["date"] not in dates:
            continue
        with files.open_input_file(info.path) as source:
            stats = _statistics(pq.read_metadata(source), staged.schema)
        actions.append(AddAction(info.path, info.size, values, now, True, json.dumps(stats)))
    return actions


def _value(text: str) -> str | None:
    return None if text == NO_VALUE else unquote(text)


def _statistics(footer: pq.FileMetaData, schema: TableSchema) -> dict[str, object]:
    """The statistics of a file in Delta's form, from its footer."""
    kinds = {column.name: column for column in schema.columns}
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        if (name := footer.schema.column(index).path) not in kinds:
            continue  # an element of a list
        found = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        known = [one for one in found if one is not None and one.null_count is not None]
        if len(known) == len(found):
            nulls[name] = sum(one.null_count for one in known)
        bounds = [(one.min, one.max) for one in known if one.has_min_max]
        if kinds[name].type == "string" and len(known) < len(found):
            bounds = [("", LAST_CHARACTER)]  # too long for the footer
        if bounds:
            low[name] = _bound(min(least for least, _ in bounds))
            high[name] = _bound(max(most for _, most in bounds), upper=True)
    if bad := sorted(name for name, count in nulls.items() if count and not kinds[name].nullable):
        raise SchemaError(
            f"Table {schema.name} would get nulls in column(s) {', '.join(bad)}, which may not be null.",
            remedy="Mend the source rows and materialise these dates again.",
        )
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bound(value: object, *, upper: bool = False) -> object:
    """A bound as JSON: times in microseconds, long strings cut so that they stay bounds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str) and len(value) > LONGEST_BOUND:
        return value[:LONGEST_BOUND] + (LAST_CHARACTER if upper else "")
    return value
