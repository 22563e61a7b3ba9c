"""Bits and unknown names of arrays of kinds, short or long, are those of the plain rule."""

from __future__ import annotations

from itertools import product

import pytest

from spark.kinds import has_unknown_kind, kind_bits

pytestmark = pytest.mark.spark
KINDS = ("view", "click", "like")


def test_every_array_of_up_to_four_names_is_judged_as_by_the_plain_rule(spark):
    arrays = [list(found) for length in range(5) for found in product([*KINDS, "dance", None], repeat=length)]
    frame = spark.createDataFrame(list(enumerate([*arrays, None])), "i int, kinds array<string>")
    columns = kind_bits("kinds", KINDS).alias("bits"), has_unknown_kind("kinds", KINDS).alias("unknown")
    rows = {row["i"]: (row["bits"], row["unknown"]) for row in frame.select("i", *columns).collect()}
    for number, kinds in enumerate(arrays):
        bits = sum(1 << i for i, kind in enumerate(KINDS) if kind in kinds)
        assert rows[number] == (bits, not set(kinds) <= set(KINDS)), kinds
    assert not rows[len(arrays)][0]
