"""The kinds of an event: bits of a number instead of an array of names.

Arrays of one to three kinds are by far the most frequent; they are judged name by name, since a loop over the array
for every kind of the contract costs most of the derivation. Longer ones take that loop. Ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_SHORT = 3  # elements that are judged one by one


def _or(columns: Sequence[Column]) -> Column:
    return reduce(lambda one, other: one.bitwiseOR(other), columns)


def kind_bits(column: str, kinds: Sequence[str]) -> Column:
    """An int with bit i set where the array holds the i-th kind; 0 for a null array."""
    slow = _or([F.when(F.array_contains(column, k), F.lit(1 << i)).otherwise(F.lit(0)) for i, k in enumerate(kinds)])
    return F.when(F.size(column) > _SHORT, slow).otherwise(_or([_bit(column, i, kinds) for i in range(_SHORT)]))


def _bit(column: str, position: int, kinds: Sequence[str]) -> Column:
    element = F.get(column, F.lit(position))
    by_kind = reduce(
        lambda found, pair: found.when(element == pair[1], F.lit(1 << pair[0])),
        list(enumerate(kinds))[1:],
        F.when(element == kinds[0], F.lit(1)),
    ).otherwise(F.lit(0))
    return F.when(F.size(column) > position, by_kind).otherwise(F.lit(0))


def has_unknown_kind(column: str, kinds: Sequence[str]) -> Column:
    """Whether the array holds a name that is none of `kinds`, or a null; null for a null array."""
    known = [F.coalesce(F.get(column, F.lit(i)).isin(*kinds), F.lit(False)) for i in range(_SHORT)]
    unknown = reduce(lambda one, other: one | other, [(F.size(column) > i) & ~known[i] for i in range(_SHORT)])
    slow = F.size(F.array_except(column, F.array(*(F.lit(kind) for kind in kinds)))) > 0
    return F.when(F.size(column) > _SHORT, slow).otherwise(unknown)
