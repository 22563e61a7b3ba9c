"""The page of benchmarks: newest figures only, and what was not measured says why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import __main__ as subject
from benchmarks import compskip, kernels, worlds
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.runs.world_floors import Floor

LINE = {
    "bench": "storage", "figure": "bytes_per_event", "value": 31.25, "unit": "bytes", "baseline": None, "low": 30.0,
    "high": 32.5, "runs": 3, "seed": 0, "size": "tiny", "config_hash": "x", "commit": "0123456789abc", "cpu": "2 cores",
}  # fmt: skip


def test_newest_line_of_a_figure_and_size_wins():
    lines = [LINE, {**LINE, "size": "small"}, {**LINE, "value": 20.0}]
    rows = subject.newest_lines("\n".join(map(json.dumps, lines)) + "\n\n")
    assert [(row["size"], row["value"]) for row in rows] == [("small", 31.25), ("tiny", 20.0)]


def test_page_shows_value_interval_and_commit():
    assert (
        "| storage | bytes_per_event | tiny | 31.25 | 30 to 32.5 | bytes |  | 3 | 012345678 | 2 cores |"
        in subject.page([LINE])
    )


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
