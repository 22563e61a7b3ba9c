"""Silver tables read by Delta and Arrow: only the files, row groups and columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from gem_pipeline.contracts import tables
from gem_pipeline.errors import SchemaError

SCAN_ROWS = 1 << 17  # rows decoded at a time; two such blocks of at most two files are in flight


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """Files of a table that hold some partitions, at one version.

    Attributes:
        dataset: the files.
        num_rows: rows in them by the log of the table; None where it does not say.
    """

    dataset: ds.Dataset
    num_rows: int | None

    def read(self, columns: tuple[str, ...], where: pc.Expression) -> pa.Table:
        """Rows that satisfy a condition; rows and columns that are not asked for are not kept."""
        return self._scanner(columns, where).to_table()

    def blocks(self, columns: tuple[str, ...], where: pc.Expression) -> Iterator[pa.RecordBatch]:
        """The same rows a block at a time, so that a column of any length can be counted."""
        yield from self._scanner(columns, where).to_batches()

    def _scanner(self, columns: tuple[str, ...], where: pc.Expression) -> ds.Scanner:
        return self.dataset.scanner(
            columns=list(columns), filter=where, batch_size=SCAN_ROWS, batch_readahead=1, fragment_readahead=1
        )


class SilverTable:
    """A table of the lake at a fixed version.

    Args:
        lake: root folder of the lake.
        schema: the table and its columns.
        version: Delta version; None: the newest one now, which stays.

    Raises:
        SchemaError: the table uses a Delta feature that would be read wrongly, or lacks a column.
    """

    def __init__(self, lake: Path, schema: tables.TableSchema, *, version: int | None = None) -> None:
        self.schema = schema
        self._delta = DeltaTable(str(lake / schema.name), version=version)
        if extra := set(self._delta.protocol().reader_features or ()):
            raise SchemaError(
                f"Table {schema.name} uses Delta reader features {sorted(extra)} that would be read wrongly.",
                remedy="Recreate the table without deletion vectors and column mapping.",
            )

    @property
    def version(self) -> int:
        """The Delta version that is read."""
        return self._delta.version()

    def require(self, columns: tuple[str, ...]) -> None:
        """Check that columns exist.

        Raises:
            SchemaError: one does not.
        """
        have = {field.name for field in self._delta.schema().fields}
        if missing := [name for name in columns if name not in have]:
            raise SchemaError(
                f"Table {self.schema.name} lacks column(s) {', '.join(missing)}.",
                remedy="The contract changed since it was derived: materialise it again.",
            )

    def part(self, filters: list[tuple[str, str, str]], where: pc.Expression | None = None) -> TablePart:
        """Files of some partitions that may hold rows of interest.

        Args:
            filters: (partition column, operator, value as a string), all of which hold.
            where: a condition on rows; files whose statistics exclude it are left out without being opened.
        """
        dataset = self._delta.to_pyarrow_dataset(file_pruning_predicate=filters)
        fragments = list(dataset.get_fragments(where))
        counts = [self._rows_by_file.get(fragment.path) for fragment in fragments]
        return TablePart(
            dataset=ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem),
            num_rows=sum(n for n in counts if n is not None) if None not in counts else None,
        )

    @cached_property
    def _rows_by_file(self) -> dict[str, int | None]:
        """Rows of each active file, by its path in the table, by the log of the table; None where it does not say."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        names = [unquote(path) for path in actions["path"].to_pylist()]
        unknown = [None] * len(names)
        counts = actions["num_records"].to_pylist() if "num_records" in actions.column_names else unknown
        return dict(zip(names, counts, strict=True))
