"""What a model was trained on, so exactly that it can be rebuilt: table versions, and a digest of the rows read. Ours.

A stored model names the Delta version of every table and, for each day it read, the window, the labels' day and a
digest of the encoded rows. Reading those versions again under the model's own contract gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import VECTOR_TABLES
from gem_pipeline.errors import ModelStoreError
from gem_pipeline.training.store import StoredModel

READ_TABLES = ("user_events", "examples", *VECTOR_TABLES, "attributed_conversions")


def newest_versions(lake: Path) -> dict[str, int]:
    """Newest Delta version of every table that training reads; tables that do not exist are left out."""
    paths = {table: str(lake / table) for table in READ_TABLES}
    return {table: DeltaTable(path).version() for table, path in paths.items() if DeltaTable.is_deltatable(path)}


@dataclass(frozen=True, kw_only=True)
class RowsRead:
    """A day as it was read.

    Attributes:
        date: the partition.
        window: `WindowSpec.to_dict`.
        as_of: day whose knowledge the labels of conversions are; None: they were not read.
        objectives: whose labels were shown; None: all.
        num_examples: rows.
        digest: of the encoded rows, in their order.
    """

    date: str
    window: dict[str, Any]
    as_of: str | None
    objectives: list[str] | None
    num_examples: int
    digest: str

    @classmethod
    def of(
        cls, parts: Iterable[EncodedDay], *, date: str, window: WindowSpec, as_of: str | None,
        objectives: tuple[str, ...] | None,
    ) -> RowsRead:  # fmt: skip
        """Describe encoded parts, slice by slice."""
        content, num_examples = hashlib.sha256(), 0
        for part in parts:
            content.update(part.digest().encode())
            num_examples += part.size
        return cls(
            date=date, window=_plain(window), as_of=as_of, num_examples=num_examples,
            objectives=None if objectives is None else list(objectives), digest=content.hexdigest()[:16],
        )  # fmt: skip


def _plain(window: WindowSpec) -> dict[str, Any]:
    """A window as it comes back from a JSON file."""
    document: dict[str, Any] = json.loads(json.dumps(window.to_dict()))
    return document


def lineage_of(
    versions: dict[str, int],
    reads: Iterable[RowsRead],
    *,
    window: WindowSpec,
    dates: Iterable[str],
    reading: ReaderConfig,
) -> dict[str, Any]:
    """What a model's configuration says of its data: versions, days read through its window, slices of the reader."""
    wanted, through = set(dates), _plain(window)
    rows = [asdict(read) for read in reads if read.window == through and read.date in wanted]
    return {"inputs": versions, "rows": rows, "reading": asdict(reading)}


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """A day that was read again: what the model named, what came out, and whether they are the same bytes."""

    named: RowsRead
    found: RowsRead

    @property
    def identical(self) -> bool:
        """Whether every byte is as it was."""
        return self.named == self.found


def rebuild_rows(stored: StoredModel, lake: Path) -> Iterator[Rebuilt]:
    """Read again every day that a model was trained on, as it was then.

    Args:
        stored: the model.
        lake: root of the tables.

    Raises:
        ModelStoreError: the model was stored without its lineage, or a version it names is gone.
    """
    config = stored.config()
    if "rows" not in config:
        raise ModelStoreError(
            f"Model {stored.name} of {stored.date} does not name the rows it was trained on.",
            remedy="It was made by an earlier version; train it again.",
        )
    contract = DataContract.model_validate(config["contract"])
    reading, versions = ReaderConfig(**config["reading"]), _there(lake, config["inputs"])
    whole_ids = InputLayout.from_dict(config["layout"]).whole_ids
    for document in config["rows"]:
        named = RowsRead(**document)
        window = WindowSpec.from_dict(named.window)
        objectives = None if named.objectives is None else tuple(named.objectives)
        reader = DayReader(contract, lake, window=window, config=reading, versions=versions, whole_ids=whole_ids)
        parts = reader.day(named.date, as_of=named.as_of, objectives=objectives)
        found = RowsRead.of(parts, date=named.date, window=window, as_of=named.as_of, objectives=objectives)
        yield Rebuilt(named=named, found=found)


def _there(lake: Path, versions: dict[str, int]) -> dict[str, int]:
    """The named versions, each of them readable."""
    for table, version in versions.items():
        delta = DeltaTable(str(lake / table), version=version)
        gone = [uri for uri in delta.file_uris() if "://" not in uri and not Path(uri).exists()]
        if gone:
            raise ModelStoreError(
                f"Version {version} of table {table} lost {len(gone)} file(s).",
                remedy="Old files were removed without the job table_upkeep; restore them from a backup.",
            )
    return versions
