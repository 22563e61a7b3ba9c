"""Batches from Delta: every example once, with exactly its own labels, ids and history."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches import reader as module
from gem_pipeline.batches.features import encode
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.errors import ConfigError, PartitionError, SchemaError
from tests.lake_factory import DAYS, contract, make_lake, put
from tests.oracles.history import Event, selected_window, visible_window

SECOND = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home


def reader(home, max_events=8, **config):
    window = WindowSpec(max_events=max_events)
    return DayReader(contract(), home / "lake", window=window, config=ReaderConfig(**config))


def rows_of(home, table):
    return DeltaTable(str(home / "lake" / table)).to_pyarrow_table().to_pandas()


def test_a_day_holds_every_example_once_in_a_stable_order(home):
    parts = list(reader(home).day(DAYS[1]))
    ids = [i for part in parts for i in part.impression_ids.to_pylist()]
    again = [i for part in reader(home).day(DAYS[1]) for i in part.impression_ids.to_pylist()]
    assert ids == again
    assert sorted(ids) == sorted(rows_of(home, "examples").query("date == @DAYS[1]").impression_id)
    assert np.concatenate([part.example_N for part in parts]).tolist() == list(range(len(ids)))


def test_histories_equal_the_oracle_and_hold_nothing_from_later_days(home):
    frame = rows_of(home, "user_events")
    events = [
        Event(r.user_id, r.event_ts.value // 1000, r.ingest_ts.value // 1000, r.event_key)
        for r in frame[frame.date <= DAYS[1]].itertuples()
    ]
    times = {e.key: e.happened for e in events}
    for part in reader(home).day(DAYS[1]):
        index_T, length_N = part.window.select(np.arange(part.size))
        found = np.split(part.window.happened_E[index_T], np.cumsum(length_N)[:-1])
        for user, as_of, own in zip(part.user_N, part.as_of_N, found, strict=True):
            keys = visible_window(events, user=user, as_of=as_of, allowance=0, max_events=8)
            assert own.tolist() == [times[key] for key in keys]


def test_every_id_fits_its_table_and_every_token_has_one(home):
    own = reader(home)
    size = {table.name: table.rows for table in own.layout.tables}
    for part in own.day(DAYS[0]):
        batch = part.batch(np.arange(part.size))
        for feature in (*own.layout.tokens, *own.layout.event_ids):
            values = batch.ids[feature.name].values()
            assert ((values >= 0) & (values < size[feature.table])).all(), feature.name
        for feature in own.layout.tokens:
            assert (batch.ids[feature.name].lengths() >= 1).all()
        assert torch.isfinite(batch.dense_BF).all()
        assert torch.isfinite(batch.event_dense_TE).all()
        assert (batch.event_dense_TE[:, 0] > 0).all()  # the gap to the impression


def test_the_same_ad_has_the_same_id_as_target_and_in_the_history(home):
    part = next(reader(home, max_events=64).day(DAYS[2]))
    frame = rows_of(home, "examples")
    target = dict(zip(frame.impression_id, frame.ad_id, strict=True))
    by_ad = {}
    for i, impression in enumerate(part.impression_ids.to_pylist()):
        by_ad.setdefault(target[impression], int(part.token_ids["ad"][0][i]))
    events = rows_of(home, "user_events").drop_duplicates("event_ts", keep=False)
    ad_at = dict(zip(events.event_ts.astype("datetime64[us, UTC]").astype("int64"), events.ad_id, strict=True))
    stamps = part.window.happened_E.tolist()
    matched = [(ad_at[ts], place) for place, ts in enumerate(stamps) if ad_at.get(ts) in by_ad]
    assert matched
    assert all(int(part.event_ids["event_ad"][place]) == by_ad[ad] for ad, place in matched)


def test_a_missing_day_and_a_missing_column_are_named(home, tmp_path):
    with pytest.raises(PartitionError, match="2022-06-01"):
        list(reader(home).day("2022-06-01"))
    make_lake(tmp_path, days=DAYS[:1])
    path = str(tmp_path / "lake" / "examples")
    rows = DeltaTable(path).to_pyarrow_table()
    from deltalake import write_deltalake

    write_deltalake(path, rows.drop_columns(["hour"]), mode="overwrite", schema_mode="overwrite",
                    partition_by=["date", "bucket"])  # fmt: skip
    with pytest.raises(SchemaError, match="lacks column"):
        list(reader(tmp_path).day(DAYS[0]))


def test_a_bucket_larger_than_the_bound_is_read_in_user_slices_that_hold_to_it(home, monkeypatch):
    whole = list(reader(home).day(DAYS[2]))
    read = []
    monkeypatch.setattr(module, "encode", lambda *args, **kw: read.append(args[3].num_rows) or encode(*args, **kw))
    limit = 25
    small = reader(home, max_resident_bytes=limit * reader(home).event_bytes)
    parts = list(small.day(DAYS[2]))
    assert len(parts) > len(whole)
    assert max(read) <= limit
    for name in ("user_N", "example_N", "dense_NF"):
        joined = [np.concatenate([getattr(part, name) for part in some]) for some in (whole, parts)]
        assert np.array_equal(*joined), name
    assert [x for p in parts for x in p.window.lengths] == [x for p in whole for x in p.window.lengths]


def test_only_events_that_an_impression_of_the_day_may_see_are_read(home, monkeypatch):
    read = []
    monkeypatch.setattr(module, "encode", lambda *args, **kw: read.append(args[3]) or encode(*args, **kw))
    aged = DayReader(contract(), home / "lake", window=WindowSpec(max_events=8, max_age_s=3600))
    for part, events in zip(aged.day(DAYS[2]), read, strict=False):
        times = events["event_ts"].cast("int64").to_numpy()
        assert part.as_of_N.min() - 3601 * SECOND <= times.min()
        assert times.max() < part.as_of_N.max()
        assert set(events["user_id"].to_pylist()) <= set(part.user_N.tolist())


def test_a_reader_stays_at_the_versions_it_first_saw(tmp_path):
    make_lake(tmp_path, days=DAYS[:2])
    own = reader(tmp_path)
    before = [part.size for part in own.day(DAYS[1])]
    versions = own.versions
    make_lake(tmp_path, days=DAYS[1:2], rows=30, seed=5)
    assert [part.size for part in own.day(DAYS[1])] == before
    pinned = DayReader(contract(), tmp_path / "lake", window=WindowSpec(max_events=8), versions=versions)
    assert [part.size for part in pinned.day(DAYS[1])] == before
    assert sum(part.size for part in reader(tmp_path).day(DAYS[1])) == 30


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="max_resident_bytes"):
        ReaderConfig(max_resident_bytes=0)


@pytest.fixture(scope="module")
def untidy_home(tmp_path_factory):
    """Times tie within two hours, a third of the events arrive up to thirty hours late; every kind and source."""
    home, own = tmp_path_factory.mktemp("untidy"), contract()
    make_lake(home)
    for day in DAYS:
        frame = rows_of(home, "user_events").query("date == @day")
        rng = np.random.default_rng(int(day[-2:]))
        happened = frame.event_ts.dt.floor("2h")
        delay_s = np.where(rng.random(len(frame)) < 0.3, rng.integers(1, 108_000, len(frame)), 0)
        put(home, own, tables.user_events(own), day, frame.assign(
            event_ts=happened, ingest_ts=happened + pd.to_timedelta(delay_s, unit="s"),
            actions=rng.integers(0, 1 << len(own.sequence.kinds), len(frame)).astype("int32"),
            source=rng.choice(own.sequence.sources, len(frame)), user_id=frame.user_id // 4 * 4 + frame.bucket,
        ))  # fmt: skip
    return home


_own = contract()
_groups = st.builds(
    EventGroup, max_events=st.integers(1, 6), kinds=st.sampled_from([(), *((k,) for k in _own.sequence.kinds[:3])]),
    sources=st.sampled_from([(), _own.sequence.sources[:1]]), surfaces=st.sampled_from([(), _own.surfaces[:2]]),
    max_age_s=st.sampled_from([None, 7200, 90_000]),
)  # fmt: skip
_specs = st.builds(
    WindowSpec, max_events=st.integers(1, 12), max_age_s=st.sampled_from([None, 50_000]),
    groups=st.lists(_groups, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=12)
@given(spec=_specs, limit=st.sampled_from((15, 10**6)), day=st.sampled_from(DAYS[1:]))
def test_windows_read_from_an_untidy_lake_equal_the_oracle(untidy_home, spec, limit, day):
    frame = rows_of(untidy_home, "user_events")
    events: dict[int, list[Event]] = {}
    for row in frame[frame.date <= day].itertuples():
        kinds = frozenset(kind for i, kind in enumerate(_own.sequence.kinds) if row.actions >> i & 1)
        event = Event(row.user_id, row.event_ts.value // 1000, row.ingest_ts.value // 1000, row.event_key, kinds,
                      row.source, row.surface)  # fmt: skip
        events.setdefault(row.user_id, []).append(event)
    config = ReaderConfig(max_resident_bytes=limit * 400)
    for part in DayReader(_own, untidy_home / "lake", window=spec, config=config).day(day):
        index_T, length_N = part.window.select(np.arange(part.size))
        found = np.split(part.window.happened_E[index_T], np.cumsum(length_N)[:-1])
        for user, as_of, own in zip(part.user_N.tolist(), part.as_of_N.tolist(), found, strict=True):
            history = {e.key: e.happened for e in events.get(user, [])}
            keys = selected_window(events.get(user, []), spec, user=user, as_of=as_of, allowance=0)
            assert own.tolist() == [history[key] for key in keys]
