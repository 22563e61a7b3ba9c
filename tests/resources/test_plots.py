"""Pictures for the UI."""

from __future__ import annotations

import base64

from resources.plots import bars


def test_bars_are_a_png_inside_markdown():
    shown = bars({"a": 0.9, "b": 1.1}, title="t", unit="NE", line=1.0).value
    encoded = shown.removeprefix("![picture](data:image/png;base64,").removesuffix(")")
    assert base64.b64decode(encoded).startswith(b"\x89PNG")


def test_no_values_are_an_empty_picture_and_no_error():
    assert "base64" in bars({}, title="t", unit="").value
