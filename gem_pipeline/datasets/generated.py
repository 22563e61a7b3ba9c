"""A small generated log of the KuaiRand contract, for machines without the real files.

Labels follow a logistic model of user interest, ad quality, surface and recency that no table holds,
so that models can learn something. It shows that the chain runs; it is evidence for nothing else.
"""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa

from gem_pipeline.datasets.kuairand import HISTORY_DAY, HISTORY_END, HISTORY_STEP, _actions, _arrow
from gem_pipeline.errors import DataSourceError

NUM_ADS, NUM_TOPICS, NUM_ADVERTISERS = 400, 12, 120
ROWS_A_DAY, ROWS_A_USER, HISTORY_EVENTS = 6000, 4, 20
DAYS = tuple(str(day.date()) for day in pd.date_range("2022-04-30", "2022-05-07"))
_SURFACES = np.array(["tab_1", "tab_0", "tab_4", "tab_2", "tab_6", "other"])
_SHARES = np.array([0.55, 0.15, 0.12, 0.1, 0.05, 0.03])
_SURFACE_BIAS = np.array([0.0, -1.6, 0.5, 0.1, -1.0, -2.0])
_DEEPER = {"is_profile_enter": -3.0, "is_like": -2.8, "is_follow": -4.5, "is_comment": -4.5, "is_forward": -5.0,
           "is_hate": -6.0}  # fmt: skip


class GeneratedLog:
    """Eight days, 400 ads, a user for every four impressions of a day; the same for every caller of a seed.

    Args:
        seed: another seed makes another log.
        rows_a_day: impressions of each day.

    Raises:
        DataSourceError: fewer than four impressions a day.
    """

    name = "generated"

    def __init__(self, seed: int = 0, rows_a_day: int = ROWS_A_DAY) -> None:
        if rows_a_day < ROWS_A_USER:
            raise DataSourceError(
                f"A generated log of {rows_a_day} impressions a day was asked for.",
                remedy=f"Ask for {ROWS_A_USER} or more.",
            )
        self.seed, self.rows_a_day, self.num_users = seed, rows_a_day, rows_a_day // ROWS_A_USER

    def _rng(self, *parts: object) -> np.random.Generator:
        digest = hashlib.sha256(repr((self.seed, *parts)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))

    @cached_property
    def _world(self) -> dict[str, np.ndarray]:
        rng = self._rng("world")
        topic_A = rng.integers(0, NUM_TOPICS, NUM_ADS)
        return {
            "interest_UK": rng.normal(0, 1.1, (self.num_users, NUM_TOPICS)),
            "mood_U": rng.normal(0, 0.6, self.num_users),
            "quality_A": rng.normal(0, 0.7, NUM_ADS),
            "topic_A": topic_A,
            "advertiser_A": topic_A * (NUM_ADVERTISERS // NUM_TOPICS) + rng.integers(0, 10, NUM_ADS),
        }

    def days(self) -> tuple[str, ...]:
        """The history day and eight timed days."""
        return (HISTORY_DAY, *DAYS)

    def fingerprint(self, date: str) -> str:
        """Seed, size and date decide the content."""
        return hashlib.sha256(repr(("generated-2", self.seed, self.rows_a_day, date)).encode()).hexdigest()[:16]

    def _outcomes(self, rng: np.random.Generator, user: np.ndarray, ad: np.ndarray, place: np.ndarray) -> pd.DataFrame:
        world = self._world
        logit = world["interest_UK"][user, world["topic_A"][ad]] + world["mood_U"][user] + world["quality_A"][ad]
        click = rng.random(len(user)) < 1 / (1 + np.exp(-(logit + _SURFACE_BIAS[place])))
        frame = pd.DataFrame({"is_click": click, "long_view": click & (rng.random(len(user)) < 0.65)})
        for column, bias in _DEEPER.items():
            frame[column] = click & (rng.random(len(user)) < 1 / (1 + np.exp(-(0.8 * logit + bias))))
        return frame.astype("int8")

    def _rows(self, date: str) -> pd.DataFrame:
        rng = self._rng("day", date)
        num = self.rows_a_day if date in DAYS else 0
        user, ad = rng.integers(0, self.num_users, num), rng.integers(0, NUM_ADS, num)
        place = rng.choice(len(_SURFACES), num, p=_SHARES)
        frame = self._outcomes(rng, user, ad, place)
        second = np.sort(rng.integers(0, 86_400_000, num))
        frame["event_ts"] = pd.Timestamp(date, tz="UTC") + pd.to_timedelta(second, unit="ms")
        frame["play_s"] = (rng.exponential(8, num) + 12 * frame["is_click"]).astype("float32")
        frame["impression_id"] = [f"{date}:{i}" for i in range(num)]
        return frame.assign(user_id=user, video_id=ad, surface=_SURFACES[place], date=date)

    def has_impressions(self, date: str) -> bool:
        """All days but the history day."""
        return date in DAYS

    def impressions(self, date: str) -> pa.Table:
        """Impressions of a day with their labels."""
        return _arrow(self._rows(date).drop(columns="play_s"))

    def engagements(self, date: str) -> pa.Table:
        """One event an impression when its outcome was known; earlier rows on the history day."""
        if date == HISTORY_DAY:
            rng = self._rng("history")
            user = np.repeat(np.arange(self.num_users), HISTORY_EVENTS)
            ad = rng.integers(0, NUM_ADS, len(user))
            frame = self._outcomes(rng, user, ad, np.zeros(len(user), dtype=int))
            step = np.tile(np.arange(HISTORY_EVENTS, 0, -1), self.num_users)
            known = HISTORY_END - pd.Series(step) * HISTORY_STEP
            kinds = {"long_view": "long_view", "like": "is_like"}
            ids, surface, source = [f"history:{u}:{s}" for u, s in zip(user, step, strict=True)], "other", "history"
            play = pd.Series(np.nan, index=frame.index, dtype="float32")
        else:
            frame = self._rows(date)
            user, ad, play = frame["user_id"].to_numpy(), frame["video_id"].to_numpy(), frame["play_s"]
            known = (frame["event_ts"] + pd.to_timedelta(play, unit="s")).dt.floor("ms")
            kinds = {"click": "is_click", "long_view": "long_view"} | {c[3:]: c for c in _DEEPER}
            ids, surface, source = frame["impression_id"].tolist(), frame["surface"], "feed"
        return _arrow(
            pd.DataFrame(
                {"event_id": ids, "user_id": user, "video_id": ad, "surface": surface, "source": source,
                 "actions": _actions(frame, kinds), "play_s": play, "event_ts": known, "ingest_ts": known, "date": date}
            )
        )  # fmt: skip

    def users(self) -> pa.Table:
        """Users with the attribute columns of the contract; activity follows the user's mood."""
        rng = self._rng("users")
        mood = self._world["mood_U"]
        frame = pd.DataFrame({"user_id": np.arange(self.num_users)})
        frame["user_active_degree"] = np.where(mood > 0.3, "full_active", np.where(mood > -0.3, "middle", "low"))
        for column in ("follow_user_num", "fans_user_num", "friend_user_num", "register_days"):
            frame[column] = rng.integers(0, 1000, self.num_users)
            frame[column + "_range"] = (frame[column] // 250).astype(str)
        frame["is_video_author"] = rng.integers(0, 2, self.num_users)
        return _arrow(frame.assign(**{f"onehot_feat{i}": rng.integers(0, 5, self.num_users) for i in range(18)}))

    def ads(self) -> pa.Table:
        """Ads with topic tag, advertiser and duration."""
        rng, world = self._rng("ads"), self._world
        return _arrow(
            pd.DataFrame(
                {"video_id": np.arange(NUM_ADS), "author_id": world["advertiser_A"], "video_type": "NORMAL",
                 "upload_type": rng.choice(["Web", "Camera"], NUM_ADS), "music_type": rng.integers(1, 9, NUM_ADS),
                 "tag": world["topic_A"].astype(str), "video_duration_s": rng.gamma(2, 15, NUM_ADS).astype("float32")}
            )
        )  # fmt: skip
