"""Random logs, and naive twins of the derivations: every rule as a Python condition, one row after the other."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.counters import Counter as CounterRule

Row = dict[str, Any]
DATES = ("2024-03-01", "2024-03-02", "2024-03-04", "2024-03-05")  # one day without rows
FIRST = "2024-02-01"  # long before the log
KINDS = ("view", "click", "like")
SECOND = timedelta(seconds=1)


def log_contract(**visibility: int) -> DataContract:
    """Two surfaces, two sources, ads with validity, counters with every kind of key."""
    rule = {"allowance_s": 5, "user_buckets": 3, "max_delay_days": 1, **visibility}
    groups = [
        {"name": "all", "keys": [], "source": "feed", "kinds": ["view", "click", "like"]},
        {"name": "place", "keys": ["surface"], "source": "feed", "kinds": ["click"]},
        {"name": "user", "keys": ["user"], "source": "feed", "kinds": ["click", "like"]},
        {"name": "all_old", "keys": [], "source": "import", "kinds": ["like"]},
        {"name": "old", "keys": ["user"], "source": "import", "kinds": ["like"]},
        {"name": "ad_place", "keys": ["ad", "surface"], "source": "feed", "kinds": []},
        {"name": "owner", "keys": ["user", "owner"], "source": "feed", "kinds": ["click"]},
        {"name": "all_now", "keys": [], "source": "feed", "kinds": ["click"], "lag": "none", "window_days": 1},
        {"name": "place_now", "keys": ["surface"], "source": "feed", "kinds": [], "lag": "none"},
        {"name": "user_now", "keys": ["user"], "source": "feed", "kinds": ["click"], "lag": "none", "window_days": 1},
        {"name": "old_now", "keys": ["user"], "source": "import", "kinds": ["like"], "lag": "none", "window_days": 30},
        {"name": "owner_now", "keys": ["owner"], "source": "feed", "kinds": ["like"], "lag": "none"},
        {"name": "user_day", "keys": ["user"], "source": "feed", "kinds": ["view"], "window_days": 1},
    ]
    return DataContract.model_validate(
        {
            "version": 1, "name": "random", "description": "random logs", "source": "tables",
            "partition": {"column": "day", "min_impressions": 1, "first_day": "2024-03-01"},
            "visibility": rule,
            "tables": {
                "impressions": {"path": "bronze/impressions", "key": "iid", "user": "uid", "ad": "aid",
                                "surface": "place", "event_ts": "at", "ingest_ts": "got"},
                "engagements": {"path": "bronze/engagements", "key": "eid", "user": "uid", "ad": "aid",
                                "surface": "place", "source": "stream", "actions": "acts", "value": "secs",
                                "event_ts": "at", "ingest_ts": "got"},
                "users": {"path": "bronze/users", "key": "uid", "valid_from": "since", "opt_out": "hidden"},
                "ads": {"path": "bronze/ads", "key": "aid", "valid_from": "since"},
            },
            "surfaces": ["s1", "s2"],
            "objectives": [{"name": "click", "column": "clicked"},
                           {"name": "buy", "column": "bought", "surfaces": ["s1"]}],
            "embedding_tables": [{"name": "t", "rows": 64}],
            "features": [
                {"name": "owner", "origin": "ads", "column": "owner_id", "kind": "categorical", "table": "t"},
                {"name": "tags", "origin": "ads", "column": "tags", "kind": "multi_hot", "table": "t",
                 "surfaces": ["s1"]},
                {"name": "age", "origin": "users", "column": "age", "kind": "dense"},
                {"name": "slot", "origin": "impressions", "column": "slot", "kind": "bucketed", "table": "t",
                 "boundaries": [1, 2]},
                {"name": "hour", "origin": "context", "column": "hour_of_day", "kind": "categorical", "table": "t"},
                {"name": "weekday", "origin": "context", "column": "day_of_week", "kind": "categorical", "table": "t"},
            ],
            "sequence": {"sources": ["feed", "import"], "kinds": list(KINDS), "ad_table": "t",
                         "attributes": [{"name": "owner", "column": "owner_id", "table": "t"}]},
            "counters": {"window_days": 3, "groups": groups},
        }
    )  # fmt: skip


def _start(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def random_logs(num_logs: int, seed: int) -> dict[str, list[Row]]:
    """Independent logs of few users and ads each, in one set of tables; the first part of an id names its log.

    Times are whole seconds within a few seconds around the opening of each day, so that ties, late events
    and events of a neighbouring day are the rule. About a tenth of the rows are faulty or repeated.
    """
    rng = random.Random(seed)
    tables: dict[str, list[Row]] = {"impressions": [], "engagements": [], "users": [], "ads": []}
    for log in range(num_logs):
        users, ads = [log * 10 + i for i in range(2)], [log * 10 + i for i in range(2)]
        for user in users[: rng.randint(1, 2)]:
            for since in (_start(FIRST), *(_start(day) for day in rng.sample(DATES, rng.randint(0, 2)))):
                tables["users"].append(
                    {"uid": user, "age": rng.choice([None, 1.5, 40.0]), "since": since + rng.randint(-5, 5) * SECOND,
                     "hidden": rng.choice([None, False, False, True])}
                )  # fmt: skip
        for ad in ads:
            for day in rng.sample(DATES, rng.randint(0, 2)):
                owner, tags = rng.choice([None, log, log + 1]), rng.choice([None, "a", "a, b", ""])
                since = _start(day) + rng.randint(-5, 5) * SECOND
                tables["ads"].append({"aid": ad, "owner_id": owner, "tags": tags, "since": since})
        for day in DATES:
            _add_facts(tables, rng, log, day, users, ads)
    return tables


def _add_facts(
    tables: dict[str, list[Row]], rng: random.Random, log: int, day: str, users: list[int], ads: list[int]
) -> None:
    for i in range(rng.randint(0, 3)):
        at = _start(day) + rng.randint(0, 6) * SECOND
        row = {"iid": f"{log}-{day}-{i}", "uid": rng.choice(users), "aid": rng.choice(ads), "at": at, "day": day,
               "got": at, "place": rng.choice(["s1", "s2", "s2", "s1", "s9"]), "clicked": rng.randint(0, 1),
               "bought": rng.choice([0, 0, 1, None]), "slot": rng.choice([None, 1.0, 2.0])}  # fmt: skip
        fault = rng.random()
        if fault < 0.04:
            row[rng.choice(["iid", "uid", "aid", "at"])] = None
        elif fault < 0.06:
            row["clicked"] = 7
        elif fault < 0.08:
            row["at"] = row["got"] = _start(day) + rng.choice([-86_401, 2 * 86_400]) * SECOND
        elif fault < 0.09:
            row["got"] = at - SECOND
        tables["impressions"].append(row)
        if rng.random() < 0.1:
            tables["impressions"].append({**row, "got": row["got"] + SECOND, "slot": 9.0})
    for i in range(rng.randint(0, 4)):
        at = _start(day) + rng.randint(-3, 90_000 if rng.random() < 0.3 else 8) * SECOND
        row = {"eid": f"{log}-{day}-{i}", "uid": rng.choice(users), "aid": rng.choice(ads), "at": at, "day": day,
               "got": at + rng.choice([0, 0, 0, 5, 6, 90_000, 180_000]) * SECOND, "place": rng.choice(["s1", "s2"]),
               "stream": rng.choice(["feed", "feed", "import"]), "secs": rng.choice([None, 0.5]),
               "acts": rng.sample(KINDS, rng.randint(0, 3))}  # fmt: skip
        if rng.random() < 0.1:
            column, value = rng.choice(
                [("eid", None), ("uid", None), ("aid", None), ("at", None), ("got", None), ("acts", None),
                 ("acts", ["view", "dance"]), ("place", "s9"), ("place", None), ("stream", "radio"),
                 ("got", at - SECOND), ("at", _start(day) + 172_801 * SECOND)]
            )  # fmt: skip
            row[column] = value
            row["got"] = value if column == "at" and value is not None else row["got"]
        tables["engagements"].append(row)
        if rng.random() < 0.1 and row["got"] is not None:
            tables["engagements"].append({**row, "got": row["got"] + SECOND, "acts": ["view"]})
        if rng.random() < 0.05:
            tables["engagements"].append(dict(row))
        if rng.random() < 0.1 and row["got"] is not None and day != DATES[-1]:  # delivered again with a later day
            later = DATES[DATES.index(day) + rng.choice([1, 1, 1, 2]) :][:1] or DATES[-1:]
            again = {**row, "got": row["got"] + rng.choice([-1, 0, 90_000]) * SECOND, "day": later[0]}
            tables["engagements"].append(again | rng.choice([{}, {"acts": ["click"]}, {"uid": users[0]}]))


def _first_by_arrival(rows: list[Row], key: str) -> list[Row]:
    kept: dict[tuple[str, str], Row] = {}
    for row in rows:
        name = (row["day"], row[key])
        if name not in kept or row["got"] < kept[name]["got"]:
            kept[name] = row
    return list(kept.values())


def _events_once(rows: list[Row], copies_within_days: int) -> list[Row]:
    """Rows whose user did not have the same id earlier in the partition, or in a partition shortly before."""
    same: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        same[row["uid"], row["eid"]].append(row)
    kept = []
    for copies in same.values():
        firsts = _first_by_arrival(copies, "eid")
        days = {date.fromisoformat(row["day"]) for row in copies}
        near = [timedelta(days=i) for i in range(1, copies_within_days + 1)]
        kept += [row for row in firsts if not any(date.fromisoformat(row["day"]) - one in days for one in near)]
    return kept


def _ad_as_of(tables: dict[str, list[Row]], ad: int, at: datetime) -> Row:
    versions = [row for row in tables["ads"] if row["aid"] == ad and row["since"] <= at]
    return max(versions, key=lambda row: row["since"], default={"owner_id": None, "tags": None})


def _by_ad(tables: dict[str, list[Row]]) -> dict[int, dict[str, list[Row]]]:
    grouped: dict[int, dict[str, list[Row]]] = defaultdict(lambda: {"ads": []})
    for row in tables["ads"]:
        grouped[row["aid"]]["ads"].append(row)
    return grouped


def _null(row: Row, names: dict[str, str]) -> str | None:
    return next((f"null {name}" for column, name in names.items() if row[column] is None), None)


def event_fault(row: Row) -> str | None:
    """Why an engagement is quarantined, whoever its user is; None: it is not."""
    names = {"eid": "event_id", "uid": "user_id", "aid": "ad_id", "at": "event_ts", "got": "ingest_ts", "acts": "kinds"}
    if null := _null(row, names):
        return null
    if row["place"] not in ("s1", "s2"):
        return "unknown surface"
    if row["stream"] not in ("feed", "import"):
        return "unknown source"
    if not set(row["acts"]) <= set(KINDS):
        return "unknown kind"
    if row["got"] < row["at"]:
        return "ingested before it happened"
    too_far = row["at"] > _start(row["day"]) + timedelta(days=2)
    return "happened more than a day after its day" if too_far else None


def impression_fault(row: Row) -> str | None:
    """Why an impression is quarantined; None: it is not."""
    names = {"iid": "impression_id", "uid": "user_id", "aid": "ad_id", "at": "impression_ts", "got": "ingest_ts"}
    if null := _null(row, names):
        return null
    if row["place"] not in ("s1", "s2"):
        return "unknown surface"
    for column, name in (("clicked", "click"), ("bought", "buy")):
        if row[column] not in (0, 1, None):
            return f"label {name} not 0 or 1"
    if row["got"] < row["at"]:
        return "ingested before it happened"
    near = timedelta(days=-1) <= row["at"] - _start(row["day"]) < timedelta(days=2)
    return None if near else "happened more than a day off its day"


def by_user(tables: dict[str, list[Row]]) -> dict[int, list[Row]]:
    """Versions of each user."""
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in tables["users"]:
        grouped[row["uid"]].append(row)
    return grouped


def user_as_of(users: dict[int, list[Row]], uid: int | None, at: datetime) -> Row:
    """The version of a user in force; unknown ones have no age and have not opted out."""
    versions = [] if uid is None else [row for row in users.get(uid, []) if row["since"] <= at]
    return max(versions, key=lambda row: row["since"], default={"age": None, "hidden": None})


def opted_out(users: dict[int, list[Row]], row: Row) -> bool:
    """Whether the user of a fact does not want to be seen; without a time of its own it is judged by its arrival."""
    at = row["at"] or row["got"] or datetime(9999, 1, 1, tzinfo=UTC)
    return user_as_of(users, row["uid"], at)["hidden"] is True


def _valid_events(tables: dict[str, list[Row]]) -> list[Row]:
    users = by_user(tables)
    return [row for row in tables["engagements"] if event_fault(row) is None and not opted_out(users, row)]


def left_out(
    tables: dict[str, list[Row]], table: str, *, copies_within_days: int = 1
) -> Counter[tuple[str, str]]:  # fmt: skip
    """(date, reason) -> rows of `engagements` or `impressions` that are not derived."""
    users = by_user(tables)
    if table == "engagements":
        reasons = [(row, "opted out" if opted_out(users, row) else event_fault(row)) for row in tables[table]]
        kept = _events_once(_valid_events(tables), copies_within_days)
    else:
        reasons = [(row, impression_fault(row)) for row in tables[table]]
        kept = _first_by_arrival([row for row, reason in reasons if reason is None], "iid")
    counts = Counter((row["day"], reason or "duplicate id") for row, reason in reasons)
    counts.subtract(Counter((row["day"], "duplicate id") for row in kept))
    return +counts


def events_of(tables: dict[str, list[Row]], *, copies_within_days: int = 1) -> list[Row]:
    """Rows of `user_events` under readable names, unordered."""
    ads = _by_ad(tables)
    return [
        {"date": row["day"], "id": row["eid"], "user": row["uid"], "ad": row["aid"], "at": row["at"], "got": row["got"],
         "surface": row["place"], "source": row["stream"], "kinds": frozenset(row["acts"]), "value": row["secs"],
         "owner": _ad_as_of(ads[row["aid"]], row["aid"], row["at"])["owner_id"]}
        for row in _events_once(_valid_events(tables), copies_within_days)
    ]  # fmt: skip


def sees(impression_at: datetime, event: Row, allowance_s: int) -> bool:
    """The contract's rule as it is written."""
    return event["at"] < impression_at and event["got"] <= impression_at + allowance_s * SECOND


def opens(tables: dict[str, list[Row]]) -> dict[str, datetime]:
    """First valid impression of each date."""
    found: dict[str, datetime] = {}
    for row in tables["impressions"]:
        if impression_fault(row) is None:
            found[row["day"]] = min(found.get(row["day"], row["at"]), row["at"])
    return found


def counted_on(event: Row, opened: dict[str, datetime], contract: DataContract) -> str | None:
    """The first date after the event's partition at whose opening it was visible, unless it came too late."""
    days = sorted(opened)
    for position, day in enumerate(days):
        if event["date"] >= day or not sees(opened[day], event, contract.visibility.allowance_s):
            continue
        if position == 0:
            return day
        oldest = date.fromisoformat(days[position - 1]) - timedelta(days=contract.visibility.max_delay_days)
        return day if date.fromisoformat(event["date"]) >= oldest else None
    return None


def _key(counter_keys: tuple[str, ...], row: Row) -> str | None:
    values = [row[key] for key in counter_keys]
    return None if None in values else "|".join(str(value) for value in values)


def increments_of(tables: dict[str, list[Row]], contract: DataContract) -> dict[tuple[str, str, str], list[int]]:
    """(date, series, key) -> events and then one number a kind."""
    opened = opens(tables)
    found: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0] * (1 + len(KINDS)))
    for event in events_of(tables):
        day = counted_on(event, opened, contract)
        for counter in contract.counters.series:
            key = _key(counter.keys, event)
            if day is None or key is None or event["source"] != counter.source:
                continue
            numbers = found[day, counter.name, key]
            numbers[0] += 1
            for position, kind in enumerate(KINDS):
                numbers[1 + position] += kind in event["kinds"] and kind in counter.kinds
    return dict(found)


def _waiting(tables: dict[str, list[Row]], contract: DataContract) -> dict[tuple[str, str, str], list[Row]]:
    """(date, counter, key) -> events of the partitions up to the date that no day so far has counted, nor ruled out."""
    opened = opens(tables)
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for event in events_of(tables):
        known = counted_on(event, opened, contract)
        for day in opened:
            age = date.fromisoformat(day) - date.fromisoformat(event["date"])
            if not timedelta(0) <= age <= timedelta(days=contract.visibility.max_delay_days):
                continue
            for counter in contract.counters.groups:
                key = _key(counter.keys, event)
                if (known is None or known > day) and key is not None and event["source"] == counter.source:
                    found[day, counter.name, key].append(event)
    return found


class _Counts:
    """What each counter says at an impression."""

    def __init__(self, tables: dict[str, list[Row]], contract: DataContract) -> None:
        self.contract, self.known = contract, {}
        self.days = sorted({row["day"] for row in tables["impressions"]})
        self.increments, self.waiting = increments_of(tables, contract), _waiting(tables, contract)

    def of(self, day: str, at: datetime, keys: Row) -> dict[str, list[int]]:
        """Counter -> events and then one number a kind."""
        return {c.name: self._one(c, _key(c.keys, keys), day, at) for c in self.contract.counters.groups}

    def _one(self, counter: CounterRule, key: str | None, day: str, at: datetime) -> list[int]:
        if key is None:
            return [0] * (1 + len(counter.kinds))
        if (place := (counter.name, key, day, at)) not in self.known:
            self.known[place] = self._counted(counter, key, day, at)
        return self.known[place]

    def _counted(self, counter: CounterRule, key: str, day: str, at: datetime) -> list[int]:
        counters, allowance_s = self.contract.counters, self.contract.visibility.allowance_s
        oldest = date.fromisoformat(day) - timedelta(days=counters.window_of(counter))
        window = [d for d in self.days if oldest < date.fromisoformat(d) <= date.fromisoformat(day)]
        stored = [self.increments.get((d, counters.stored_as(counter), key), [0] * 4) for d in window]
        seen = [e for e in self.waiting.get((day, counter.name, key), []) if sees(at, e, allowance_s)]
        since = seen if counter.lag == "none" else []
        places = [0, *(1 + KINDS.index(kind) for kind in counter.kinds)]
        lagged = [sum(numbers[place] for numbers in stored) for place in places]
        within = [len(since), *(sum(kind in e["kinds"] for e in since) for kind in counter.kinds)]
        return [one + other for one, other in zip(lagged, within, strict=True)]


def examples_of(tables: dict[str, list[Row]], contract: DataContract) -> list[Row]:
    """Rows of `examples`, with counters as nested numbers, unordered; the user of an opted-out one is None."""
    counts, ads = _Counts(tables, contract), _by_ad(tables)
    users, examples = by_user(tables), []
    for row in _first_by_arrival([row for row in tables["impressions"] if impression_fault(row) is None], "iid"):
        hidden = opted_out(users, row)
        user, age = (None, None) if hidden else (row["uid"], user_as_of(users, row["uid"], row["at"])["age"])
        ad = _ad_as_of(ads[row["aid"]], row["aid"], row["at"])
        keys = {"user": user, "ad": row["aid"], "surface": row["place"], "owner": ad["owner_id"]}
        tags = (
            None
            if ad["tags"] is None or row["place"] != "s1"
            else [part.strip() for part in ad["tags"].split(",") if part.strip()]
        )
        examples.append(
            {"date": row["day"], "id": row["iid"], "user": user, "ad": row["aid"], "surface": row["place"],
             "at": row["at"], "owner": ad["owner_id"], "tags": tags,
             "age": age, "slot": row["slot"], "hour": str(row["at"].hour),
             "weekday": str(row["at"].isoweekday() % 7 + 1), "click": row["clicked"],
             "buy": row["bought"] if row["place"] == "s1" else None,
             "counts": counts.of(row["day"], row["at"], keys)}
        )  # fmt: skip
    return examples
