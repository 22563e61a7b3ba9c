"""A pass yields every example once and resumes anywhere bit by bit, whatever shuffles and cuts it."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.sources import LakeParts, ResidentParts
from gem_pipeline.batches.stream import BatchStream
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from tests.lake_factory import DAYS, contract, make_lake

WINDOW = WindowSpec(max_events=8)
SMALL = 60 * 200  # bytes of about sixty events: several slices a bucket


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home / "lake"


@pytest.fixture(scope="module")
def resident(lake):
    reader = DayReader(contract(), lake, window=WINDOW, config=ReaderConfig(max_resident_bytes=SMALL))
    return ResidentParts(list(reader.day(DAYS[2])))


def stream(source, *, seed=None, batch_size=16, **config):
    generator = None if seed is None else np.random.default_rng(seed)
    return BatchStream(source, batch_size=batch_size, config=ReaderConfig(**config), generator=generator)


def same(one, other):
    tensors = [(one.ids.values(), other.ids.values()), (one.ids.lengths(), other.ids.lengths())]
    names = ("event_dense_TE", "dense_BF", "surface_B", "label_BK", "mask_BK", "user_B", "example_B")
    tensors += [(getattr(one, name), getattr(other, name)) for name in names]
    if one.shared is not None:
        tensors += [(getattr(one.shared, n), getattr(other.shared, n)) for n in vars(one.shared)]
    return all(torch.equal(*pair) for pair in tensors)


@settings(max_examples=60)
@given(
    seed=st.one_of(st.none(), st.integers(0, 5)), stop=st.integers(0, 60), share=st.booleans(),
    budget=st.sampled_from((0, 40, 150)),
)  # fmt: skip
def test_a_resumed_pass_yields_what_was_left_bit_by_bit(resident, seed, stop, share, budget):
    config = {"share_histories": share, "batch_events": budget}
    first = stream(resident, seed=seed, **config)
    for _ in zip(range(stop), first, strict=False):
        pass
    state = json.loads(json.dumps(first.state()))
    second = stream(resident, seed=seed, **config)
    second.resume(state)
    assert second.state() == state
    left, again = list(first), list(second)
    assert len(left) == len(again)
    assert all(same(one, other) for one, other in zip(left, again, strict=True))


@settings(max_examples=40)
@given(
    seed=st.one_of(st.none(), st.integers(0, 5)), share=st.booleans(), budget=st.sampled_from((0, 40)),
    batch_size=st.integers(1, 50),
)  # fmt: skip
def test_every_example_comes_once(resident, seed, share, budget, batch_size):
    own = stream(resident, seed=seed, batch_size=batch_size, share_histories=share, batch_events=budget)
    expected = len(own)
    batches = list(own)
    assert sorted(torch.cat([b.example_B for b in batches]).tolist()) == list(range(240))
    assert len(batches) >= expected if budget else len(batches) == expected


def test_a_pass_over_the_lake_is_left_and_resumed_in_another_process_of_the_same_rank(lake):
    def opened():
        config = ReaderConfig(max_resident_bytes=SMALL, prefetch=1)
        reader = DayReader(contract(), lake, window=WINDOW, config=config)
        source = LakeParts(reader, DAYS[2], rank=1, world_size=2)
        return BatchStream(source, batch_size=8, config=config, generator=np.random.default_rng(7))

    whole = list(opened())
    for stop in range(0, len(whole) + 1, 3):
        first, second = opened(), opened()
        for _ in range(stop):
            next(first)
        second.resume(json.loads(json.dumps(first.state())))
        first.close()
        left = list(second)
        assert len(left) == len(whole) - stop
        assert all(same(one, other) for one, other in zip(whole[stop:], left, strict=True))


def test_a_position_is_small_and_says_nothing_of_the_data(resident):
    own = stream(resident, seed=1)
    next(own)
    assert len(json.dumps(own.state())) < 1000


@pytest.mark.parametrize("change", [{"batch_size": 8}, {"seed": None}, {"share_histories": True}])
def test_a_position_of_another_pass_is_refused(resident, change):
    state = stream(resident, seed=1).state()
    with pytest.raises(ConfigError, match="another day, rank"):
        stream(resident, **({"seed": 1} | change)).resume(state)


def test_a_position_is_refused_once_the_table_has_changed(tmp_path):
    make_lake(tmp_path, days=DAYS[:1])

    def opened():
        reader = DayReader(contract(), tmp_path / "lake", window=WINDOW)
        return stream(LakeParts(reader, DAYS[0]))

    state = opened().state()
    make_lake(tmp_path, days=DAYS[:1], seed=1)
    with pytest.raises(ConfigError, match="table version"):
        opened().resume(state)


def test_closing_a_pass_ends_its_thread(lake):
    reader = DayReader(contract(), lake, window=WINDOW, config=ReaderConfig(max_resident_bytes=SMALL))
    own = stream(LakeParts(reader, DAYS[2]))
    next(own)
    own.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]
