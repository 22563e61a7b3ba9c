"""The rule on bad rows: one limit or one a table, and nothing else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.quality import QualityRule
from tests.oracles.event_log import log_contract


def test_without_a_rule_everything_is_kept_and_any_share_may_be_left_out():
    rule = log_contract().quality
    assert (rule.share_of("user_events"), rule.unknown_ads, rule.unknown_users) == (1.0, "keep", "keep")


def test_one_limit_holds_for_every_table_and_named_ones_for_their_own():
    assert QualityRule(max_quarantined_share=0.05).share_of("examples") == 0.05
    named = QualityRule(max_quarantined_share={"examples": 0.01})
    assert (named.share_of("examples"), named.share_of("user_events")) == (0.01, 1.0)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"max_quarantined_share": 1.5}, "less than or equal to 1"),
        ({"max_quarantined_share": {"impressions": 0.1}}, "unknown tables"),
        ({"unknown_ads": "drop"}, "'keep' or 'quarantine'"),
        ({"unknown": "keep"}, "Extra inputs"),
    ],
)
def test_a_broken_rule_is_named(rule, said):
    with pytest.raises(ValidationError, match=said):
        QualityRule.model_validate(rule)


def test_a_feature_of_a_surface_that_does_not_exist_is_refused():
    document = log_contract().model_dump(mode="json")
    document["features"][0]["surfaces"] = ["s7"]
    with pytest.raises(ValidationError, match=r"feature owner: unknown surfaces \['s7'\]"):
        DataContract.model_validate(document)
