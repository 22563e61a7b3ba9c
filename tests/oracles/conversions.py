"""Random logs of impressions and conversions, and a naive twin of their attribution: one row after the other."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from gem_pipeline.contracts.contract import DataContract
from tests.oracles.event_log import SECOND, Row, _ad_as_of, _by_ad, _start, by_user, log_contract, opted_out

DAYS = ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02", "2024-03-03")
TIME = pa.timestamp("us", tz="UTC")
CONVERSIONS = {"cid": pa.string(), "uid": pa.int64(), "aid": pa.int64(), "what": pa.string(), "paid": pa.float64(),
               "at": TIME, "got": TIME, "day": pa.string()}  # fmt: skip
TOUCHES = {"date": pa.string(), "bucket": pa.int32(), "impression_id": pa.string(), "user_id": pa.int64(),
           "ad_id": pa.int64(), "impression_ts": TIME, "label__click": pa.int8()}  # fmt: skip
ADS = {"aid": pa.int64(), "owner_id": pa.int64(), "since": TIME}


def conversion_document(match: str = "ad", **visibility: int) -> dict[str, Any]:
    """The contract of random logs with three delayed objectives, two of one type, as a document."""
    document = log_contract(**visibility).model_dump(mode="json")
    document["tables"]["conversions"] = {
        "path": "bronze/conversions", "key": "cid", "user": "uid", "ad": "aid", "type": "what", "value": "paid",
        "event_ts": "at", "ingest_ts": "got",
    }  # fmt: skip
    document["attribution"] = {"click_objective": "click", "match": match}
    document["objectives"] += [
        {"name": "order", "conversion": "purchase", "click_window_days": 2, "view_window_days": 1},
        {"name": "fast_order", "conversion": "purchase", "click_window_days": 1, "surfaces": ["s1"]},
        {"name": "lead", "conversion": "lead", "click_window_days": 1, "view_window_days": 2},
    ]
    return document


def conversion_contract(match: str = "ad", **visibility: int) -> DataContract:
    """`conversion_document`, validated."""
    return DataContract.model_validate(conversion_document(match, **visibility))


def random_touches(num_logs: int, seed: int) -> dict[str, list[Row]]:
    """Independent logs of two users and two ads; times lie within seconds of the ends of the windows."""
    rng = random.Random(seed)
    tables: dict[str, list[Row]] = {"touches": [], "conversions": [], "ads": [], "users": []}
    for log in range(num_logs):
        users = ads = [log * 10, log * 10 + 1]
        for ad in ads:
            for day in rng.sample(DAYS, rng.randint(0, 2)) if ad % 2 else DAYS[:1]:
                tables["ads"].append({"aid": ad, "owner_id": rng.choice([None, log, log + 1]), "since": _start(day)})
        for i in range(rng.randint(1, 7)):
            day = rng.choice(DAYS)
            tables["touches"].append(
                {"date": day, "bucket": 0, "impression_id": f"{log}-{i}", "user_id": rng.choice(users),
                 "ad_id": rng.choice(ads), "impression_ts": _start(day) + rng.randint(0, 2) * SECOND,
                 "label__click": rng.choice([None, 0, 1, 1])}
            )  # fmt: skip
        if rng.random() < 0.2:
            since = _start(rng.choice(DAYS)) + SECOND
            tables["users"].append({"uid": users[0], "age": 1.0, "since": since, "hidden": True})
        for i in range(rng.randint(0, 4)):
            _add_conversion(tables["conversions"], rng, f"{log}-{i}", users, ads)
    return tables


def _add_conversion(rows: list[Row], rng: random.Random, key: str, users: list[int], ads: list[int]) -> None:
    at = _start(rng.choice(DAYS)) + rng.randint(0, 4) * SECOND
    got = at + rng.choice([0, 0, 3_600, 86_400]) * SECOND
    row = {"cid": key, "uid": rng.choice(users), "aid": rng.choice(ads), "what": rng.choice(["purchase", "lead"]),
           "paid": rng.choice([None, 2.5]), "at": at, "got": got, "day": str(got.date())}  # fmt: skip
    if rng.random() < 0.15:
        wrong = [("cid", None), ("uid", None), ("aid", None), ("at", None), ("got", None), ("what", "gift"),
                 ("what", None), ("got", at - SECOND), ("got", at + 86_401 * SECOND)]  # fmt: skip
        name, value = rng.choice(wrong)
        row[name] = value
    rows.append(row)
    if rng.random() < 0.2:
        later = rng.choice([0, 1, 3, 4, 9])  # days; the reach of the contract is 3
        again = got + later * 86_400 * SECOND + SECOND
        moved = at if later < 2 else again
        rows.append({**row, "at": moved, "got": again, "day": str(again.date()), "paid": 9.0})


def conversion_fault(row: Row, contract: DataContract, users: dict[int, list[Row]]) -> str | None:
    """Why a conversion is quarantined before it is compared with others, if it is; `users`: `by_user`."""
    if opted_out(users, row):
        return "opted out"
    names = {"cid": "conversion_key", "uid": "user_id", "aid": "ad_id", "at": "conversion_ts", "got": "ingest_ts"}
    for column, name in names.items():
        if row[column] is None:
            return f"null {name}"
    if row["what"] not in ("purchase", "lead"):
        return "unknown type"
    if row["got"] < row["at"]:
        return "ingested before it happened"
    late = row["got"] - row["at"] > timedelta(days=contract.conversion_delay_days)
    return "arrived too late" if late else None


def valid_once(tables: dict[str, list[Row]], contract: DataContract) -> list[Row]:
    """Conversions without a fault, but for those whose key had arrived a short while before."""
    last: dict[str, date] = {}
    kept = []
    users = by_user(tables)
    for row in sorted(
        (row for row in tables["conversions"] if conversion_fault(row, contract, users) is None),
        key=lambda row: (row["day"], row["got"]),
    ):
        day = date.fromisoformat(row["day"])
        before, last[row["cid"]] = last.get(row["cid"]), day
        if before is None or (day - before).days > contract.conversion_reach_days:
            kept.append(row)
    return kept


def _match(ads: dict[int, dict[str, list[Row]]], contract: DataContract, ad: int, at: datetime) -> int | None:
    assert contract.attribution is not None
    return ad if contract.attribution.match == "ad" else _ad_as_of(ads[ad], ad, at)["owner_id"]


def attributed(tables: dict[str, list[Row]], contract: DataContract) -> list[tuple[Any, ...]]:
    """(impression date, impression, objective, conversion, arrived, value, how) of every credit."""
    by_user, ads, found = defaultdict(list), _by_ad(tables), []
    for touch in tables["touches"]:
        by_user[touch["user_id"]].append(touch)
    for row in valid_once(tables, contract):
        wanted = _match(ads, contract, row["aid"], row["at"])
        same = [
            touch for touch in by_user[row["uid"]]
            if touch["impression_ts"] < row["at"]
            and 0 <= (date.fromisoformat(row["day"]) - date.fromisoformat(touch["date"])).days
            <= contract.conversion_reach_days
            and wanted is not None and _match(ads, contract, touch["ad_id"], touch["impression_ts"]) == wanted
        ]  # fmt: skip
        same.sort(key=lambda touch: (touch["impression_ts"], touch["impression_id"]))
        for o in contract.conversion_objectives:
            if o.conversion != row["what"]:
                continue
            age = [row["at"] - touch["impression_ts"] for touch in same]
            clicks = [t for t, a in zip(same, age, strict=True)
                      if t["label__click"] == 1 and a <= timedelta(days=o.click_window_days or 0)]  # fmt: skip
            views = [t for t, a in zip(same, age, strict=True) if a <= timedelta(days=o.view_window_days)]
            if clicks or views:
                touch, how = (clicks[-1], "click") if clicks else (views[-1], "view")
                where = touch["date"], touch["impression_id"]
                found.append((*where, o.name, row["cid"], row["day"], row["paid"], how))
    return found
