"""KuaiRand-Pure as bronze tables (CC BY-SA 4.0; Gao et al., CIKM 2022).

Every row of the standard log is an impression; a feed item stands for an ad. An outcome becomes an
event when it is known: impression time plus play time. The untimed history before the window gets
synthetic, ordered times in one earlier partition, source `history`.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from gem_pipeline.errors import DataSourceError

HISTORY_DAY = "2022-04-24"
HISTORY_END = pd.Timestamp("2022-04-24T15:00:00Z")  # the first timed row is at 15:05Z
HISTORY_STEP = pd.Timedelta(minutes=1)
OWN_TABS = (1, 0, 4, 2, 6)  # the other tabs hold 1.3 % of the rows and are pooled
ADAPTER_VERSION = "1"
_OUTCOMES = {
    "click": "is_click", "long_view": "long_view", "profile_enter": "is_profile_enter", "like": "is_like",
    "follow": "is_follow", "comment": "is_comment", "forward": "is_forward", "hate": "is_hate",
}  # fmt: skip


class KuaiRand:
    """The log in `folder`: `impressions.parquet` or the published `log_standard_*.csv` files.

    Args:
        folder: holds the impressions, `users.parquet` or `user_features*.csv`, `videos.parquet` or
            `video_features_basic*.csv`, and optionally `history_before_*.parquet`.

    Raises:
        DataSourceError: the folder or one of the tables is missing or unreadable.
    """

    name = "kuairand"

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataSourceError(
                f"The data folder {folder} does not exist.",
                remedy="Name the folder that holds the KuaiRand files with GEM_DATA or --data.",
            )
        self.folder = folder

    def _files(self, *patterns: str, required: bool = True) -> list[Path]:
        for pattern in patterns:
            if found := sorted(self.folder.rglob(pattern)):
                return found
        if required:
            raise DataSourceError(
                f"The data folder {self.folder} has none of {', '.join(patterns)}.",
                remedy="Complete the folder; docs/data_contract.md lists the files of KuaiRand.",
            )
        return []

    @staticmethod
    def _read(path: Path) -> pd.DataFrame:
        try:
            return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataSourceError(
                f"The file {path} cannot be read: {error}.", remedy="Copy it again; the file is damaged."
            ) from error

    @cached_property
    def _log(self) -> pd.DataFrame:
        frames = [self._read(path) for path in self._files("impressions.parquet", "log_standard_*.csv")]
        log = pd.concat(frames).drop_duplicates(["user_id", "video_id", "time_ms"])
        log["date"] = pd.to_datetime(log["date"].astype(str), format="%Y%m%d").dt.strftime("%Y-%m-%d")
        log["event_ts"] = pd.to_datetime(log["time_ms"], unit="ms", utc=True)
        log["surface"] = np.where(log["tab"].isin(OWN_TABS), "tab_" + log["tab"].astype(str), "other")
        triple = log["user_id"].astype(str) + ":" + log["video_id"].astype(str) + ":" + log["time_ms"].astype(str)
        log["impression_id"] = triple
        return log.sort_values(["time_ms", "user_id", "video_id"], ignore_index=True)

    @cached_property
    def _history(self) -> pd.DataFrame:
        files = self._files("history_before_*.parquet", required=False)
        return self._read(files[0]) if files else pd.DataFrame()

    def days(self) -> tuple[str, ...]:
        """Dates present, oldest first; the untimed history is a day of its own."""
        timed = sorted(self._log["date"].unique())
        return (HISTORY_DAY, *timed) if len(self._history) else tuple(timed)

    def fingerprint(self, date: str) -> str:
        """Names, sizes and times of the files, and the version of this adapter."""
        files = self._files("*.parquet", "*.csv")
        state = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files]
        return hashlib.sha256(repr((ADAPTER_VERSION, date, state)).encode()).hexdigest()[:16]

    def has_impressions(self, date: str) -> bool:
        """Whether the standard log has the day."""
        return self.impressions(date).num_rows > 0

    def impressions(self, date: str) -> pa.Table:
        """Impressions of a day with their labels; the untimed history has none."""
        log = self._log[self._log["date"] == date]
        labels = {column: log[column].astype("int8") for column in _OUTCOMES.values()}
        keys = log[["impression_id", "user_id", "video_id", "surface", "event_ts", "date"]]
        return _arrow(keys.assign(**labels))

    def engagements(self, date: str) -> pa.Table:
        """One event an impression, at the time its outcome was known, with every action it carries."""
        if date == HISTORY_DAY:
            return self._history_events()
        log = self._log[self._log["date"] == date]
        known = log["event_ts"] + pd.to_timedelta(log["play_time_ms"].clip(lower=0), unit="ms")
        return _arrow(
            pd.DataFrame(
                {
                    "event_id": log["impression_id"], "user_id": log["user_id"], "video_id": log["video_id"],
                    "surface": log["surface"], "source": "feed", "actions": _actions(log, _OUTCOMES),
                    "play_s": (log["play_time_ms"] / 1000).astype("float32"),
                    "event_ts": known, "ingest_ts": known, "date": log["date"],
                }
            )
        )  # fmt: skip

    def _history_events(self) -> pa.Table:
        past = self._history
        times = HISTORY_END + past["pos"] * HISTORY_STEP  # pos is -1 for the newest
        known = {"long_view": "long_view", "like": "is_like"}
        return _arrow(
            pd.DataFrame(
                {
                    "event_id": "history:" + past["user_id"].astype(str) + ":" + past["pos"].astype(str),
                    "user_id": past["user_id"], "video_id": past["video_id"], "surface": "other",
                    "source": "history", "actions": _actions(past, known),
                    "play_s": pd.Series(np.nan, index=past.index, dtype="float32"),
                    "event_ts": times, "ingest_ts": times, "date": HISTORY_DAY,
                }
            )
        )  # fmt: skip

    def users(self) -> pa.Table:
        """User attributes; the anonymised one-hot features as integers."""
        frame = self._read(self._files("users.parquet", "user_features*.csv")[0])
        onehot = [c for c in frame.columns if c.startswith("onehot_feat")]
        return _arrow(frame.astype(dict.fromkeys(onehot, "Int64")))

    def ads(self) -> pa.Table:
        """Video attributes; durations in seconds."""
        frame = self._read(self._files("videos.parquet", "video_features_basic*.csv")[0])
        frame["video_duration_s"] = (frame["video_duration"] / 1000).astype("float32")
        return _arrow(frame.astype({"music_type": "Int64"}))


def _actions(frame: pd.DataFrame, outcomes: dict[str, str]) -> pd.Series:
    """Lists of the actions each row carries; `view` always. Few distinct lists exist, so they are shared."""
    did_NA = frame[list(outcomes.values())].to_numpy().astype(bool).astype(np.int64)
    bits = (did_NA << np.arange(len(outcomes))).sum(axis=1)
    lists = {
        code: ["view", *(kind for i, kind in enumerate(outcomes) if code >> i & 1)] for code in np.unique(bits).tolist()
    }
    return pd.Series([lists[code] for code in bits.tolist()], index=frame.index, dtype=object)


def _arrow(frame: pd.DataFrame) -> pa.Table:
    """Arrow table with microsecond UTC times and no pandas index or metadata."""
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    fields = [_plain(field) for field in table.schema]
    return table.cast(pa.schema(fields))


def _plain(field: pa.Field) -> pa.Field:
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("us", tz="UTC"))
    if pa.types.is_large_string(field.type):
        return field.with_type(pa.string())
    return field
