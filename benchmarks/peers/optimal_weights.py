"""The example examples/optimal_weights.py, as a method."""

import nlridge

from ..images import color


def denoiser():
    from examples.optimal_weights import recipe

    def call(noisy, sigma):
        return nlridge.denoise(noisy, sigma, method=recipe(sigma), channel_axis=color(noisy))

    return call
