"""The example examples/optimal_weights.py, as a method."""

import nlridge

from ..images import colour


def denoiser():
    from examples.optimal_weights import recipe

    def call(noisy, sigma):
        return nlridge.denoise(noisy, sigma, method=recipe(sigma), channel_axis=colour(noisy))

    return call
