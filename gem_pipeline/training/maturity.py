"""Which labels mature on a day: partitions whose conversion windows have just passed. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from deltalake import DeltaTable

from gem_pipeline.batches.labels import credited_rows, partition_labels
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before


@dataclass(frozen=True, kw_only=True, slots=True)
class MaturedDay:
    """A date partition and the objectives whose labels have just become final for it.

    Attributes:
        date: date of the impressions.
        objectives: names of conversion objectives of one window.
        as_of: the day on which they matured; later arrivals are not seen.
    """

    date: str
    objectives: tuple[str, ...]
    as_of: str


def matured_days(contract: DataContract, date: str, there: Iterable[str]) -> tuple[MaturedDay, ...]:
    """Partitions that mature on a date, one a distinct window, oldest first; those not `there` are left out."""
    windows: dict[int, list[str]] = {}
    for o in contract.conversion_objectives:
        windows.setdefault(o.window_days, []).append(o.name)
    known = set(there)
    days = [
        MaturedDay(date=days_before(date, window), objectives=tuple(windows[window]), as_of=date)
        for window in sorted(windows, reverse=True)
    ]
    return tuple(day for day in days if day.date in known)


def all_matured(contract: DataContract, as_of: str, there: Iterable[str]) -> tuple[MaturedDay, ...]:
    """Every partition with an objective that is mature on the day `as_of`, oldest first."""
    found = []
    for date in sorted(set(there)):
        names = tuple(o.name for o in contract.conversion_objectives if o.is_mature(date, as_of))
        if names:
            found.append(MaturedDay(date=date, objectives=names, as_of=as_of))
    return tuple(found)


def conversions_digest(lake: Path, dates: Sequence[str], as_of: str) -> str:
    """Identity of the labels that the conversions known on a day give some dates; '' where there is no table."""
    if not dates or not DeltaTable.is_deltatable(str(lake / tables.attributed_conversions().name)):
        return ""
    rows = credited_rows(lake, dates, as_of).to_pandas().drop_duplicates()
    return f"{len(rows)}-{int(np.bitwise_xor.reduce(pd.util.hash_pandas_object(rows, index=False).to_numpy())):016x}"


def label_counts(contract: DataContract, lake: Path, days: Iterable[MaturedDay]) -> dict[tuple[str, str], list[int]]:
    """Positives and labels of conversion objectives, by surface and objective, over some matured days."""
    names = [o.name for o in contract.objectives]
    counts: dict[tuple[str, str], list[int]] = {}
    for day in days:
        found = partition_labels(contract, lake, day.date, day.as_of)
        surface_N = found.rows["surface"].to_numpy()
        for surface in contract.surfaces:
            for objective in day.objectives:
                k = names.index(objective)
                chosen_N = (surface_N == surface) & found.mask_NK[:, k]
                cell = counts.setdefault((surface, objective), [0, 0])
                cell[0] += int(found.label_NK[chosen_N, k].sum())
                cell[1] += int(chosen_N.sum())
    return counts
