"""The Delta lake: tables created once, staged writes, one atomic commit a publication, readers without Spark."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import CommitProperties
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts.parts import TableRef
from gem_pipeline.contracts.tables import TableSchema
from gem_pipeline.datasets.landing import table_path
from gem_pipeline.errors import DataSourceError, SchemaError
from gem_pipeline.quality.gate import partition_files
from resources.staging import StagedRows, known_values, remove_unnamed, staged_files, write_staged

PLAIN_PROTOCOL = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "none"}
COMMIT_ATTEMPTS = 20


class DeltaLake:
    """Delta tables under one root folder.

    Args:
        root: local path or object-store URL.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def path(self, table: str) -> str:
        """Folder of a table."""
        return f"{self.root}/{table}"

    def bronze_path(self, ref: TableRef) -> str:
        """Folder of a bronze table of the contract."""
        return table_path(ref, Path(self.root)) if "://" not in self.root else f"{self.root}/{ref.path}"

    # -- without Spark ------------------------------------------------------------------------------------

    def open(self, table: str) -> DeltaTable | None:
        """The table's newest version, None when it does not exist.

        Raises:
            SchemaError: it uses a Delta feature that readers without Spark get wrong.
        """
        try:
            delta = DeltaTable(self.path(table))
        except TableNotFoundError:
            return None
        if features := sorted(delta.protocol().reader_features or ()):
            raise SchemaError(
                f"Table {table} uses Delta reader features {features}, which a reader without Spark gets wrong.",
                remedy="Recreate the table without deletion vectors and column mapping.",
            )
        return delta

    def version(self, table: str) -> int | None:
        """Newest Delta version, None when the table does not exist."""
        delta = self.open(table)
        return None if delta is None else delta.version()

    def batches(self, table: str, dates: list[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some date partitions, a batch at a time, without Spark; nothing where there is no table."""
        if (delta := self.open(table)) is None or not dates:
            return
        chosen = delta.to_pyarrow_dataset(file_pruning_predicate=[("date", "in", dates)])
        yield from chosen.to_batches(columns=columns, batch_size=131_072)

    def fingerprints(self, table: str) -> dict[str, str]:
        """Fingerprint of every date partition: of the paths and sizes of its active files."""
        delta = self.open(table)
        files = {} if delta is None else partition_files(delta, "date")
        return {date: found.fingerprint for date, found in files.items()}

    def ensure_table(self, schema: TableSchema) -> None:
        """Create the table unless it exists; add columns that it lacks and that may be null, by one commit.

        The protocol is plain: no deletion vectors, no column mapping. Rows written before have nulls in the new
        columns, and readers that do not know these read the table as before.

        Raises:
            SchemaError: it has columns that the schema lacks, of another type, or lacks one that may not be null.
        """
        delta = self.open(schema.name)
        if delta is None:
            DeltaTable.create(
                self.path(schema.name), schema.arrow(), mode="ignore", partition_by=list(schema.partition_by),
                configuration=dict(PLAIN_PROTOCOL),
            )  # fmt: skip
            return
        there = {field.name: str(field.type) for field in delta.schema().fields}
        wanted = {field.name: field for field in Schema.from_arrow(schema.arrow()).fields}
        new = [field for name, field in wanted.items() if name not in there]
        bad = {name for name, kind in there.items() if name not in wanted or str(wanted[name].type) != kind}
        if bad := sorted(bad | {field.name for field in new if not field.nullable}):
            raise SchemaError(
                f"Table {schema.name} was made by another contract: column(s) {', '.join(bad)} differ.",
                remedy="Only columns that may be null can be added. Choose another GEM_HOME, or remove "
                f"{self.path(schema.name)} to derive it anew.",
            )
        if new:
            delta.alter.add_columns(new)

    # -- with Spark ---------------------------------------------------------------------------------------

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table of the lake as a Spark frame."""
        return spark.read.format("delta").load(self.path(table))

    def read_bronze(self, spark: SparkSession, ref: TableRef) -> DataFrame:
        """A bronze table as a Spark frame."""
        return spark.read.format(ref.format).load(self.bronze_path(ref))

    def stage(
        self, rows: DataFrame, schema: TableSchema, dates: tuple[str, ...], *, placed: bool = False
    ) -> StagedRows:
        """Write `rows` to files in the order and partitioning of the table, which no version of it names yet.

        A run that is killed leaves them behind, for upkeep to remove.

        Args:
            rows: of the table.
            schema: the table; it exists.
            dates: date partitions they replace.
            placed: the rows of a partition of the table are in one partition of the frame already.
        """
        known = rows.withColumns(known_values(schema))
        together = known if placed else known.repartition(*(F.col(name) for name in schema.partition_by))
        ordered = together.sortWithinPartitions(*schema.partition_by, *schema.sort_by)
        return write_staged(ordered, schema, dates, self.path(schema.name))

    def publish(self, staged: StagedRows, dates: tuple[str, ...], lineage: dict[str, object]) -> int:
        """Replace the partitions `dates` by the staged files in one commit; readers see all of it or nothing.

        One file a partition, rows in the order of `schema.sort_by`. Where another commit comes first, this one is
        made again on top of it, so that of two that replace the same date the last one wins, as a whole.

        Args:
            staged: rows of at least these dates.
            dates: partitions to replace; a date without rows becomes empty.
            lineage: written as the commit's user metadata.

        Returns:
            The Delta version of the commit.

        Raises:
            SchemaError: a column that may not be null holds nulls.
            CommitFailedError: other commits came first too often.
        """
        table, told = staged.schema.name, {"userMetadata": json.dumps(lineage, sort_keys=True)}
        actions = staged_files(staged, dates, DeltaTable(self.path(table)))
        staged.named.update(dates)  # before the commit: it may be made and its answer lost
        for attempt in range(COMMIT_ATTEMPTS):
            delta = DeltaTable(self.path(table))
            if actions and actions[0].path in _active_paths(delta):
                return delta.version()
            try:
                delta.create_write_transaction(
                    [*actions], mode="overwrite", schema=delta.schema(), partition_by=list(staged.schema.partition_by),
                    partition_filters=[("date", "in", list(dates))],
                    commit_properties=CommitProperties(custom_metadata=told, max_commit_retries=0),
                )  # fmt: skip
                return delta.version() + 1
            except CommitFailedError:
                if attempt + 1 == COMMIT_ATTEMPTS:
                    raise
        raise AssertionError("the loop returns or raises")

    def discard(self, staged: StagedRows) -> None:
        """Remove staged files that were not published."""
        remove_unnamed(staged)

    def bronze_partitions(self, ref: TableRef, column: str, table: str) -> dict[str, tuple[str, int | None]]:
        """Fingerprint and number of rows (None: unknown) of every day of a bronze table, without Spark.

        Raises:
            DataSourceError: the table does not exist, or is not partitioned by its day column.
        """
        path = self.bronze_path(ref)
        if ref.format == "parquet":
            return _hive_partitions(Path(path), column, table)
        delta = _open_bronze(path, table)
        if column not in delta.metadata().partition_columns:
            raise DataSourceError(
                f"Table {table} at {path} is not partitioned by its day column {column}.",
                remedy=f"Write it partitioned by {column}.",
            )
        return {date: (files.fingerprint, files.num_rows) for date, files in partition_files(delta, column).items()}

    def bronze_fingerprint(self, ref: TableRef, table: str) -> str:
        """Fingerprint of a whole bronze table (a dimension), without Spark.

        Raises:
            DataSourceError: the table does not exist.
        """
        path = self.bronze_path(ref)
        if ref.format == "parquet":
            files = [
                (str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns)
                for f in sorted(Path(path).rglob("*.parquet"))
            ]
            if not files:
                raise _missing(table, path)
            return hashlib.sha256(repr(files).encode()).hexdigest()[:16]
        actions = (
            pa.table(_open_bronze(path, table).get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pylist()
        )
        return hashlib.sha256(repr(sorted((a["path"], a["size_bytes"]) for a in actions)).encode()).hexdigest()[:16]


def _active_paths(delta: DeltaTable) -> set[str]:
    return {unquote(path) for path in pa.table(delta.get_add_actions())["path"].to_pylist()}


def _missing(table: str, path: str) -> DataSourceError:
    return DataSourceError(
        f"Table {table} was not found at {path}.", remedy="Land it first, or mend its path in the contract's tables."
    )


def _open_bronze(path: str, table: str) -> DeltaTable:
    try:
        return DeltaTable(path)
    except TableNotFoundError as error:
        raise _missing(table, path) from error


def _hive_partitions(path: Path, column: str, table: str) -> dict[str, tuple[str, int | None]]:
    folders = sorted(path.glob(f"{column}=*"))
    if not folders:
        raise _missing(f"{table} (folders {column}=...)", str(path))
    found: dict[str, tuple[str, int | None]] = {}
    for folder in folders:
        files = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(folder.rglob("*.parquet"))]
        found[folder.name.partition("=")[2]] = (hashlib.sha256(repr(files).encode()).hexdigest()[:16], None)
    return found


def hold(rows: DataFrame, *, into: list[DataFrame]) -> DataFrame:
    """Cache rows that are read several times; whoever owns the list lets them go."""
    into.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
    return into[-1]
