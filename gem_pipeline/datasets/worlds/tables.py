"""A world's rows as Arrow tables: what the platform logs, and beside it the truth that only judges may read. Ours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.content import (
    POSTS_A_TOPIC,
    ad_first_day,
    ad_in_slot,
    ads,
    all_posts,
    bid,
    daily_budget,
    num_slots,
    vectors,
)
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import WEEK, Users, users
from gem_pipeline.datasets.worlds.serve import POLICY, Served, logged_day
from gem_pipeline.datasets.worlds.traffic import event_id, midnight_ms, organic, slots
from gem_pipeline.datasets.worlds.world import CHANNELS, FORMATS, GOALS, ORGANIC_KINDS, Scale, World

_TIME = pa.timestamp("us", tz="UTC")
ENGAGEMENTS = pa.schema(
    [("event_id", pa.int64()), ("user_id", pa.int64()), ("content_id", pa.int64()), ("surface", pa.string()),
     ("source", pa.string()), ("actions", pa.list_(pa.string())), ("dwell_s", pa.float32()),
     ("scroll_depth", pa.float32()), ("event_ts", _TIME), ("ingest_ts", _TIME), ("date", pa.string())]
)  # fmt: skip
SERVED = pa.schema(
    [("impression_id", pa.int64()), ("user_id", pa.int64()), ("content_id", pa.int64()), ("surface", pa.string()),
     ("event_ts", _TIME), ("position", pa.int32()), ("bid", pa.float32()), ("price", pa.float32()),
     ("propensity", pa.float32()), ("policy", pa.string()), ("is_click", pa.int8()), ("dwell_s", pa.float32()),
     ("known_ts", _TIME), ("known_ingest_ts", _TIME), ("conversion_type", pa.string()), ("converted_ts", _TIME),
     ("conversion_ingest_ts", _TIME), ("value", pa.float32()), ("p_click", pa.float64()),
     ("p_click_logged", pa.float64()), ("p_convert", pa.float64()), ("p_convert_logged", pa.float64()),
     ("interest", pa.float32()), ("asks_for", pa.string()), ("topic", pa.int32()), ("date", pa.string())]
)  # fmt: skip
USERS = pa.schema(
    [("user_id", pa.int64()), ("valid_from", _TIME), ("age", pa.string()), ("region", pa.string()),
     ("device", pa.string()), ("activity", pa.string()), ("communities", pa.list_(pa.string()))]
)  # fmt: skip
CONTENT = pa.schema(
    [("content_id", pa.int64()), ("valid_from", _TIME), ("kind", pa.string()), ("maker_id", pa.int64()),
     ("category", pa.string()), ("goal", pa.string()), ("format", pa.string()), ("channel", pa.string()),
     ("bid", pa.float32()), ("daily_budget", pa.float32()), ("measured_quality", pa.float32()),
     ("image_vector", pa.list_(pa.float32())), ("text_vector", pa.list_(pa.float32())),
     ("audio_vector", pa.list_(pa.float32()))]
)  # fmt: skip
ACTIVITY = ("low", "middle", "high", "new")
NEIGHBOURS, NEIGHBOUR_NOISE = 3, 0.3  # communities of a user's friends; so many are unrelated to the user
MEASURED_SHARE, MEASURED_NOISE = 0.4, 0.3  # ads with a lift study, and its error
CREATORS_A_TOPIC, FIRST_CREATOR = 20, 1_000_000


def _times(ms_N: Longs) -> pa.Array:
    return pa.array(ms_N * 1000, pa.int64()).cast(_TIME)


def _named(names: tuple[str, ...], index_N: Longs) -> pa.Array:
    """Strings by index; null for negative ones."""
    return pa.array(names, pa.string()).take(pa.array(index_N, pa.int64(), mask=index_N < 0))


def _constant(value: str, num: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(num, dtype=np.int32)), pa.array([value])).cast(pa.string())


def _lists(names: tuple[str, ...], did_NA: draws.Flags) -> pa.Array:
    """One list of strings a row: the names whose flag is set."""
    offsets = np.concatenate([[0], np.cumsum(did_NA.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(names, pa.string()).take(pa.array(np.nonzero(did_NA)[1]))
    )


def _vectors(values_ND: Floats) -> pa.Array:
    offsets = (np.arange(len(values_ND) + 1) * values_ND.shape[1]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values_ND.ravel().astype(np.float32)))


def organic_events(world: World, scale: Scale, first: int, stop: int, day: int, date: str) -> pa.Table:
    """Organic events of users first + 1 ... stop on a day, schema `ENGAGEMENTS`."""
    made = organic(world, scale, slots(world, scale, users(world, scale, first, stop), day))
    num = len(made.post_N)
    columns = [
        pa.array(event_id(made.at, scale)), pa.array(made.at.user_N), pa.array(made.post_N),
        _named(world.surface_names(), made.at.surface_N), _constant("organic", num),
        _lists(ORGANIC_KINDS, made.did_NA), pa.array(made.dwell_s_N.astype(np.float32)),
        pa.array(made.scroll_N.astype(np.float32)), _times(made.known_ms_N), _times(made.arrived_ms_N),
        _constant(date, num),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=ENGAGEMENTS)


def logged_impressions(world: World, scale: Scale, first: int, stop: int, day: int, date: str) -> pa.Table:
    """Impressions that the logged policy made for users first + 1 ... stop, with their truth, schema `SERVED`."""
    return served_table(world, scale, logged_day(world, scale, users(world, scale, first, stop), day), date, POLICY)


def served_table(world: World, scale: Scale, served: Served, date: str, policy: str) -> pa.Table:
    """Impressions of a day with truth and outcomes, schema `SERVED`."""
    at, num = served.slots.at, len(served.ad_N)
    types = tuple(c.name for c in world.conversions)
    did = served.outcome.convert_N

    def converted(values: pa.Array) -> pa.Array:
        return pc.if_else(pa.array(did), values, pa.scalar(None, values.type))

    columns = [
        pa.array(event_id(at, scale)), pa.array(at.user_N), pa.array(served.ad_N),
        _named(world.surface_names(), at.surface_N), _times(served.slots.time_ms_N),
        pa.array(at.position_N.astype(np.int32)), pa.array(served.bid_N.astype(np.float32)),
        pa.array(served.price_N.astype(np.float32)), pa.array(served.propensity_N.astype(np.float32)),
        _constant(policy, num), pa.array(served.outcome.click_N.astype(np.int8)),
        pa.array(served.dwell_s_N.astype(np.float32)), _times(served.known_ms_N), _times(served.arrived_ms_N),
        converted(_named(types, served.truth.type_N)), converted(_times(served.converted_ms_N)),
        converted(_times(served.conversion_arrived_ms_N)),
        converted(pa.array(np.nan_to_num(served.outcome.value_N).astype(np.float32))),
        pa.array(served.truth.p_click), pa.array(served.truth.p_click_logged), pa.array(served.truth.p_convert),
        pa.array(served.truth.p_convert_logged), pa.array(served.interest_N.astype(np.float32)),
        _named(types, served.truth.type_N), pa.array(served.ad.topic_N.astype(np.int32)), _constant(date, num),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SERVED)


def user_rows(world: World, scale: Scale, first: int, stop: int, through: int) -> pa.Table:
    """Users first + 1 ... stop as known until day `through`, schema `USERS`: a row each time an attribute changed."""
    who = users(world, scale, first, stop)
    start_U = np.maximum(who.joined_U, -scale.history_days).astype(np.int64)
    row, day, band = [], [], []
    last_U = np.full(len(who.id_U), -1)
    for week in range(-(-(through + scale.history_days + 1) // WEEK) + 1):
        # a user's weeks start with the user; in the first one of a newcomer nobody knows how active it will be
        day_U = start_U + WEEK * week
        band_U = _activity(scale, who, week)
        band_U = np.where((week == 0) & (who.joined_U >= -scale.history_days), ACTIVITY.index("new"), band_U)
        changed = np.flatnonzero((day_U <= through) & (band_U != last_U))
        row.append(changed)
        day.append(day_U[changed])
        band.append(band_U[changed])
        last_U = np.where(day_U <= through, band_U, last_U)
    row_N, day_N, band_N = np.concatenate(row), np.concatenate(day), np.concatenate(band)
    columns = [
        pa.array(who.id_U[row_N]), _times(midnight_ms(scale, 0) + day_N * 86_400_000),
        _named(tuple(f"age_{i}" for i in range(6)), who.age_U[row_N]),
        _named(tuple(f"region_{i}" for i in range(8)), who.region_U[row_N]),
        _named(("phone", "tablet", "desktop"), who.device_U[row_N]), _named(ACTIVITY, band_N),
        _communities(world, scale, who).take(pa.array(row_N)),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=USERS)


def _activity(scale: Scale, who: Users, week: int) -> Longs:
    """Band of activity in a week, [U]: the user's rate under some noise."""
    noise_U = 0.4 * draws.normal(draws.key(scale.seed, 30, who.id_U, week), "band")
    return np.digitize(np.log(who.rate_U / scale.events_a_day) + noise_U, [-0.8, 0.4]).astype(np.int64)


def _communities(world: World, scale: Scale, who: Users) -> pa.Array:
    """Graph neighbours as communities, one list a user: mostly the topics that the user likes best."""
    best_UF = np.argsort(-who.long_UT, axis=1, kind="stable")[:, :NEIGHBOURS]
    keys = draws.key(scale.seed, 31, who.id_U[:, None], np.arange(NEIGHBOURS))
    other_UF = draws.integers(keys, "community", world.topics)
    community_UF = np.where(draws.uniform(keys, "unrelated") < NEIGHBOUR_NOISE, other_UF, best_UF)
    names = pa.array([f"community_{i}" for i in range(world.topics)])
    offsets = (np.arange(len(who.id_U) + 1) * NEIGHBOURS).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(community_UF.ravel())))


def content_rows(world: World, scale: Scale, through: int) -> pa.Table:
    """Posts and ads that started until day `through`, schema `CONTENT`: an ad has a row for each week's bid."""
    slot_N = np.arange(num_slots(world, scale), dtype=np.int64)
    days = range(through + 1)
    ad_N = np.concatenate([slot_N[:0], *(ad_in_slot(world, scale, slot_N, day) for day in days)])
    week_N = np.repeat(np.array(days, dtype=np.int64) // WEEK, len(slot_N))
    pair_N = np.unique(np.stack([ad_N, week_N]), axis=1)
    return pa.concat_tables([_post_table(world, scale), _ad_table(world, scale, pair_N[0], pair_N[1])])


def _ad_table(world: World, scale: Scale, ad_N: Longs, week_N: Longs) -> pa.Table:
    ad = ads(world, scale, ad_N)
    keys = draws.key(scale.seed, 32, ad_N)
    budget_N, bid_N = daily_budget(world, scale, ad.advertiser_N), bid(scale, ad_N, week_N)
    measured_N = ad.quality_N + MEASURED_NOISE * draws.normal(keys, "lift study")
    start_N = np.maximum(ad_first_day(world, scale, ad_N), WEEK * week_N)
    made = vectors(world, scale, ad_N, ad.topic_N, ad.style_N)
    return pa.Table.from_arrays(
        [pa.array(ad_N), _times(midnight_ms(scale, 0) + start_N * 86_400_000), _constant("ad", len(ad_N)),
         pa.array(ad.advertiser_N), _named(tuple(f"category_{i}" for i in range(world.topics)), ad.topic_N // 2),
         _named(GOALS, ad.goal_N), _named(FORMATS, ad.format_N), _named(CHANNELS, ad.channel_N),
         pa.array(bid_N.astype(np.float32)), pa.array(budget_N.astype(np.float32)),
         pa.array(np.round(measured_N, 4).astype(np.float32), mask=draws.uniform(keys, "studied") > MEASURED_SHARE),
         *(_vectors(made[name]) for name in ("image", "text", "audio"))], schema=CONTENT,
    )  # fmt: skip


def _post_table(world: World, scale: Scale) -> pa.Table:
    post_N = all_posts(world)
    place_N = post_N - post_N[0]
    topic_N, rank_N = place_N % world.topics, place_N // world.topics
    creator_N = FIRST_CREATOR + topic_N + world.topics * (rank_N * CREATORS_A_TOPIC // POSTS_A_TOPIC)
    num = len(post_N)
    made = vectors(world, scale, post_N, topic_N, draws.normal(draws.key(scale.seed, 33, post_N), "style"))
    nothing = pa.nulls(num, pa.float32())
    start_N = np.full(num, midnight_ms(scale, -scale.history_days))
    return pa.Table.from_arrays(
        [pa.array(post_N), _times(start_N), _constant("post", num), pa.array(creator_N),
         _named(tuple(f"category_{i}" for i in range(world.topics)), topic_N // 2), _constant("organic", num),
         _named(FORMATS, rank_N % len(FORMATS)), _constant("organic", num), nothing, nothing, nothing,
         *(_vectors(made[name]) for name in ("image", "text", "audio"))], schema=CONTENT,
    )  # fmt: skip
