"""Parts of the judged rows that transfer may hurt or help: how active a user was, users and ads never seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from benchmarks.trials.homes import Log, derived
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.metrics.pooling import ScoredRows

Rows = NDArray[np.bool_]


def segments(log: str, learnt: tuple[str, ...], judged: tuple[str, ...]) -> dict[str, Rows]:
    """Masks over the judged rows in storage order, [N] each.

    A user without an impression on the learnt days is new; the others fall into terciles of their number of
    impressions there. An ad without an impression on the learnt days is new.
    """
    source = Log.parse(log)
    table = DeltaTable(str(source.home / "lake" / "examples"))
    seen = table.to_pyarrow_table(filters=[("date", "in", list(learnt))], columns=["user_id", "ad_id"])
    rows = _judged(source, judged)
    counted = seen.group_by("user_id").aggregate([([], "count_all")])
    shown = dict(zip(counted["user_id"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
    shown_N = np.array([shown.get(user, 0) for user in rows["user_id"].to_pylist()])
    low, high = np.quantile(shown_N[shown_N > 0], [1 / 3, 2 / 3])
    known_ad_N = pc.is_in(rows["ad_id"], value_set=pc.unique(seen["ad_id"])).to_numpy(zero_copy_only=False)
    return {
        "everyone": np.ones(len(shown_N), dtype=np.bool_),
        "new users": shown_N == 0,
        "users of low activity": (shown_N > 0) & (shown_N <= low),
        "users of middle activity": (shown_N > low) & (shown_N <= high),
        "users of high activity": shown_N > high,
        "new ads": ~known_ad_N.astype(np.bool_),
        "known ads": known_ad_N.astype(np.bool_),
    }


def restricted(rows: ScoredRows, chosen_N: Rows) -> ScoredRows:
    """The same rows with labels on the chosen ones only."""
    return replace(rows, mask_NK=rows.mask_NK & chosen_N[:, None])


def _judged(source: Log, days: tuple[str, ...]) -> pa.Table:
    """User and ad of the judged rows, in the order in which the reader gives them."""
    reader = DayReader(derived(source), source.home / "lake", window=WindowSpec(max_events=1))
    ids = pa.concat_arrays([part.impression_ids for day in days for part in reader.day(day)])
    table = DeltaTable(str(source.home / "lake" / "examples"))
    rows = table.to_pyarrow_table(
        filters=[("date", "in", list(days))], columns=["impression_id", "user_id", "ad_id"]
    ).combine_chunks()  # fmt: skip
    return rows.take(pc.index_in(ids, value_set=rows["impression_id"].combine_chunks()))
