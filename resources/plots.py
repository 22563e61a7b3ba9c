"""Pictures in Dagster's metadata: a base64 PNG inside markdown."""

import base64
import io
from collections.abc import Mapping

import dagster as dg


def picture(png: bytes) -> dg.MarkdownMetadataValue:
    """Show a PNG in the UI."""
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(png).decode()})")


def bars(values: Mapping[str, float], *, title: str, unit: str, line: float | None = None) -> dg.MarkdownMetadataValue:
    """Horizontal bars, first value on top.

    Args:
        values: length of each bar by its label.
        title: what is shown.
        unit: of the values.
        line: a reference to mark, for example 1.0 for the normalized entropy of the base rate.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 0.6 + 0.28 * max(len(values), 1)), layout="constrained")
    axes = figure.subplots()
    labels = list(values)[::-1]
    axes.barh(labels, [values[label] for label in labels], color="#4c72b0")
    if line is not None:
        axes.axvline(line, color="#c44e52", linewidth=1)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(unit, fontsize=8)
    axes.tick_params(labelsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return picture(buffer.getvalue())
