"""Clips that are hard to denoise across frames, and do not need any data."""

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

_COUNT, _SIZE = 10, (128, 160)


def hard_clips():
    """Clean clips of (frames, height, width) from 0 to 255, by name; see `noise_of` for their noise."""
    from skimage import data

    smooth, texture, other = _smooth(), data.camera().astype(float), data.brick().astype(float)
    random = np.random.default_rng(0)
    jumps = random.uniform(-60, 60, (_COUNT, 2))
    steps = np.cumsum(random.choice([0, 1, 1, 1, 3, 5], _COUNT))  # frames that were recorded
    slow = _views(texture, x=1.3 * _numbers())
    scenes = [smooth, texture, other]
    cuts = np.stack([_view(scenes[k // 3 % 3], 10 * k, k) for k in range(_COUNT)])
    signs = random.uniform(-1, 1, (_COUNT, 1, 1))
    return {
        "fast motion, smooth scene": _views(smooth, x=25 * _numbers() - 120),
        "fast motion, textured scene": _views(texture, x=25 * _numbers() - 120),
        "random motion, smooth scene": _views(smooth, *jumps.T),
        "random motion, textured scene": _views(texture, *jumps.T),
        "cuts every 3 frames": cuts,
        "flicker of 5 %": slow * (1 + 0.05 * signs),
        "flicker of 15 %": slow * (1 + 0.15 * signs),
        "every frame twice, new noise": slow[_numbers() // 2],
        "every frame twice, same noise": slow[_numbers() // 2],
        "every frame thrice, same noise": slow[_numbers() // 3],
        "dropped frames": _views(texture, x=3.0 * steps - 30),
        "one frame": slow[:1],
        "two frames": slow[:2],
        "three frames": slow[:3],
        "static scene": _views(texture),
        "static smooth scene": _views(smooth),
        "rotation, 3 degrees": _views(texture, angle=3 * _numbers()),
        "zoom, 4 %": _views(texture, zoom=1.04 ** _numbers()),
        "small object, 20 pixels a frame": _with_object(_views(texture)),
        "fade to black": slow * np.linspace(1, 0, _COUNT)[:, None, None],
        "fade to black, smooth scene": _views(smooth) * np.linspace(1, 0, _COUNT)[:, None, None],
    }


def noise_of(name, clip, sigma, seed=0):
    """White Gaussian noise, which frames share if the name of the clip says so."""
    noise = np.random.default_rng(seed).normal(0, sigma, clip.shape)
    if "same noise" in name:
        noise = noise[np.arange(len(clip)) // (3 if "thrice" in name else 2)]
    return noise


def _numbers():
    return np.arange(_COUNT)


def _smooth():
    """A scene without texture: gradients, and soft edges."""
    random = np.random.default_rng(1)
    broad = gaussian_filter(random.normal(size=(512, 512)), 40, mode="wrap")
    edges = gaussian_filter(random.normal(size=(512, 512)), 25, mode="wrap") > 0
    scene = broad / np.ptp(broad) + 0.5 * gaussian_filter(edges.astype(float), 2, mode="wrap")
    return 30 + 190 * (scene - scene.min()) / np.ptp(scene)


def _views(scene, y=0.0, x=0.0, angle=0.0, zoom=1.0):
    motion = np.broadcast_arrays(y, x, angle, zoom, _numbers())[:4]
    return np.stack([_view(scene, *values) for values in zip(*motion, strict=True)])


def _view(scene, y, x, angle=0.0, zoom=1.0):
    """The middle of a scene, moved, turned by so many degrees, and enlarged."""
    rows, columns = (np.arange(length) - (length - 1) / 2 for length in _SIZE)
    sine, cosine = np.sin(np.radians(angle)) / zoom, np.cos(np.radians(angle)) / zoom
    places = [
        scene.shape[0] / 2 + y + cosine * rows[:, None] - sine * columns,
        scene.shape[1] / 2 + x + sine * rows[:, None] + cosine * columns,
    ]
    return np.clip(map_coordinates(scene, places, order=3, mode="mirror"), 0, 255)


def _with_object(clip):
    clip = clip.copy()
    for k, frame in enumerate(clip):
        left = (20 * k + 5) % (_SIZE[1] - 10)
        frame[60:68, left : left + 8] = 250
    return clip
