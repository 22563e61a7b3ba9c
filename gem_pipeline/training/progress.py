"""Progress of long work, shown by whoever runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


class Progress(Protocol):
    """Wraps an iterable so that its progress is seen."""

    def track(self, items: Iterable[Item], *, label: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items unchanged."""
        ...


class SilentProgress:
    """Shows nothing."""

    def track(self, items: Iterable[Item], *, label: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items unchanged."""
        del label, total
        yield from items


class BarProgress:
    """A progress bar on standard error."""

    def track(self, items: Iterable[Item], *, label: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items unchanged while a bar advances; the bar leaves one line behind."""
        yield from tqdm(items, desc=label, total=total, unit="batch", leave=True, mininterval=0.5, ncols=90)
