"""The batches of a pass over a day, shuffled, with a position that can be stored and resumed exactly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.batching import batch_rows, expected_batches
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.sources import PartSource
from gem_pipeline.errors import ConfigError


class BatchStream(Iterator[Batch]):
    """One pass over the parts of a day.

    With a generator the parts come in an order drawn from it, and the examples of each part in another; batches
    do not cross parts. `state` names the next batch; a stream over the same source that resumes there yields
    bit by bit what this one would have.

    Args:
        source: the parts.
        batch_size: examples a batch, unless the configuration counts events.
        config: how batches are cut, and whether histories are shared.
        generator: of this pass alone; None: storage order.
    """

    def __init__(
        self,
        source: PartSource,
        *,
        batch_size: int,
        config: ReaderConfig,
        generator: np.random.Generator | None = None,
    ) -> None:
        self._source, self._batch_size, self._config, self._generator = source, batch_size, config, generator
        self._begin(self._drawn(), 0)

    def __len__(self) -> int:
        """Batches of the whole pass: exact where examples are counted, else a close lower bound."""
        return expected_batches(
            self._source.sizes, self._source.costs, batch_size=self._batch_size, config=self._config
        )

    def __next__(self) -> Batch:
        """The next batch.

        Raises:
            StopIteration: the pass is over.
        """
        while self._batch == len(self._rows):
            self._leave()
            self._enter()
        rows = self._rows[self._batch]
        self._batch += 1
        assert self._part is not None
        return self._part.batch(rows, share=self._config.share_histories)

    def state(self) -> dict[str, Any]:
        """The position of the next batch: JSON-ready, less than a kilobyte whatever the data."""
        within = self._batch < len(self._rows)
        return {
            "identity": self._identity(),
            "opened": self._opened,
            "part": self._place if within else self._place + (self._part is not None),
            "batch": self._batch if within else 0,
            "drawn": self._part_drawn if within else self._drawn(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue at a position that `state` gave, also after a trip through JSON.

        Raises:
            ConfigError: the position belongs to other data, another share of it or another way to cut it.
        """
        if state["identity"] != self._identity():
            raise ConfigError(
                "The stored reading position belongs to another day, rank, table version or batch setting.",
                remedy="Resume with the configuration it was stored with, or start the day again.",
            )
        self.close()
        self._begin(state["opened"], state["part"])
        self._set_drawn(state["drawn"])
        if state["batch"]:
            self._enter()
            self._batch = state["batch"]

    def close(self) -> None:
        """Stop reading ahead and let go of what was read."""
        self._part, self._rows = None, []
        self._parts.close()

    def _begin(self, opened: dict[str, Any] | None, place: int) -> None:
        """Draw the order of the parts from the state `opened` of the generator, and stand before part `place`."""
        self._opened = opened
        self._set_drawn(opened)
        count = len(self._source.sizes)
        order = range(count) if self._generator is None else self._generator.permutation(count).tolist()
        self._parts = self._source.parts(order[place:])
        self._place, self._batch = place, 0
        self._part: EncodedDay | None = None
        self._rows: list[npt.NDArray[np.int64]] = []
        self._part_drawn: dict[str, Any] | None = None

    def _enter(self) -> None:
        """Take the next part up and cut it into batches."""
        self._part = next(self._parts)
        self._part_drawn = self._drawn()
        self._rows = batch_rows(self._part, batch_size=self._batch_size, config=self._config, generator=self._generator)

    def _leave(self) -> None:
        """Let go of a part that is used up before the next one is waited for."""
        if self._part is not None:
            self._place += 1
        self._part, self._rows, self._batch = None, [], 0

    def _drawn(self) -> dict[str, Any] | None:
        return None if self._generator is None else dict(self._generator.bit_generator.state)

    def _set_drawn(self, drawn: dict[str, Any] | None) -> None:
        if self._generator is not None and drawn is not None:
            self._generator.bit_generator.state = drawn

    def _identity(self) -> str:
        """Content id of everything that decides what a position means."""
        parts = (self._source.identity, self._batch_size, asdict(self._config), self._generator is not None)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
