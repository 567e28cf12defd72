"""The example examples/pewa.py, as a method."""

import nlridge

from ..images import color


def denoiser():
    from examples.pewa import recipe

    def call(noisy, sigma):
        return nlridge.denoise(noisy, sigma, method=recipe(sigma), channel_axis=color(noisy))

    return call
