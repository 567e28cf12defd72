"""The example examples/low_rank.py, as a method."""

import nlridge

from ..images import colour


def denoiser():
    from examples.low_rank import recipe

    def call(noisy, sigma):
        return nlridge.denoise(noisy, sigma, method=recipe(sigma), channel_axis=colour(noisy))

    return call
