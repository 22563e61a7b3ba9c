"""A small lake of silver tables with valid gates, written without Spark, for tests of readers and trainers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from deltalake import DeltaTable, write_deltalake

import gem_pipeline
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.quality.gate import GateMarker, partition_files, write_gate
from gem_pipeline.quality.suites import suite_hash

CONTRACT_PATH = Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml"
DAYS = ("2022-05-01", "2022-05-02", "2022-05-03")
NUM_USERS, NUM_ADS = 60, 40


def contract() -> DataContract:
    """The packaged contract."""
    return load_contract(CONTRACT_PATH)


def write_delayed_contract(path: Path) -> DataContract:
    """The packaged contract with two conversions: `order` matures after two days, `lead` after one on tab_1 only."""
    document = yaml.safe_load(CONTRACT_PATH.read_text(encoding="utf-8"))
    document["tables"]["conversions"] = {
        "path": "bronze/conversions", "key": "key", "user": "user_id", "ad": "video_id", "type": "type",
        "event_ts": "event_ts",
    }  # fmt: skip
    document["attribution"] = {"click_objective": "click"}
    document["objectives"] += [
        {"name": "order", "conversion": "purchase", "click_window_days": 2, "view_window_days": 1},
        {"name": "lead", "conversion": "lead", "click_window_days": 1, "surfaces": ["tab_1"]},
    ]
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load_contract(path)


def vector_document() -> dict[str, Any]:
    """The packaged contract with an image of three numbers an ad and a taste of two a user, as a document."""
    document: dict[str, Any] = yaml.safe_load(CONTRACT_PATH.read_text(encoding="utf-8"))
    document["features"] += [
        {"name": "image", "origin": "ads", "column": "image", "kind": "vector", "dim": 3},
        {"name": "taste", "origin": "users", "column": "taste", "kind": "vector", "dim": 2},
    ]
    return document


def vector_contract() -> DataContract:
    """`vector_document`, validated."""
    return DataContract.model_validate(vector_document())


def put_vectors(home: Path, own: DataContract, *, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Write vectors of most ads and users, changing from time to time; returns the rows by origin."""
    rng, found = np.random.default_rng(seed), {}
    for origin, schema in tables.vector_tables(own):
        key, feature = tables.entity_key(origin), own.vectors_of(origin)[0]
        rows = [
            {"date": tables.ALL_DAYS, "bucket": 0, key: entity,
             "valid_from": pd.Timestamp(DAYS[0], tz="UTC") + pd.Timedelta(hours=9 * step),
             feature.name: None if rng.random() < 0.2 else rng.normal(size=feature.dim).astype("float32").tolist()}
            for entity in range(40)
            for step in range(rng.integers(0, 5))
        ]  # fmt: skip
        put(home, own, schema, tables.ALL_DAYS, pd.DataFrame(rows).astype({"bucket": "int32"}))
        found[origin] = rows
    return found


def make_lake(
    home: Path, *, days: tuple[str, ...] = DAYS, rows: int = 240, seed: int = 0, own: DataContract | None = None
) -> None:
    """Write `user_events` and `examples` of some days; labels follow the user and the ad, so there is a signal."""
    own = own or contract()
    for day in days:
        rng = np.random.default_rng([seed, int(day.replace("-", ""))])
        put(home, own, tables.user_events(own), day, _events(own, day, rng, rows))
        put(home, own, tables.examples(own), day, _examples(own, day, rng, rows))


def put_conversions(home: Path, own: DataContract, day: str, arrivals: Sequence[tuple[str, str, str]]) -> None:
    """Credit (impression, objective, day of arrival) to impressions of a day, and give the partition its gate."""
    stamp = pd.Timestamp(day, tz="UTC")
    frame = pd.DataFrame(
        {"date": day, "bucket": np.zeros(len(arrivals), dtype="int32"), "impression_id": [a[0] for a in arrivals],
         "objective": [a[1] for a in arrivals], "conversion_key": [f"{a[0]}-{a[1]}" for a in arrivals],
         "conversion_ts": stamp, "ingest_ts": stamp, "arrived": [a[2] for a in arrivals],
         "value": np.ones(len(arrivals), dtype="float32"), "attribution": "click"}
    )  # fmt: skip
    put(home, own, tables.attributed_conversions(), day, frame)


def _times(day: str, rng: np.random.Generator, num: int) -> pd.Series:
    return pd.Series(pd.Timestamp(day, tz="UTC") + pd.to_timedelta(np.sort(rng.integers(0, 86_400, num)), unit="s"))


def _events(own: DataContract, day: str, rng: np.random.Generator, num: int) -> pd.DataFrame:
    user, ad = rng.integers(0, NUM_USERS, num), rng.integers(0, NUM_ADS, num)
    times = _times(day, rng, num)
    frame = pd.DataFrame(
        {"date": day, "bucket": (user % own.visibility.user_buckets).astype("int32"), "user_id": user,
         "event_ts": times, "ingest_ts": times, "event_key": np.arange(num) + int(day.replace("-", "")) * 10**6,
         "ad_id": ad, "surface": rng.choice(own.surfaces, num), "source": own.sequence.sources[0],
         "actions": (1 + 2 * (rng.random(num) < 0.4)).astype("int32"), "value": rng.random(num).astype("float32")}
    )  # fmt: skip
    return frame.assign(**{a.name: ad % 7 for a in own.sequence.attributes})


def _examples(own: DataContract, day: str, rng: np.random.Generator, num: int) -> pd.DataFrame:
    user, ad = rng.integers(0, NUM_USERS, num), rng.integers(0, NUM_ADS, num)
    frame: dict[str, object] = {
        "date": day, "bucket": (user % own.visibility.user_buckets).astype("int32"), "user_id": user,
        "impression_ts": _times(day, rng, num), "impression_id": [f"{day}:{i}" for i in range(num)], "ad_id": ad,
        "surface": rng.choice(own.surfaces[:2], num),
    }  # fmt: skip
    for feature in own.features:
        if tables.is_event_attribute(own, feature):
            frame[feature.name] = ad % 7
        elif feature.kind == "categorical":
            frame[feature.name] = [None if value == 0 else str(value) for value in rng.integers(0, 5, num)]
        elif feature.kind == "multi_hot":
            frame[feature.name] = [[str(a % 5), str(a % 3)] for a in ad]
        elif feature.kind in ("bucketed", "dense"):
            frame[feature.name] = rng.gamma(2, 10, num).astype("float32")
    for counter in own.counters.groups:
        events = rng.integers(0, 30, num)
        frame[tables.count_column(counter.name)] = events
        for kind in counter.kinds:
            frame[tables.count_column(counter.name, kind)] = (events * rng.random(num)).astype("int64")
    logit = np.sin(user) * 1.5 + np.cos(ad) * 1.5
    for objective in own.column_objectives:
        label = rng.random(num) < 1 / (1 + np.exp(-logit))
        frame[tables.label_column(objective.name)] = label.astype("int8")
    return pd.DataFrame(frame)


def put(home: Path, own: DataContract, schema: tables.TableSchema, day: str, frame: pd.DataFrame) -> None:
    """Write or replace a partition and its gate."""
    path = str(home / "lake" / schema.name)
    rows = pa.Table.from_pandas(frame[list(schema.column_names)], schema=schema.arrow(), preserve_index=False)
    if not DeltaTable.is_deltatable(path):
        DeltaTable.create(path, schema.arrow(), partition_by=list(schema.partition_by))
    write_deltalake(path, rows, mode="overwrite", predicate=f"date = '{day}'")
    delta = DeltaTable(path)
    there = partition_files(delta, "date").get(day)
    lists = {column.name: frame[column.name].map(str) for column in schema.columns if column.type.startswith("array")}
    content = pd.util.hash_pandas_object(frame.assign(**lists), index=False).sum()
    write_gate(
        home,
        GateMarker(
            table=schema.name, date=day, delta_version=delta.version(),
            partition_fingerprint=there.fingerprint if there else "", content_hash=str(content),
            input_fingerprint="made by a test", contract_hash=own.content_hash,
            suite_hash=suite_hash(own, schema.name), num_rows=len(frame), passed=True, checks=(), quarantined={},
            written_at="2022-05-09T00:00:00+00:00",
        ),
    )  # fmt: skip
