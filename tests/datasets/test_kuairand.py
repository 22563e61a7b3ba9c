"""The KuaiRand adapter on a few rows, as Parquet and as the published CSV, and on the real files where present."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gem_pipeline.datasets.kuairand import HISTORY_DAY, KuaiRand
from gem_pipeline.errors import DataSourceError

REAL = Path(os.environ.get("GEM_DATA", "../shared/data")) / "kuairand"
OUTCOMES = ["is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "long_view", "is_profile_enter"]


def log_frame() -> pd.DataFrame:
    frame = pd.DataFrame(
        {"user_id": [1, 1, 2, 2], "video_id": [10, 11, 10, 10], "date": [20220425] * 4, "hourmin": [0] * 4,
         "time_ms": [1650812741436, 1650812750000, 1650812760000, 1650812760000],
         "play_time_ms": [5000, 0, 1500, 1500], "duration_ms": [9000] * 4, "tab": [1, 9, 0, 0]}
    )  # fmt: skip
    frame[OUTCOMES] = 0
    return frame.assign(is_click=[1, 0, 1, 1], long_view=[1, 0, 0, 0])


@pytest.fixture
def folder(tmp_path):
    log_frame().to_parquet(tmp_path / "impressions.parquet")
    pd.DataFrame({"user_id": [1, 1, 2], "pos": [-2, -1, -1], "video_id": [10, 11, 10], "long_view": [0, 1, 1],
                  "is_like": [0, 0, 1]}).to_parquet(tmp_path / "history_before_0425.parquet")  # fmt: skip
    pd.DataFrame({"user_id": [1, 2], "onehot_feat4": [1.0, None]}).to_parquet(tmp_path / "users.parquet")
    pd.DataFrame({"video_id": [10, 11], "video_duration": [9000.0, None], "music_type": [4.0, None]}).to_parquet(
        tmp_path / "videos.parquet"
    )
    return tmp_path


def test_every_time_is_an_instant_in_utc(folder):
    log = KuaiRand(folder)
    tables = [log.impressions("2022-04-25"), *(log.engagements(day) for day in log.days()), log.users(), log.ads()]
    times = [field.type for table in tables for field in table.schema if pa.types.is_timestamp(field.type)]
    assert set(times) == {pa.timestamp("us", tz="UTC")}


def test_a_row_is_an_impression_and_a_repeated_one_is_dropped(folder):
    rows = KuaiRand(folder).impressions("2022-04-25").to_pylist()
    assert [row["surface"] for row in rows] == ["tab_1", "other", "tab_0"]
    assert rows[0]["impression_id"] == "1:10:1650812741436"
    assert rows[0]["is_click"] == 1


def test_an_outcome_is_known_at_impression_time_plus_play_time(folder):
    events = KuaiRand(folder).engagements("2022-04-25")
    shown = KuaiRand(folder).impressions("2022-04-25")
    delay = pc.cast(pc.subtract(events["event_ts"], shown["event_ts"]), pa.int64())
    assert delay.to_pylist() == [5_000_000, 0, 1_500_000]
    assert events["actions"].to_pylist() == [["view", "click", "long_view"], ["view"], ["view", "click"]]


def test_untimed_history_gets_ordered_times_before_the_window(folder):
    events = KuaiRand(folder).engagements(HISTORY_DAY).to_pandas()
    one = events[events.user_id == 1].sort_values("event_ts")
    assert one.video_id.tolist() == [10, 11]  # pos -1 is the newest
    assert events.event_ts.max() < pd.Timestamp("2022-04-24T15:00:00Z")
    assert set(events.source) == {"history"}


def test_the_published_csv_layout_gives_the_same_rows(folder, tmp_path):
    published = tmp_path / "published"
    published.mkdir()
    log_frame().to_csv(published / "log_standard_4_22_to_5_08_pure.csv", index=False)
    assert KuaiRand(published).impressions("2022-04-25").equals(KuaiRand(folder).impressions("2022-04-25"))
    assert KuaiRand(published).days() == ("2022-04-25",)


def test_a_missing_or_damaged_file_is_a_plain_error(tmp_path):
    with pytest.raises(DataSourceError, match="does not exist"):
        KuaiRand(tmp_path / "absent")
    with pytest.raises(DataSourceError, match="has none of"):
        KuaiRand(tmp_path).days()
    (tmp_path / "impressions.parquet").write_text("no parquet")
    with pytest.raises(DataSourceError, match="cannot be read"):
        KuaiRand(tmp_path).days()


@pytest.mark.skipif(not REAL.is_dir(), reason="the KuaiRand files are not on this machine (GEM_DATA)")
def test_the_real_files_hold_what_their_description_says():
    log = KuaiRand(REAL)
    assert sum(log.impressions(day).num_rows for day in log.days()) == 206_974
    assert log.engagements(HISTORY_DAY).num_rows == 817_187
    assert log.users().num_rows == 27_285
