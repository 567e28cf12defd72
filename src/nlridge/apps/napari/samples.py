"""Synthetic samples, which napari opens from File > Open Sample > nlridge."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ... import to_dtype

_GAIN, _OFFSET, _READ_NOISE = 2.0, 100.0, 3.0  # a camera: counts per photon, and counts


def cells() -> list[tuple[npt.NDArray[np.uint16], dict[str, Any], str]]:
    """Return a field of cells with photon noise, of 512 x 512 pixels."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:512, :512].astype(np.float32)
    photons = np.full((512, 512), 2.0, np.float32)
    for _ in range(24):
        row, column = rng.uniform(0, 512, 2)
        angle, length, width = rng.uniform(0, np.pi), rng.uniform(25, 45), rng.uniform(16, 26)
        along = (x - column) * np.cos(angle) + (y - row) * np.sin(angle)
        across = (y - row) * np.cos(angle) - (x - column) * np.sin(angle)
        radius = np.hypot(along / length, across / width)
        filaments = 1 + 0.6 * np.sin(across * 0.9 + 3 * np.sin(along / 9))
        photons += 3 * filaments * (1 - np.tanh((radius - 1) * 10))
        photons += 7 * (1 - np.tanh((radius - 0.4) * 15))  # the nucleus
    arguments = {"name": "cells", "colormap": "green", "contrast_limits": (_OFFSET, 190)}
    return [(_seen(photons, rng), arguments, "image")]


def particles() -> list[tuple[npt.NDArray[np.uint16], dict[str, Any], str]]:
    """Return a time-lapse of particles that move on straight lines: 24 frames of 200 x 240 pixels."""
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:200, :240].astype(np.float32)
    start, speed = rng.uniform(0, (200, 240), (40, 2)), rng.normal(0, 1.5, (40, 2))
    light = rng.uniform(6, 20, 40)
    frames = np.full((24, 200, 240), 2.0, np.float32)
    for time, frame in enumerate(frames):
        places = (start + time * speed) % (200, 240)
        for (row, column), peak in zip(places, light, strict=True):
            frame += peak * np.exp(-((y - row) ** 2 + (x - column) ** 2) / 12)
    arguments = {
        "name": "particles",
        "axis_labels": ("t", "y", "x"),
        "scale": (0.5, 0.2, 0.2),
        "units": ("s", "um", "um"),
        "contrast_limits": (_OFFSET, 160),
    }
    return [(_seen(frames, rng), arguments, "image")]


def _seen(photons: npt.NDArray[np.float32], rng: np.random.Generator) -> npt.NDArray[np.uint16]:
    """Return what a camera makes of expected numbers of photons."""
    counts = _OFFSET + _GAIN * rng.poisson(photons) + rng.normal(0, _READ_NOISE, photons.shape)
    return to_dtype(counts, np.uint16)
