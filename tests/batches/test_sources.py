"""Parts from the lake equal parts in memory; ranks share a day out completely and evenly; memory keeps its bound."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from gem_pipeline.batches import reader as module
from gem_pipeline.batches.features import encode
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.sources import LakeParts, ResidentParts
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import PartitionError
from tests.lake_factory import DAYS, contract, make_lake

WINDOW = WindowSpec(max_events=8)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home / "lake"


def reader(lake, **config):
    return DayReader(contract(), lake, window=WINDOW, config=ReaderConfig(**config))


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_ranks_read_every_example_exactly_once(lake, world_size):
    shares = [LakeParts(reader(lake), DAYS[2], rank=rank, world_size=world_size) for rank in range(world_size)]
    rows = np.concatenate([part.example_N for share in shares for part in share])
    assert sorted(rows.tolist()) == list(range(240))
    costs = [sum(share.costs) for share in shares]
    if world_size > 1:
        assert max(costs) <= 1.3 * sum(costs) / world_size


@pytest.mark.parametrize("ahead", [0, 2])
def test_parts_of_the_lake_equal_parts_in_memory(lake, ahead):
    own = reader(lake, prefetch=ahead)
    streamed, kept = LakeParts(own, DAYS[2]), ResidentParts(list(own.day(DAYS[2])))
    assert streamed.sizes == kept.sizes
    assert streamed.layout == kept.layout
    assert streamed.impression_ids().equals(kept.impression_ids())
    for number, (one, other) in enumerate(zip(streamed, kept, strict=True)):
        assert one.example_N.tolist() == other.example_N.tolist()
        rows = np.arange(one.size)
        assert one.batch(rows).ids.values().equal(other.batch(rows).ids.values())
        (again,) = streamed.parts([number])
        assert again.example_N.tolist() == one.example_N.tolist()


def test_costs_are_the_examples_and_what_they_see_at_most(lake):
    streamed = LakeParts(reader(lake, batch_events=50), DAYS[2])
    kept = ResidentParts(list(reader(lake).day(DAYS[2])))
    assert all(bound >= cost for bound, cost in zip(streamed.costs, kept.costs, strict=True))
    assert kept.costs == [part.size + int(part.window.lengths.sum()) for part in kept]


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_events_in_memory_never_exceed_the_bound_also_when_reading_ahead(lake, monkeypatch, ahead):
    """Counts the events that were read for every part that is alive."""
    own = reader(lake, prefetch=ahead, max_resident_bytes=160 * reader(lake).event_bytes)
    alive: dict[int, int] = {}
    most = 0

    def counting(*args, **named):
        nonlocal most
        most = max(most, sum(alive.values()) + args[3].num_rows)
        part = encode(*args, **named)
        alive[id(part)] = args[3].num_rows
        weakref.finalize(part, alive.pop, id(part))
        return part

    monkeypatch.setattr(module, "encode", counting)
    parts, rows = LakeParts(own, DAYS[2]).parts(range(len(LakeParts(own, DAYS[2]).sizes))), 0
    while (part := next(parts, None)) is not None:
        rows += part.size
        del part
    assert rows == 240
    assert 20 < most <= 160


def test_a_day_without_examples_is_named(lake):
    with pytest.raises(PartitionError, match="2022-06-01"):
        LakeParts(reader(lake), "2022-06-01")
