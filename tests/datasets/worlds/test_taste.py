"""An entangled taste: what the sum of waves says, and nothing else of it, is in the table."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds import taste as subject

USER, AD = (6, 8, 3), (24, 4, 4, 3)


def place(seed, side, sizes, codes):
    points = [
        draws.normal(draws.key(seed, 44, place, np.arange(size)[:, None], np.arange(subject.DIM)), side)[code]
        for place, (size, code) in enumerate(zip(sizes, codes, strict=True))
    ]
    return sum(points) / np.sqrt(len(points))


def naive(seed, user, ad):
    """The sum of waves at one kind of user and ad, wave by wave."""
    who, what = place(seed, "who", USER, user), place(seed, "what", AD, ad)
    total = 0.0
    for wave in range(subject.WAVES):
        keys = draws.key(seed, 45, np.arange(subject.DIM), wave)
        along = subject.FREQUENCY * (who @ draws.normal(keys, "who") + what @ draws.normal(keys, "what"))
        own = draws.key(seed, 46, np.array([wave]))
        total += draws.normal(own, "height")[0] * np.cos(along + 2 * np.pi * draws.uniform(own, "phase")[0])
    return np.sqrt(2 / subject.WAVES) * total


@pytest.mark.parametrize("seed", [0, 7])
def test_the_table_is_the_sum_of_waves(seed):
    table, rng = subject.entangled(seed, USER, AD), np.random.default_rng(seed)
    assert table.shape == USER + AD
    for _ in range(10):
        user, ad = (tuple(int(rng.integers(size)) for size in sizes) for sizes in (USER, AD))
        assert table[user + ad] == pytest.approx(naive(seed, user, ad))


def test_over_seeds_its_mean_is_about_0_and_its_variance_about_1():
    tables = [subject.entangled(seed, (2, 2), (3, 2)) for seed in range(300)]
    assert abs(np.mean(tables)) < 0.1
    assert np.mean(np.square(tables)) == pytest.approx(1.0, abs=0.1)


def test_a_further_value_of_the_first_attribute_changes_no_taste_of_the_others():
    fewer, more = subject.entangled(0, (6, 8), AD), subject.entangled(0, (7, 8), AD)
    np.testing.assert_allclose(fewer, more[:6])
