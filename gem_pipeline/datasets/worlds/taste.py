"""An entangled taste: a smooth function of who, what and where together, of which no table of two columns tells all.

Each value of an attribute has a point in a space of few dimensions. A user stands at the sum of age, region and
device, an ad on a surface at that of topic, format, goal and surface; a sum of random waves over both points is how
much the one likes the other (random Fourier features of a Gaussian kernel, Rahimi and Recht, NeurIPS 2007). All
columns are logged, so nothing is hidden, but a model needs width and depth to draw the function. Ours.
"""

from __future__ import annotations

import numpy as np

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.draws import Floats

DIM = 4
WAVES = 128
FREQUENCY = 0.7  # of a wave along each dimension; a higher one makes the function rougher


def entangled(seed: int, user: tuple[int, ...], ad: tuple[int, ...]) -> Floats:
    """Taste of every kind of user for every kind of ad, of mean 0 and variance about 1 over seeds.

    Args:
        seed: of the world.
        user: numbers of values of a user's attributes.
        ad: those of an ad where it is shown.

    Returns:
        One dimension an attribute, users' first.
    """
    waves = np.arange(WAVES)
    keys = draws.key(seed, 46, waves)
    phase_W, height_W = 2 * np.pi * draws.uniform(keys, "phase"), draws.normal(keys, "height")
    user_UW, ad_VW = _on_waves(seed, user, "who") + phase_W, _on_waves(seed, ad, "what")
    # cos(u + v) by its addition theorem: two products of matrices instead of a cosine a kind of user, ad and wave
    taste_UV = (height_W * np.cos(user_UW)) @ np.cos(ad_VW).T - (height_W * np.sin(user_UW)) @ np.sin(ad_VW).T
    return np.sqrt(2.0 / WAVES) * taste_UV.reshape(*user, *ad)


def _on_waves(seed: int, sizes: tuple[int, ...], side: str) -> Floats:
    """Where every kind of one side stands along each wave, [kinds, WAVES]."""
    dims = np.arange(DIM)
    place_ND = np.zeros((1, DIM))
    for attribute, size in enumerate(sizes):
        keys = draws.key(seed, 44, attribute, np.arange(size)[:, None], dims)
        place_ND = (place_ND[:, None, :] + draws.normal(keys, side)).reshape(-1, DIM)
    wave_DW = FREQUENCY * draws.normal(draws.key(seed, 45, dims[:, None], np.arange(WAVES)), side)
    return place_ND / np.sqrt(len(sizes)) @ wave_DW
