"""Compile and cache the kernels that the command line uses most: each method, in gray and color, still and moving."""

import numpy as np

import nlridge

rng = np.random.default_rng(0)
signal = 100 + 50 * np.sin(np.arange(96) / 9)
white = signal + rng.normal(0, 10, (96, 96))
photons = 4.0 * rng.poisson(signal / 4, (96, 96))
camera = nlridge.PoissonGaussianNoise(gain=4)
blur = nlridge.CorrelatedNoise(10, [[0.25, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 0.25]])
photo = np.stack([white, 0.8 * white, 0.5 * white], axis=-1) + rng.normal(0, 10, (96, 96, 3))
clip = signal + rng.normal(0, 10, (6, 96, 96))

for method in ("fast", "standard", "best"):
    nlridge.denoise(white, method=method)
    nlridge.denoise(photons, noise=camera, method=method)
    nlridge.denoise(white, noise=blur, method=method)
    nlridge.denoise(photo, channel_axis=-1, method=method)
    nlridge.denoise(clip, time_axis=0, method=method)
    nlridge.denoise(clip, depth_axis=0, method=method)
