"""Vectors as of the impression: looked up just in time, each one in memory once however many examples point at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gem_pipeline.batches.history import count_until, longs
from gem_pipeline.batches.lake import SilverTable, TablePart
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import ALL_DAYS, Origin, entity_key
from gem_pipeline.errors import SchemaError

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
VERSION_BYTES = 32  # id, time and places of a row, besides its vectors


@dataclass(frozen=True, kw_only=True)
class VectorRows:
    """The vector of each of N examples.

    Attributes:
        value_PD: distinct vectors, float32 [P, D].
        place_N: the example's vector, int64 [N]; -1: it has none.
    """

    value_PD: Floats
    place_N: Longs

    def take(self, rows: Longs) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Vectors of some examples, [B, D], and whether they have one, [B]; zeros where not."""
        place_B = self.place_N[rows]
        present_B = place_B >= 0
        value_BD = np.zeros((len(rows), self.value_PD.shape[1]), dtype=np.float32)
        value_BD[present_B] = self.value_PD[place_B[present_B]]
        return value_BD, present_B

    def compact(self) -> VectorRows:
        """The same vectors with only those in memory that are in use."""
        value_PD, place_N = self.content()
        return VectorRows(value_PD=value_PD, place_N=place_N)

    def among(self, rows: Longs) -> tuple[Floats, Longs]:
        """The distinct vectors of some examples, [Q, D], and the place of each among them, [B]; -1: it has none."""
        place_B = self.place_N[rows]
        used_P = np.zeros(len(self.value_PD) + 1, dtype=np.bool_)  # the last one stands for no vector
        used_P[place_B] = True
        used_P[-1] = False
        new_P = np.where(used_P, np.cumsum(used_P) - 1, -1)
        return self.value_PD[np.flatnonzero(used_P)], new_P[place_B]

    def content(self) -> tuple[Floats, Longs]:
        """What the examples are given, whatever else is in memory: the vectors in use, and each example's place."""
        used, place_N = np.unique(self.place_N, return_inverse=True)
        return self.value_PD[used[used >= 0]], place_N - int((used < 0).any())


@dataclass(frozen=True, kw_only=True)
class GivenVectors:
    """Where the vectors of a part come from.

    Attributes:
        examples: those of its examples, by name; of what is not named no example has one.
        events: finds those of rows of `user_events`, by name, where a layout asks for them.
    """

    examples: Mapping[str, VectorRows]
    events: Callable[[pa.Table], Mapping[str, VectorRows]]


def no_vectors(num_rows: int, dim: int) -> VectorRows:
    """N examples without a vector of `dim` numbers."""
    return VectorRows(value_PD=np.zeros((0, dim), dtype=np.float32), place_N=np.full(num_rows, -1))


def given_vectors(values: Sequence[Sequence[float] | None], *, name: str, dim: int) -> VectorRows:
    """Vectors that rows bring along, one a row; None: the row has none.

    Raises:
        SchemaError: one is not `dim` finite numbers.
    """
    missing = [value is None or (isinstance(value, float) and np.isnan(value)) for value in values]  # as pandas has it
    rows = [None if m else np.asarray(value, dtype=np.float32) for m, value in zip(missing, values, strict=True)]
    found = [row for row in rows if row is not None]
    if broken := sum(row.shape != (dim,) or not np.isfinite(row).all() for row in found):
        raise SchemaError(
            f"Column {name} of the rows to score holds {broken} vector(s) that are not {dim} finite numbers.",
            remedy="Pass the vector that the model was trained with, or None where there is none.",
        )
    present_N = np.array([row is not None for row in rows], dtype=np.bool_)
    place_N = np.where(present_N, np.cumsum(present_N) - 1, -1)
    return VectorRows(value_PD=np.stack(found) if found else np.zeros((0, dim), dtype=np.float32), place_N=place_N)


class VectorVersions:
    """Rows of a vector table in memory, in the order (id, time).

    Args:
        rows: the id, `valid_from` and the vectors.
        key: column of the id.
        dims: numbers of each vector, by column.
    """

    def __init__(self, rows: pa.Table, *, key: str, dims: dict[str, int]) -> None:
        rows = rows.sort_by([(key, "ascending"), ("valid_from", "ascending")])
        self._key_V = rows[key].to_numpy()
        self._from_V = longs(rows, "valid_from")
        self._vectors = {name: _matrix(rows[name], name, dim) for name, dim in dims.items()}

    def as_of(self, key_N: Longs, time_N: Longs) -> dict[str, VectorRows]:
        """Vectors in force: of the newest row of the id with `valid_from <= time`.

        Args:
            key_N: ids, shape [N]; unknown ones have no vector.
            time_N: microseconds since the epoch (UTC), shape [N].
        """
        start_N, end_N = (np.searchsorted(self._key_V, key_N, side=side) for side in ("left", "right"))
        after_N = count_until(self._from_V, start_N, end_N, time_N)
        row_N = np.where(after_N > start_N, after_N - 1, -1)
        return {
            name: VectorRows(value_PD=value_PD, place_N=np.append(place_V, -1)[row_N])
            for name, (value_PD, place_V) in self._vectors.items()
        }


def _matrix(column: pa.ChunkedArray, name: str, dim: int) -> tuple[Floats, Longs]:
    """The vectors that are not null, [P, D], and the place of each row's among them, [V], -1 for null."""
    present_V = pc.is_valid(column).to_numpy().astype(np.bool_)
    flat = pc.list_flatten(column).to_numpy().astype(np.float32)
    lengths = pc.list_value_length(column).drop_null().to_numpy()
    if (lengths != dim).any():
        raise SchemaError(
            f"Column {name} holds vectors of other than {dim} numbers.",
            remedy="The contract changed since it was derived: materialise examples again.",
        )
    return flat.reshape(-1, dim), np.where(present_V, np.cumsum(present_V) - 1, -1)


class VectorReader:
    """Looks the vectors of examples up in a vector table.

    A table that fits into `max_bytes` is read once and kept; of a larger one only the rows of the ids in question are
    read, each time.

    Args:
        contract: names the features.
        origin: whose vectors.
        table: `tables.vectors` at a fixed version.
        max_bytes: bound on a table that is kept.
    """

    def __init__(self, contract: DataContract, origin: Origin, table: SilverTable, *, max_bytes: int) -> None:
        self.origin, self.table, self._key = origin, table, entity_key(origin)
        self._dims = {f.name: f.dim or 0 for f in contract.vectors_of(origin)}
        self._max_bytes = max_bytes

    def read(self, examples: pa.Table, time_N: Longs) -> dict[str, VectorRows]:
        """Vectors of some examples, or events.

        Args:
            examples: rows with the id.
            time_N: impression times, or those of the events, microseconds since the epoch (UTC).
        """
        key_N = examples[self._key].to_numpy()
        kept = self._kept
        return (kept or self._versions(pc.field(self._key).isin(pa.array(np.unique(key_N))))).as_of(key_N, time_N)

    @cached_property
    def _kept(self) -> VectorVersions | None:
        """The whole table; None where it is too large."""
        num_rows, row_bytes = self._part.num_rows, VERSION_BYTES + 4 * sum(self._dims.values())
        fits = num_rows is not None and num_rows * row_bytes <= self._max_bytes
        return self._versions(pc.scalar(True)) if fits else None

    @cached_property
    def _part(self) -> TablePart:
        return self.table.part([("date", "=", ALL_DAYS)])

    def _versions(self, where: pc.Expression) -> VectorVersions:
        columns = (self._key, "valid_from", *self._dims)
        return VectorVersions(self._part.read(columns, where), key=self._key, dims=self._dims)
