"""Inputs taken away from encoded days, or given to them, so that what they are worth can be measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.layout import LOG_GAP, IdFeature, TableSpec
from gem_pipeline.batches.vectors import no_vectors
from gem_pipeline.errors import ConfigError


def without(part: EncodedDay, names: tuple[str, ...]) -> EncodedDay:
    """The part with some inputs missing everywhere: ids of no known value, numbers 0, vectors absent.

    Raises:
        ConfigError: the layout has no such input.
    """
    layout = part.layout
    tokens = {f.name for f in layout.tokens} & set(names)
    vectors = {f.name: f.dim for f in layout.vectors if f.name in names}
    dense_F = np.isin(layout.dense, names)
    events = [name for name in layout.event_dense if name != LOG_GAP]
    event_F = np.isin(events, names)
    known = {*tokens, *vectors, *np.array(layout.dense)[dense_F], *np.array(events)[event_F]}
    if strangers := sorted(set(names) - known):
        raise ConfigError(f"The layout has no inputs {strangers}.", remedy="Name inputs of the contract.")
    zeros, ones = np.zeros(part.size, dtype=np.int64), np.ones(part.size, dtype=np.int64)
    return replace(
        part,
        token_ids=part.token_ids | dict.fromkeys(tokens, (zeros, ones)),
        dense_NF=np.where(dense_F, np.float32(0), part.dense_NF),
        event_dense_EF=np.where(event_F, np.float32(0), part.event_dense_EF),
        vectors=part.vectors | {name: no_vectors(part.size, dim) for name, dim in vectors.items()},
        event_vectors=part.event_vectors
        | {n: no_vectors(len(part.event_dense_EF), d) for n, d in vectors.items() if n in part.event_vectors},
    )


def with_user_id(part: EncodedDay, rows: int) -> EncodedDay:
    """The part with a token for the user's id, hashed into a table of its own; 0 rows: as it is."""
    if not rows:
        return part
    layout = replace(
        part.layout,
        tables=(*part.layout.tables, TableSpec(name="user", rows=rows)),
        tokens=(*part.layout.tokens, IdFeature(name="user", table="user", origin="users")),
    )
    ids = part.user_N % (rows - 1) + 1, np.ones(part.size, dtype=np.int64)
    return replace(part, layout=layout, token_ids=part.token_ids | {"user": ids})
