"""The page of benchmarks: newest figures only, and what was not measured says why."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks import __main__ as subject
from benchmarks import compskip, kernels, sharing, worlds
from benchmarks.peers.conditioning import lagged_rate
from benchmarks.peers.gains import Points, gains
from benchmarks.peers.page import Standing
from benchmarks.peers.search import SPACES, drawn
from benchmarks.trials.frozen import freeze
from benchmarks.trials.homes import Log
from gem_pipeline.contracts import tables
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.metrics.comparison import relative_ne_difference
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.pooling import ScoredRows
from gem_pipeline.metrics.ranking import auc, gauc
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.runs.world_floors import Floor
from tests.lake_factory import DAYS, NUM_USERS, contract, make_lake

LINE = {
    "bench": "storage", "figure": "bytes_per_event", "value": 31.25, "unit": "bytes", "baseline": None, "low": 30.0,
    "high": 32.5, "runs": 3, "seed": 0, "size": "tiny", "config_hash": "x", "commit": "0123456789abc", "cpu": "2 cores",
}  # fmt: skip


def test_newest_line_of_a_figure_and_size_wins():
    lines = [LINE, {**LINE, "size": "small"}, {**LINE, "value": 20.0}]
    rows = subject.newest_lines("\n".join(map(json.dumps, lines)) + "\n\n")
    assert [(row["size"], row["value"]) for row in rows] == [("small", 31.25), ("tiny", 20.0)]


def test_page_shows_value_interval_and_commit():
    text = subject.page([LINE, {**LINE, "bench": "reading"}])
    assert "| bytes_per_event | tiny | 31.25 | 30 to 32.5 | bytes |  | 3 | 012345678 | 2 cores |" in text
    assert text.index("## storage\n\nBytes that training needs on disk") < text.index("## reading\n\nWhat it costs")


def test_figure_that_could_not_be_measured_says_why():
    text = subject.page([{**LINE, "value": None, "low": None, "high": None, "why": "no GPU here"}])
    assert "not measured: no GPU here" in text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, place in (
        ("ROOT", "benchmarks"),
        ("RESULTS", "benchmarks/results.jsonl"),
        ("PAGE", "docs/benchmarks.md"),
    ):
        monkeypatch.setattr(subject, name, tmp_path / place)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    return tmp_path / "benchmarks"


def test_no_benchmark_is_said_and_writes_nothing(folder, capsys):
    assert subject.main([]) == 0
    assert "no benchmark" in capsys.readouterr().out
    assert not subject.PAGE.exists()


def test_failed_benchmark_does_not_stop_the_others(folder, capsys):
    (folder / "a.py").write_text("raise SystemExit(1)")
    (folder / "b.py").write_text(f"import sys; open(sys.argv[2], 'a').write({json.dumps(json.dumps(LINE))} + '\\n')")
    assert subject.main(["--quick"]) == 1
    assert "Failed: a." in capsys.readouterr().err
    assert "bytes_per_event" in subject.PAGE.read_text()


def test_floors_of_several_seeds_become_a_mean_with_an_interval_or_a_state():
    feed = Floor(
        surface="feed", objective="click", everything=0.8, logged_low=0.85, logged_high=MetricState.TOO_FEW, rows=9
    )
    rows = list(worlds.lines(WORLDS["drift"], [[feed], [replace(feed, everything=0.82)]]))
    by_figure = {row["figure"]: row for row in rows}
    everything = by_figure["floor_everything_feed_click"]
    assert everything["size"] == "drift"
    assert everything["value"] == pytest.approx(0.81)
    assert everything["low"] < 0.8
    assert everything["high"] > 0.82
    assert by_figure["floor_logged_low_feed_click"]["high"] == pytest.approx(0.85)
    assert by_figure["floor_logged_high_feed_click"]["value"] is None
    assert "too_few" in by_figure["floor_logged_high_feed_click"]["why"]


def test_skipping_saves_at_least_the_published_share_of_flops():
    skipping, whole = compskip.both("base")
    assert 1.0 - compskip.flops(skipping) / compskip.flops(whole) >= 0.43


def test_an_exponent_is_the_slope_of_logarithms_and_a_ratio_has_its_quartiles():
    assert kernels.exponent([256, 512, 1024], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert kernels.ratio([2.0, 4.0, 6.0], [1.0, 1.0, 1.0]) == {"value": 4.0, "low": 3.0, "high": 5.0}


def scored_by(prob_by_run, label, user):
    label_NK = np.asarray(label, dtype=np.float64)[:, None]
    return ScoredRows(
        surface_N=np.zeros(len(label_NK), dtype=np.int64), user_N=np.asarray(user), label_NK=label_NK,
        mask_NK=np.ones(label_NK.shape, dtype=np.bool_),
        prob_by_model={run: np.asarray(prob)[:, None] for run, prob in prob_by_run.items()},
    )  # fmt: skip


def test_a_gain_is_that_of_the_products_metrics_and_nothing_over_itself():
    rng = np.random.default_rng(0)
    label, user = rng.integers(0, 2, 400), rng.integers(0, 60, 400)
    better, worse = (np.clip(0.5 + s * (label - 0.5) + rng.normal(0, 0.2, 400), 0.05, 0.95) for s in (0.4, 0.1))
    rows = scored_by({"a@0": better, "b@0": worse}, label, user)
    everyone = np.ones(400, dtype=np.bool_)
    config = BootstrapConfig(resamples=200, auc_resamples=100)
    found = gains(rows, ["a@0"], ["b@0"], [0], everyone, config=config)
    assert found["auc"].value == pytest.approx(auc(label, better) - auc(label, worse))
    assert found["gauc"].value == pytest.approx(gauc(label, better, user) - gauc(label, worse, user))
    of_losses = relative_ne_difference(label, better, worse, user, config=config)
    assert found["ne"].value == pytest.approx(-of_losses.relative.value)
    assert all(one.low > 0 for one in found.values())
    itself = gains(rows, ["a@0"], ["a@0"], [0], everyone, config=config)
    assert all(one.low == one.value == one.high == 0 for one in itself.values())


def test_the_best_peer_has_the_lowest_ne_or_the_highest_of_the_others():
    table = {("all", "click", "a"): Points(ne=0.8, auc=0.7, gauc=0.6, calibration=1.0),
             ("all", "click", "b"): Points(ne=0.9, auc=0.8, gauc=0.5, calibration=1.0)}  # fmt: skip
    standing = Standing(
        rows=scored_by({}, [0, 1], [0, 0]), table=table, surfaces=("all",), objectives=("click",), columns=("click",)
    )
    assert [standing.best("all", ("click",), metric, ("a", "b")) for metric in ("ne", "auc", "gauc")] == ["a", "b", "a"]


def test_every_peer_is_searched_from_its_default_and_draws_are_the_same_again():
    for peer, space in SPACES.items():
        settings = drawn(peer, 5)
        assert settings == drawn(peer, 5)
        assert settings[0] == tuple((name, values[0]) for name, values in space.items())
        assert all(dict(one)[name] in values for one in settings for name, values in space.items())


def test_a_lagged_rate_counts_earlier_days_only_and_is_smoothed():
    user, day, label = np.array([7, 7, 7, 9]), np.array([3, 3, 4, 4]), np.array([1.0, 0.0, 1.0, 0.0])
    assert lagged_rate(user, day, label).tolist() == pytest.approx([0.5, 0.5, (1 + 5) / 12, 0.5])


def test_a_frozen_log_shows_nothing_newer_and_leaves_learnt_days_alone(tmp_path):
    own = contract()
    make_lake(tmp_path)
    increments = [
        {"date": day, "counter": "user", "key": str(user), "events": 2, **{f"kind__{k}": 1 for k in own.sequence.kinds}}
        for day in DAYS for user in range(NUM_USERS)
    ]  # fmt: skip
    schema = tables.counter_increments(own)
    write_deltalake(tmp_path / "lake" / schema.name, pa.Table.from_pylist(increments, schema=schema.arrow()))
    freeze(own, tmp_path / "lake", tmp_path / "frozen", DAYS[0])
    before, after = (
        DeltaTable(str(tmp_path / folder / "examples")).to_pyarrow_table().sort_by("impression_id")
        for folder in ("lake", "frozen")
    )
    taken = pc.subtract(before["count__user"], after["count__user"])
    assert set(zip(before["date"].to_pylist(), taken.to_pylist(), strict=True)) == {
        (DAYS[0], 0), (DAYS[1], 0), (DAYS[2], 2),
    }  # fmt: skip
    other = [name for name in before.column_names if not name.startswith("count__user")]
    assert before.select(other).equals(after.select(other))
    opens = pc.min(before.filter(pc.field("date") == DAYS[1])["impression_ts"]).as_py()
    events = DeltaTable(str(tmp_path / "frozen" / "user_events")).to_pyarrow_table()
    assert pc.max(events["event_ts"]).as_py() < opens
    assert Log.parse("kuairand@2022-05-04") == Log(frozen="2022-05-04")


def test_speedups_of_sharing_are_ratios_of_steps_whose_scores_were_found_equal():
    cases = [sharing.Case(size="tiny", window=16, impressions=4, together=together) for together in (True, False)]
    rows = list(sharing.lines(cases, 2))
    assert [row["size"].split(", ")[3] for row in rows] == ["one request", "different times"]
    assert all(row["bench"] == "training" and row["figure"] == "sharing_speedup" for row in rows)
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


def test_cases_of_sharing_span_sizes_windows_and_impressions():
    assert len(list(sharing.cases(quick=True))) == 4
    assert {(c.size, c.window, c.impressions) for c in sharing.cases(quick=False)} >= {
        ("base", 1024, 8),
        ("small", 256, 2),
    }
