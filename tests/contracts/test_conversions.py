"""Rules of delayed objectives: each broken one is named, and maturity is a matter of dates."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import Objective, days_before
from tests.oracles.conversions import conversion_contract, conversion_document
from tests.oracles.event_log import log_contract

ORDER = {"name": "order", "conversion": "purchase", "click_window_days": 7}


def order(**changes):
    return Objective.model_validate(ORDER | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"column": "bought"}, "name either a column or a conversion"),
        ({"conversion": None}, "name either a column or a conversion"),
        ({"conversion": None, "column": "bought"}, "windows belong to conversions"),
        ({"click_window_days": None}, "needs click_window_days of at least 1"),
        ({"click_window_days": 0}, "greater than or equal to 1"),
        ({"view_window_days": -1}, "greater than or equal to 0"),
    ],
)
def test_an_objective_is_a_column_or_a_conversion_with_its_windows(changes, says):
    with pytest.raises(ValidationError, match=says):
        order(**changes)


def no_table(document):
    document["tables"]["conversions"] = None


def no_attribution(document):
    document["attribution"] = None


def no_objective(document):
    document["objectives"] = document["objectives"][:1]


def unknown_click(document):
    document["attribution"]["click_objective"] = "lead"


def unknown_match(document):
    document["attribution"]["match"] = "campaign"


def unknown_surface(document):
    document["objectives"][-1]["surfaces"] = ["s7"]


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (no_table, "so tables.conversions is needed"),
        (no_attribution, "so attribution is needed"),
        (no_objective, "leave out tables.conversions and attribution"),
        (unknown_click, "attribution.click_objective: lead is no objective with a column"),
        (unknown_match, "attribution.match: campaign is neither ad nor a sequence attribute"),
        (unknown_surface, "objective lead: unknown surfaces"),
    ],
)
def test_conversions_their_table_and_their_attribution_go_together(break_it, says):
    document = conversion_document()
    break_it(document)
    with pytest.raises(ValidationError, match=says):
        DataContract.model_validate(document)


def test_days_are_counted_on_the_calendar():
    assert days_before("2024-03-01", 1) == "2024-02-29"


def test_the_longer_window_decides_when_a_label_is_mature():
    assert order().window_days == 7
    assert order(view_window_days=9).window_days == 9
    assert Objective(name="click", column="clicked").window_days == 0
    assert not order().is_mature("2024-02-27", "2024-03-04")
    assert order().is_mature("2024-02-27", "2024-03-05")  # over a leap day
    assert Objective(name="click", column="clicked").is_mature("2024-02-27", "2024-02-27")


def test_a_contract_tells_its_columns_from_its_conversions_and_how_far_these_reach():
    contract = conversion_contract(max_delay_days=2)
    assert [o.name for o in contract.column_objectives] == ["click", "buy"]
    assert [o.name for o in contract.conversion_objectives] == ["order", "fast_order", "lead"]
    assert contract.conversion_reach_days == 4
    assert log_contract().conversion_reach_days == 0


def test_conversions_may_have_a_limit_of_their_own_for_late_arrivals():
    document = conversion_contract(max_delay_days=2).model_dump(mode="json")
    document["tables"]["conversions"]["max_delay_days"] = 9
    contract = type(log_contract()).model_validate(document)
    assert (contract.conversion_delay_days, contract.visibility.max_delay_days) == (9, 2)
    assert contract.conversion_reach_days == 11
    del document["tables"]["conversions"]["max_delay_days"]  # contracts from before this limit mean what they meant
    assert type(log_contract()).model_validate(document).conversion_delay_days == 2
