"""An impression is explained as the models saw it."""

from __future__ import annotations

import pytest

from gem_pipeline import cli
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import DataSourceError
from gem_pipeline.runs.explain import explain, text
from gem_pipeline.training.plan import GEM, LOGISTIC
from tests.lake_factory import CONTRACT_PATH, DAYS, contract


@pytest.fixture(scope="module")
def ids(chain):
    return chain.table("examples", DAYS[1])["impression_id"].tolist()[:40]


def test_the_history_is_the_one_that_the_reader_slices(chain, ids):
    parts = chain.read(DAYS[1], WindowSpec(max_events=10_000))
    length = {i: n for part in parts for i, n in zip(part.impression_ids.to_pylist(), part.window.lengths, strict=True)}
    found = {i: explain(contract(), chain.home, i, date=DAYS[1]).num_visible for i in ids}
    assert found == {i: length[i] for i in ids}
    assert any(found.values())


def test_events_are_the_newest_ones_newest_first_and_before_the_impression(chain, ids):
    longest = max((explain(contract(), chain.home, i, num_events=3) for i in ids), key=lambda one: one.num_visible)
    times = [event["event_ts"] for event in longest.events]
    assert 0 < len(times) <= 3
    assert times == sorted(times, reverse=True)
    assert all(event["seconds_before"] > 0 for event in longest.events)


def test_every_stored_score_is_told_with_the_model_that_gave_it(chain, ids):
    scores = explain(contract(), chain.home, ids[0]).scores
    assert {GEM, LOGISTIC} <= {score["model"] for score in scores}
    assert {score["trained_through"] for score in scores} == {DAYS[0]}
    teacher = chain.table("teacher_outputs", DAYS[1]).set_index("impression_id").loc[ids[0]]
    click = next(s for s in scores if s["model"] == GEM and s["objective"] == "click")
    assert click["prob"] == pytest.approx(teacher["prob__click"])
    assert click["model_id"] == chain.store.require(GEM, DAYS[0]).model_id


def test_versions_and_gates_of_its_partition_are_named(chain, ids):
    versions = explain(contract(), chain.home, ids[0]).versions
    assert all(version["content_hash"] for version in versions.values())


def test_an_unknown_impression_is_refused(chain):
    with pytest.raises(DataSourceError, match=f"no impression nowhere on {DAYS[0]}"):
        explain(contract(), chain.home, "nowhere", date=DAYS[0])


def test_the_text_names_every_part(chain, ids):
    lines = "\n".join(text(contract(), explain(contract(), chain.home, ids[0])))
    for part in ("Pointer:", "Labels:", "Features:", "Counters:", "History:", "Delta version", "Score gem"):
        assert part in lines


def test_the_command_line_explains_and_rebuilds(chain, ids, capsys):
    assert cli.main(["explain", ids[0], "--home", str(chain.home), "--contract", str(CONTRACT_PATH)]) == 0
    assert f"Impression {ids[0]} of {DAYS[1]}" in capsys.readouterr().out
    assert cli.main(["rows", GEM, DAYS[1], "--home", str(chain.home)]) == 0
    assert "identical" in capsys.readouterr().out
