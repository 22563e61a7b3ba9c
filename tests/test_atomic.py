"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gem_pipeline.atomic import write_json, write_text


def test_the_folder_is_made_and_the_last_document_stands(tmp_path):
    path = tmp_path / "a" / "b.json"
    write_json(path, {"y": 1, "x": [2]})
    write_json(path, {"x": 3})
    assert json.loads(path.read_text()) == {"x": 3}
    assert list(path.parent.iterdir()) == [path]


def test_the_same_content_is_the_same_file_whatever_the_order_of_keys(tmp_path):
    write_json(tmp_path / "one", {"x": 1, "y": 2})
    write_json(tmp_path / "two", {"y": 2, "x": 1})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_writer_that_dies_leaves_the_old_file(tmp_path, monkeypatch):
    write_text(tmp_path / "f", "old")

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"
