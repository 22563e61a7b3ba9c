"""One run over a range leaves what single-day runs in date order leave, row by row and weight by weight."""

from __future__ import annotations

import pytest

from tests.smoke.chain import (
    DATES,
    HISTORY,
    LocalTrainer,
    assert_same_tables,
    features_of,
    instance_of,
    run,
    scores_of,
    weights_of,
)
from tests.smoke.conftest import new_home

pytestmark = [pytest.mark.smoke, pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def day_by_day(chain, jars, tmp_path_factory):
    """The chain again, a run a day and step, with the verticals of the range."""
    home = new_home(tmp_path_factory.mktemp("daily") / "home", jars)
    with instance_of(chain.home) as instance, instance_of(home) as own:
        own.add_dynamic_partitions("vertical", instance.get_dynamic_partitions("vertical"))
    trainer = LocalTrainer()
    run(home, "refresh_history", [HISTORY])
    for date in DATES:
        run(home, "refresh", [date], launcher=trainer)
        run(home, "refresh_verticals", [date], launcher=trainer, verticals=True)
    return home


def test_the_tables_of_a_range_are_those_of_single_days(chain, day_by_day):
    assert_same_tables(features_of(chain.home), features_of(day_by_day))


def test_the_scores_of_a_range_are_those_of_single_days(chain, day_by_day):
    assert_same_tables(scores_of(chain.home), scores_of(day_by_day))


def test_the_weights_of_a_range_are_those_of_single_days_bit_by_bit(chain, day_by_day):
    weights = weights_of(chain.home)
    assert any(name.startswith("vertical") for name in weights)
    assert weights == weights_of(day_by_day)
