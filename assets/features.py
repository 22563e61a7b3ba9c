"""Silver: events on one time line, counters, and examples that point into the history. Validated before published."""

from collections.abc import Iterator

import dagster as dg

from assets.partitions import CONTRACT, DAYS, ONE_RUN, asset, days_back, register_verticals
from assets.reports import gate_specs, published
from resources.features import FeatureDerivation
from resources.settings import GemSettings

Events = Iterator[dg.AssetCheckResult | dg.MaterializeResult]
KINDS = {"spark", "deltalake"}


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=["raw_tables"], check_specs=gate_specs("user_events"),
)  # fmt: skip
def user_events(context: dg.AssetExecutionContext, features: FeatureDerivation) -> Events:
    """One row an event, all kinds and surfaces on one time line; each event is stored once."""
    partitions = features.derivation().user_events(tuple(context.partition_keys))
    yield from published(context, "user_events", features.uri("user_events"), partitions)


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[
        "raw_tables",
        dg.AssetDep("user_events", partition_mapping=days_back(1 + CONTRACT.visibility.max_delay_days, 1)),
    ],
    check_specs=gate_specs("counter_increments"),
)  # fmt: skip
def counter_increments(context: dg.AssetExecutionContext, features: FeatureDerivation) -> Events:
    """What became known between the opening of the day before and the opening of this day, by counter and key."""
    partitions = features.derivation().counter_increments(tuple(context.partition_keys))
    yield from published(context, "counter_increments", features.uri("counter_increments"), partitions)


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[
        "raw_tables",
        "user_events",
        dg.AssetDep("counter_increments", partition_mapping=days_back(CONTRACT.counters.window_days - 1, 0)),
    ],
    check_specs=gate_specs("examples"),
)  # fmt: skip
def examples(context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings) -> Events:
    """One row an impression: labels, features as known at its time, and a pointer into the history."""
    partitions = features.derivation().examples(tuple(context.partition_keys))
    register_verticals(context.instance, settings, context.partition_keys)
    yield from published(context, "examples", features.uri("examples"), partitions)
