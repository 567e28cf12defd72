"""Images for the tests of those larger than memory, and runs that stop."""

import os

import numpy as np
import pytest


def noisy(height, width, *channels, seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    clean = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return (clean + rng.normal(0, 20, (*channels, height, width))).astype(np.float32)


def counts(*shape):
    """An image of few photons."""
    y, x = np.mgrid[: shape[-2], : shape[-1]]
    return np.random.default_rng(0).poisson(0.5 + 0.4 * np.sin(x / 9) * np.cos(y / 7), shape)


GIVEN = {"sigma": 20, "data_range": 255}


kills = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")


def kept(folder):
    """Files of whole bands."""
    work = folder / ".out.zarr.part"
    return [path for path in work.glob("*/0-*/*-*/*") if not path.name.startswith(".")]


class Stopped(Exception):
    pass


def stops_at(tick):
    """For `progress`: an exception after so many bands."""

    def stop(done, total):
        if done == tick:
            raise Stopped

    return stop


def partly_known(*channels):
    """An image, a mask with a hole of several bands, and a map of sigma with levels of all kinds."""
    rng, height, width = np.random.default_rng(1), 171, 75
    mask = rng.random((height, width)) < 0.05
    mask[40:150, 20:70] = True
    sigma = np.full((*channels, height, width), np.linspace(10, 40, width))
    if channels:
        sigma *= 1.3 ** np.arange(len(sigma))[:, None, None]
    sigma[..., rng.random((height, width)) < 0.02] = 500  # unreliable
    sigma[..., rng.random((height, width)) < 0.02] = 1e30  # unknown
    sigma[..., 7] = 0
    return noisy(height, width, *channels), mask, sigma
