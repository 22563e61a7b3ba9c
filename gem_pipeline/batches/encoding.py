"""Values of a table to embedding rows and dense inputs: hashing, smoothing, scaling. Numpy and Arrow only.

Row 0 of every embedding table is the missing value; a known value hashes into 1 ... rows - 1, so no id
is ever out of range (a sharded TorchRec table would map such an id to row 0 without a word).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
SMOOTHING_EVENTS = 10.0  # pseudo-events at the prior rate added to every counter
LOG_SCALE = 6.0  # log1p inputs are divided by this to be of order one


def _salt(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def hash_rows(value_N: Ids, *, salt: str, rows: int) -> Ids:
    """Map 64-bit values to embedding rows 1 ... rows - 1 (splitmix64 finaliser over value xor salt).

    Args:
        value_N: any int64 values, shape [N].
        salt: name of what the value is, so that features multiplexed into one table do not coincide.
        rows: rows of the table, at least 2.
    """
    x = value_N.astype(np.int64).view(np.uint64) ^ _salt(salt)
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (np.uint64(1) + x % np.uint64(rows - 1)).astype(np.int64)


def string_values(column: pa.Array | pa.ChunkedArray) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Stable 64-bit values of strings and a mask of the present ones; each distinct string is hashed once."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = pc.dictionary_encode(array)
    words = [
        int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little", signed=True)
        for word in encoded.dictionary.to_pylist()
    ]
    index = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.array([*words, 0], dtype=np.int64)[index], index < len(words)


def long_values(column: pa.Array | pa.ChunkedArray) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Integer values and a mask of the present ones."""
    present = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64), present


def id_rows(column: pa.ChunkedArray, *, salt: str, rows: int) -> Ids:
    """Embedding rows of a string or integer column; null becomes row 0."""
    values, present = string_values(column) if pa.types.is_string(column.type) else long_values(column)
    return np.where(present, hash_rows(values, salt=salt, rows=rows), 0)


def bucket_rows(column: pa.ChunkedArray, boundaries: tuple[float, ...], *, salt: str, rows: int) -> Ids:
    """Cut numbers at boundaries (left-closed), then hash the bucket; null becomes row 0."""
    number = column.to_numpy().astype(np.float64)
    bucket = np.searchsorted(np.asarray(boundaries), np.nan_to_num(number), side="right")
    return np.where(np.isnan(number), 0, hash_rows(bucket.astype(np.int64), salt=salt, rows=rows))


def multi_hot_rows(column: pa.ChunkedArray, *, salt: str, rows: int) -> tuple[Ids, Ids]:
    """Embedding rows of lists of strings and the length of each row; an empty or null list holds row 0 once."""
    lists = pc.fill_null(column.combine_chunks(), [])
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    count_N = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = id_rows(pa.chunked_array([lists.flatten()]), salt=salt, rows=rows)
    length_N = np.maximum(count_N, 1)
    values = np.zeros(int(length_N.sum()), dtype=np.int64)
    first_N = np.cumsum(length_N) - length_N
    slot = np.repeat(first_N - (np.cumsum(count_N) - count_N), count_N) + np.arange(len(flat))
    values[slot] = flat
    return values, length_N


def number_inputs(column: pa.ChunkedArray, transform: str) -> Floats:
    """Numbers as dense inputs; null becomes 0. `log1p` compresses and scales to order one."""
    number = np.nan_to_num(column.to_numpy().astype(np.float64))
    return (np.log1p(np.maximum(number, 0)) / LOG_SCALE if transform == "log1p" else number).astype(np.float32)


def count_inputs(events_N: Ids) -> Floats:
    """Event counts as dense inputs."""
    return (np.log1p(events_N) / LOG_SCALE).astype(np.float32)


def rate_inputs(hits_N: Ids, events_N: Ids, prior_N: npt.NDArray[np.float64] | None) -> Floats:
    """Smoothed rates as log odds relative to the prior's; no event gives exactly 0.

    Args:
        hits_N: events that carry the kind, shape [N].
        events_N: all events of the key, shape [N].
        prior_N: rate over everything, in (0, 1), shape [N]; None for the counter that is the prior.

    Returns:
        float32 [N]: logit((hits + s prior) / (events + s)) - logit(prior), s = 10 pseudo-events. Ours.
    """
    base = np.full(len(hits_N), 0.5) if prior_N is None else prior_N
    rate = (hits_N + SMOOTHING_EVENTS * base) / (events_N + SMOOTHING_EVENTS)
    return (np.log(rate / (1 - rate)) - np.log(base / (1 - base))).astype(np.float32)


def prior_rates(hits_N: Ids, events_N: Ids) -> npt.NDArray[np.float64]:
    """Rates over everything, kept inside (0, 1) by half a pseudo-event on either side."""
    return (hits_N + 0.5) / (events_N + 1.0)
