"""Settings of reading, independent of model and data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gem_pipeline.errors import ConfigError

Together = Literal["user", "request"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderConfig:
    """How a day is read and cut into batches.

    Attributes:
        max_resident_bytes: bound on what the events of all slices that are in memory at a time take, raw and
            encoded; a single user whose events exceed a slice's share is read alone, and is the only exception.
        keep_day: a day that is passed over several times stays in memory, encoded, outside of that bound;
            otherwise each pass reads it again.
        max_vector_bytes: a table of vectors up to this size is kept in memory; of a larger one only the vectors of
            the slices held.
        prefetch: slices that a background thread reads ahead of the one in use; 0: read when they are needed.
        share_histories: the examples of a user in one batch share one copy of his history, and those of a request
            (the same user at the same time) share one window and what a model makes of it.
        keep_together: what a shuffle does not tear apart where histories are shared. `user`: most is shared, but
            a batch holds few users; `request`: what serving would score at once, a batch stays as mixed as it is.
        batch_events: most events of a batch, an example counting as one more, so that batches cost alike
            whatever the histories' lengths; 0: batches of equally many examples.
    """

    max_resident_bytes: int = 2 << 30
    max_vector_bytes: int = 1 << 30
    keep_day: bool = True
    prefetch: int = 1
    share_histories: bool = False
    keep_together: Together = "user"
    batch_events: int = 0

    def __post_init__(self) -> None:
        if self.keep_together not in get_args(Together):
            raise ConfigError(
                f"keep_together is {self.keep_together!r}.",
                remedy=f"Choose from {', '.join(get_args(Together))}.",
            )
        if self.max_resident_bytes < 1 or min(self.prefetch, self.batch_events, self.max_vector_bytes) < 0:
            raise ConfigError(
                f"Reading cannot work with {self}.",
                remedy="Set max_resident_bytes to at least 1, the others to 0 or more.",
            )

    @property
    def slices_held(self) -> int:
        """Slices in memory at a time: the one in use, and those that are read ahead or waiting."""
        return 1 + self.prefetch
