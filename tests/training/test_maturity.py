"""Which partitions mature on a day, and what their labels were on that day."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gem_pipeline.training.maturity import (
    MaturedDay,
    all_matured,
    conversions_digest,
    label_counts,
    matured_days,
)
from gem_pipeline.training.plan import base_rates, eligible_verticals, vertical_key
from tests.lake_factory import DAYS, contract, make_lake, put_conversions, write_delayed_contract


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return write_delayed_contract(tmp_path_factory.mktemp("contract") / "delayed.yaml")


@pytest.fixture
def home(own, tmp_path):
    make_lake(tmp_path, own=own, rows=30)
    return tmp_path


def credit(home, own, *arrivals):
    put_conversions(home, own, DAYS[0], arrivals)


def test_a_partition_matures_once_for_each_window(own):
    assert matured_days(own, DAYS[2], DAYS) == (
        MaturedDay(date=DAYS[0], objectives=("order",), as_of=DAYS[2]),
        MaturedDay(date=DAYS[1], objectives=("lead",), as_of=DAYS[2]),
    )
    assert matured_days(own, DAYS[2], DAYS[1:]) == (MaturedDay(date=DAYS[1], objectives=("lead",), as_of=DAYS[2]),)
    assert matured_days(own, DAYS[0], DAYS) == ()
    assert matured_days(contract(), DAYS[2], DAYS) == ()


def test_a_mature_partition_stays_mature(own):
    assert [(day.date, day.objectives) for day in all_matured(own, DAYS[2], DAYS)] == [
        (DAYS[0], ("order", "lead")),
        (DAYS[1], ("lead",)),
    ]


def test_the_digest_follows_the_labels_known_on_the_day_and_nothing_else(home, own):
    lake = home / "lake"
    assert conversions_digest(lake, DAYS[:1], DAYS[2]) == ""
    credit(home, own, (f"{DAYS[0]}:1", "order", DAYS[1]))
    before = conversions_digest(lake, DAYS[:1], DAYS[2])
    credit(home, own, (f"{DAYS[0]}:1", "order", DAYS[1]), (f"{DAYS[0]}:2", "order", "2022-05-04"))
    assert conversions_digest(lake, DAYS[:1], DAYS[2]) == before
    assert conversions_digest(lake, DAYS[:1], "2022-05-04") != before
    credit(home, own, (f"{DAYS[0]}:1", "order", DAYS[1]), (f"{DAYS[0]}:2", "order", DAYS[2]))
    assert conversions_digest(lake, DAYS[:1], DAYS[2]) != before
    assert conversions_digest(lake, (), DAYS[2]) == ""


def test_conversions_are_counted_by_cell_for_verticals_and_base_rates(home, own):
    credit(home, own, *((f"{DAYS[0]}:{i}", "order", DAYS[1]) for i in range(30)))
    counts = label_counts(own, home / "lake", matured_days(own, DAYS[2], DAYS[:1]))
    assert sum(positives for positives, _ in counts.values()) == sum(total for _, total in counts.values()) == 30
    assert {objective for _, objective in counts} == {"order"}
    assert base_rates(own, home, "2022-05-04")["all"]["order"] == 1.0
    assert "order" not in base_rates(own, home, DAYS[2])["all"]
    credit(home, own, *((f"{DAYS[0]}:{i}", "order", DAYS[1]) for i in range(0, 30, 2)))
    put_conversions(home, own, DAYS[1], [])
    rule = own.verticals.model_copy(update={"min_positives": 1, "min_negatives": 1, "max_models": 99})
    keys = eligible_verticals(own.model_copy(update={"verticals": rule}), home, DAYS[2:])
    assert {key for key in keys if key.endswith("__order")} <= {vertical_key(s, "order") for s in own.surfaces[:2]}
    assert any(key.endswith("__order") for key in keys)


def test_it_needs_no_torch():
    code = "import sys; import gem_pipeline.training.maturity; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
