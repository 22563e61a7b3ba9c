"""Batches from Delta: every example once, with exactly its own labels, ids and history."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from deltalake import DeltaTable

from gem_pipeline.batches.reader import DayReader, day_batches
from gem_pipeline.errors import PartitionError, SchemaError
from tests.lake_factory import DAYS, contract, make_lake
from tests.oracles.history import Event, visible_window

SECOND = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home


def reader(home, max_events=8):
    return DayReader(contract(), home / "lake", max_events=max_events)


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
        cuts = np.cumsum(part.window.length_N)[:-1]
        found = np.split(part.event_ts_E[part.window.index_T], cuts)
        for user, as_of, own in zip(part.user_N, part.as_of_N, found, strict=True):
            keys = visible_window(events, user=user, as_of=as_of, allowance=0, max_events=8)
            assert own.tolist() == [times[key] for key in keys]


def test_batches_carry_their_rows_whatever_the_shuffle(home):
    part = next(reader(home).day(DAYS[2]))
    whole = part.batch(np.arange(part.size))
    batches = list(day_batches(part, batch_size=7, generator=np.random.default_rng(3)))
    assert max(b.size for b in batches) == 7
    assert min(b.size for b in batches) >= 1
    order = torch.cat([b.example_B for b in batches]) - int(whole.example_B[0])
    assert sorted(order.tolist()) == list(range(part.size))
    assert torch.equal(torch.cat([b.dense_BF for b in batches]), whole.dense_BF[order])
    assert torch.equal(torch.cat([b.label_BK for b in batches]), whole.label_BK[order])
    jagged, lengths = whole.ids["event_ad"].values(), whole.ids["event_ad"].lengths()
    rows = torch.split(jagged, lengths.tolist())
    shuffled = torch.cat([b.ids["event_ad"].values() for b in batches])
    assert torch.equal(shuffled, torch.cat([rows[i] for i in order.tolist()]))


def test_every_id_fits_its_table_and_every_token_has_one(home):
    own = reader(home)
    size = {table.name: table.rows for table in own.layout.tables}
    for batch in own.batches(DAYS[0], batch_size=64):
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
    events = rows_of(home, "user_events").drop_duplicates("ad_id")
    keys = dict(zip(events.ad_id, events.event_ts.astype("datetime64[us, UTC]").astype("int64"), strict=True))
    stamps = part.event_ts_E.tolist()
    matched = [(ad, stamps.index(ts)) for ad, ts in keys.items() if ts in stamps and ad in by_ad]
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
