"""Silver: events on one time line, counters, examples that point into the history, and attributed conversions."""

from collections.abc import Iterator

import dagster as dg

from assets.partitions import CONTRACT, DAYS, ONE_RUN, asset, days_back, register_verticals
from assets.reports import credited, derived, gate_specs, in_force
from resources.features import FeatureDerivation
from resources.settings import GemSettings

Events = Iterator[dg.AssetCheckResult | dg.MaterializeResult]
KINDS = {"spark", "deltalake"}
_COPIES = days_back(CONTRACT.tables.engagements.copies_within_days, 0)
_OPEN_DAYS = CONTRACT.visibility.max_delay_days if CONTRACT.counters.see_open_day else 0  # counters of lag none


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[dg.AssetDep("raw_tables", partition_mapping=_COPIES)], check_specs=gate_specs("user_events"),
)  # fmt: skip
def user_events(context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings) -> Events:
    """One row an event, all kinds and surfaces on one time line; each event is stored once."""
    yield from derived(context, settings, "user_events", features.derivation(settings).user_events)


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[
        "raw_tables",
        dg.AssetDep("user_events", partition_mapping=days_back(1 + CONTRACT.visibility.max_delay_days, 1)),
    ],
    check_specs=gate_specs("counter_increments"),
)  # fmt: skip
def counter_increments(context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings) -> Events:
    """What became known between the opening of the day before and the opening of this day, by counter and key."""
    yield from derived(context, settings, "counter_increments", features.derivation(settings).counter_increments)


@asset(
    group_name="features", kinds=KINDS, code_version="1", backfill_policy=ONE_RUN, pool="spark",
    deps=["raw_tables"], check_specs=gate_specs("vectors"),
)  # fmt: skip
def vectors(context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings) -> Events:
    """The vectors of ads and users as they are now, each stored once; they belong to no day."""
    yield from in_force(settings, "vectors", features.derivation(settings).vectors)


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[
        "raw_tables",
        "vectors",
        dg.AssetDep("user_events", partition_mapping=days_back(_OPEN_DAYS, 0)),
        dg.AssetDep("counter_increments", partition_mapping=days_back(CONTRACT.counters.longest_window_days - 1, 0)),
    ],
    check_specs=gate_specs("examples"),
)  # fmt: skip
def examples(context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings) -> Events:
    """One row an impression: labels, features as known at its time, and pointers into history and vectors."""
    yield from derived(context, settings, "examples", features.derivation(settings).examples)


@asset(
    group_name="features", kinds=KINDS, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark",
    deps=[
        dg.AssetDep("raw_tables", partition_mapping=days_back(CONTRACT.conversion_reach_days, 0)),
        dg.AssetDep("examples", partition_mapping=days_back(2 * CONTRACT.conversion_reach_days, 0)),
    ],
    check_specs=gate_specs("attributed_conversions"),
)  # fmt: skip
def attributed_conversions(
    context: dg.AssetExecutionContext, features: FeatureDerivation, settings: GemSettings
) -> Events:
    """The conversions that arrived by this day, credited to earlier impressions; nothing where a contract has none."""
    yield from credited(context, settings, features.derivation(settings).attributed_conversions)
    register_verticals(context.instance, settings, context.partition_keys)
