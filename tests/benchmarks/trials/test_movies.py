"""Movies as a log: what is history, what is judged, and what an impression may see."""

from __future__ import annotations

import pandas as pd
import pytest
import yaml

from benchmarks.scaling_study.plan import MOVIE_LOG
from benchmarks.trials.homes import Log
from benchmarks.trials.movies import HISTORY_DAY, MOVIES, MovieLens
from gem_pipeline.contracts.contract import DataContract


def seconds(text):
    return int(pd.Timestamp(text, tz="UTC").timestamp())


@pytest.fixture
def log():
    ratings = pd.DataFrame(
        [
            ("1m_7", "Alien (1979)", 5, seconds("2000-05-01 10:00")),
            ("1m_7", "Heat (1995)", 1, seconds("2000-11-19 23:59:59")),
            ("1m_7", "Big (1988)", 4, seconds("2000-11-20 00:00")),
            ("1m_9", "Heat (1995)", 3, seconds("2000-11-20 12:00")),
            ("1m_9", "Big (1988)", 5, seconds("2001-01-01 12:00")),
        ],
        columns=["user_id", "item_id", "rating", "timestamp"],
    )
    movies = pd.DataFrame(
        [("Alien (1979)", 1979.0, "Horror Sci-Fi"), ("Heat (1995)", 1995.0, "Crime"), ("Big (1988)", 1988.0, None)],
        columns=["item_id", "release_year", "genre"],
    )
    people = pd.DataFrame(
        [("1m_7", 25.0, "F", 3.0), ("1m_9", 18.0, "M", 4.0)], columns=["user_id", "age", "gender", "occupation"]
    )
    return MovieLens(ratings, movies, people)


def test_the_contract_is_valid_and_its_log_is_known_by_name():
    contract = DataContract.model_validate(yaml.safe_load(Log(name=MOVIES).contract_text()))
    assert contract.surfaces == ("site",)
    assert Log.parse(Log(name=MOVIES).key) == Log(name=MOVIES)
    assert max(MOVIE_LOG.learnt) < min(MOVIE_LOG.judged) <= contract.partition.last_day


def test_earlier_ratings_are_history_and_later_ones_impressions(log):
    assert log.days() == (HISTORY_DAY, "2000-11-20")
    assert log.impressions(HISTORY_DAY).num_rows == 0
    assert not log.has_impressions(HISTORY_DAY)
    rows = log.impressions("2000-11-20").to_pylist()
    assert [(row["user_id"], row["is_like"], row["is_love"]) for row in rows] == [(7, 1, 0), (9, 0, 0)]


def test_history_keeps_its_own_times_and_tells_stars_as_kinds(log):
    first, second = log.engagements(HISTORY_DAY).to_pylist()
    assert first["actions"] == ["view", "like", "love"]
    assert str(first["event_ts"]).startswith("2000-05-01 10:00")
    assert second["actions"] == ["view", "dislike"]
    assert log.engagements("2000-11-20").to_pylist()[1]["actions"] == ["view"]


def test_every_rating_is_of_a_movie_that_the_dimension_has(log):
    known = {row["movie_id"]: row for row in log.ads().to_pylist()}
    seen = {row["movie_id"] for day in log.days() for row in log.engagements(day).to_pylist()}
    assert seen <= set(known)
    assert known[log.titles["Alien (1979)"]]["genres"] == "Horror,Sci-Fi"
    assert {row["user_id"] for row in log.users().to_pylist()} == {7, 9}
