"""Where the encoded parts of a day come from: memory, or the lake by the slice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.labels import KnownConversions
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.prefetch import prefetched
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.slices import UserSlice, assign


class PartSource(Protocol):
    """The parts of a day, or of a rank's share of it; iterating yields them in storage order.

    Attributes:
        layout: inputs of every part.
        sizes: examples of each part.
        costs: examples and the events that they see, of each part, at most.
        identity: what a stored position is valid for; JSON-ready.
    """

    layout: InputLayout
    sizes: list[int]
    costs: list[int]
    identity: dict[str, Any]

    def parts(self, order: Sequence[int]) -> Generator[EncodedDay]:
        """Yield some parts by number, in the given order."""
        ...

    def __iter__(self) -> Iterator[EncodedDay]:
        """Yield all parts."""
        ...

    def impression_ids(self) -> pa.Array:
        """Ids of the examples of all parts, in their order."""
        ...


class ResidentParts:
    """Parts that are in memory.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Sequence[EncodedDay]) -> None:
        self._parts = list(parts)
        self.layout = self._parts[0].layout
        self.sizes = [part.size for part in self._parts]
        self.costs = [part.size + int(part.window.lengths.sum()) for part in self._parts]
        self.identity: dict[str, Any] = {"sizes": self.sizes}

    def parts(self, order: Sequence[int]) -> Generator[EncodedDay]:
        """Yield some parts by number, in the given order."""
        yield from map(self._parts.__getitem__, order)

    def __iter__(self) -> Iterator[EncodedDay]:
        """Yield all parts."""
        return iter(self._parts)

    def impression_ids(self) -> pa.Array:
        """Ids of the examples of all parts, in their order."""
        return pa.concat_arrays([part.impression_ids for part in self._parts])


class LakeParts:
    """Slices of a day, read when they are needed; of several ranks each reads its own.

    Slices are shared out by examples and events (`slices.assign`): over all ranks every example is read exactly
    once, and no rank needs to know of another. All ranks must read the same table versions.

    Args:
        reader: reads the lake; its configuration says how many slices are read ahead.
        date: the partition.
        as_of: day whose knowledge the labels of conversions are, as in `DayReader.day`.
        objectives: whose labels are shown; None: all.
        rank: number of this rank.
        world_size: number of ranks.

    Raises:
        PartitionError: the date has no examples.
    """

    def __init__(
        self, reader: DayReader, date: str, *, as_of: str | None = None, objectives: tuple[str, ...] | None = None,
        rank: int = 0, world_size: int = 1,
    ) -> None:  # fmt: skip
        self._reader, self._date = reader, date
        self._known = reader.known(date, as_of, objectives=objectives)
        counted = world_size > 1 or reader.config.batch_events > 0
        pieces = reader.plan(date, ranks=world_size, counted=counted)
        self._pieces: tuple[UserSlice, ...] = assign(pieces, world_size)[rank]
        self.layout = reader.layout
        self.sizes = [piece.num_examples for piece in self._pieces]
        self.costs = [piece.cost for piece in self._pieces]
        self.identity: dict[str, Any] = {
            "date": date, "as_of": as_of, "objectives": objectives, "credited": _digest(self._known),
            "rank": rank, "world_size": world_size,
            "versions": reader.versions, "window": reader.window.to_dict(), "sizes": self.sizes,
        }  # fmt: skip

    def parts(self, order: Sequence[int]) -> Generator[EncodedDay]:
        """Read some parts by number, in the given order, ahead of their use."""
        pieces = (self._pieces[number] for number in order)
        read = partial(self._reader.read, self._date, known=self._known)
        yield from prefetched(read, pieces, ahead=self._reader.config.prefetch)

    def __iter__(self) -> Iterator[EncodedDay]:
        """Read all parts."""
        return self.parts(range(len(self._pieces)))

    def impression_ids(self) -> pa.Array:
        """Ids of the examples of all parts, in their order; nothing else is read."""
        return self._reader.impression_ids(self._date, self._pieces)


def _digest(known: KnownConversions) -> str:
    """Content id of the conversions that are known: labels are part of what a position continues."""
    content = hashlib.sha256(json.dumps(sorted(known.mature)).encode())
    for name, ids in sorted(known.impressions.items()):
        content.update(json.dumps([name, sorted(ids.to_pylist())]).encode())
    return content.hexdigest()[:16]
