"""Scenes that move from frame to frame, with noise, for the tests."""

import numpy as np
import pytest

methods = pytest.mark.parametrize("method", ["fast", "standard", "best"])


def scene(count=6, shape=(56, 64), step=1.5, seed=0):
    """A textured scene that moves by `step` columns from frame to frame."""
    random = np.random.default_rng(seed)
    waves = random.uniform(0.1, 0.6, (5, 2)), random.uniform(0, 6, 5), random.uniform(8, 16, 5)
    y, x = np.mgrid[: shape[0], : shape[1]]
    frames = []
    for number in range(count):
        frame = np.full(shape, 128.0)
        for k, ((a, b), phase, height) in enumerate(zip(*waves, strict=True)):
            wave = np.sin(a * y + b * (x - step * number) + phase)
            frame += height * (np.sign(wave) if k < 2 else wave)
        frames.append(frame)
    return np.stack(frames)


def with_noise(clip, sigma=20, seed=1):
    return clip + np.random.default_rng(seed).normal(0, sigma, clip.shape)
