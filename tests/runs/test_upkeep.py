"""Upkeep removes what nobody needs, and nothing that a stored model or the retention needs."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from gem_pipeline.errors import ConfigError
from gem_pipeline.runs.upkeep import UpkeepPolicy, keep_up, pinned_versions

NOW = UpkeepPolicy(retention_days=1)


def rows(value, date="2026-01-01"):
    return pa.table({"date": [date] * 3, "value": [value] * 3})


@pytest.fixture
def home(tmp_path):
    """Five versions of a gated table, six small files of an ungated one."""
    path = str(tmp_path / "lake" / "examples")
    for value in range(5):
        write_deltalake(path, rows(value), mode="overwrite", partition_by=["date"])
    for value in range(6):
        write_deltalake(str(tmp_path / "lake" / "predictions"), rows(value), mode="append", partition_by=["date"])
    return tmp_path


def store_model(home, name, **inputs):
    folder = home / "models" / "gem" / "2026-01-01" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"kind": "foundation", "inputs": inputs}))


def of(home, table, version=None):
    return DeltaTable(str(home / "lake" / table), version=version).to_pyarrow_table()["value"].to_pylist()


def age(home, days=40):
    """Let every commit be so many days older."""
    for log in (home / "lake").rglob("_delta_log/*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for action in lines:
            for name in ("deletionTimestamp", "timestamp", "modificationTime"):
                for body in action.values():
                    if name in body:
                        body[name] -= days * 86_400_000
        log.write_text("\n".join(json.dumps(line) for line in lines))


def test_versions_are_pinned_by_the_models_that_name_them(home):
    store_model(home, "a", examples=1, user_events=4)
    store_model(home, "b", examples=3)
    assert pinned_versions(home) == {"examples": (1, 3), "user_events": (4,)}


def test_young_files_stay(home):
    report = {one.table: one for one in keep_up(home, UpkeepPolicy(retention_days=30))}
    assert report["examples"].removed_files == 0
    assert of(home, "examples", version=0) == [0, 0, 0]


def test_old_files_go_but_those_of_versions_that_a_model_names(home):
    store_model(home, "a", examples=1)
    store_model(home, "b", examples=3)
    age(home)
    report = {one.table: one for one in keep_up(home, UpkeepPolicy(retention_days=30))}
    assert (report["examples"].removed_files, report["examples"].pinned) == (2, (1, 3))
    assert [of(home, "examples", version) for version in (1, 3, 4)] == [[1] * 3, [3] * 3, [4] * 3]
    for gone in (0, 2):
        with pytest.raises(Exception, match=r"not found|No such file"):
            of(home, "examples", gone)


def test_many_small_files_are_compacted_without_a_change_of_content(home):
    report = {one.table: one for one in keep_up(home, NOW)}
    assert (report["predictions"].compacted_files, report["predictions"].num_files) == (6, 1)
    assert sorted(of(home, "predictions")) == sorted(v for v in range(6) for _ in range(3))
    again = {one.table: one for one in keep_up(home, NOW)}
    assert again["predictions"].compacted_files == 0


def test_a_dry_run_changes_nothing(home):
    before = {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*")}
    keep_up(home, UpkeepPolicy(retention_days=1, dry_run=True))
    assert {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*")} == before


def test_only_the_named_tables_are_touched(home):
    assert [one.table for one in keep_up(home, NOW, only=("examples",))] == ["examples"]


def test_an_impossible_policy_is_refused():
    with pytest.raises(ConfigError, match="retention_days"):
        UpkeepPolicy(retention_days=0)
