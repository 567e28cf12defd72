"""Videos for the tests of those larger than memory, and their plans."""

import numpy as np
from large_images import GIVEN

import nlridge
from nlridge.api.sequences import ArrayFrames
from nlridge.core.algorithm.tuning import Tuning
from nlridge.planning.options import checked_options
from nlridge.planning.sequences import plan_sequence


def moving(count, height=40, width=44, channels=(), seed=0):
    """Noisy frames that move, flicker a little and are cut once."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    frames = []
    for k in range(count):
        scene = np.sin((x + 1.5 * k) / 6) * np.cos(y / 7) if k < count // 2 else np.cos(x * y / 90)
        frames.append((128 + 60 * scene) * (1.0 if k % 5 else 1.1))
    clean = np.stack(frames).reshape(count, *(1,) * len(channels), height, width)
    noise = rng.normal(0, 20, (count, *channels, height, width))
    return (clean + noise).astype(np.float32)


def with_gaps(frames):
    frames = frames.copy()
    frames[3, 4:9, 5:20] = np.nan
    frames[5] = np.nan
    return frames


def level_map(shape):
    return np.where(np.indices(shape).sum(0) % 7 == 0, 30.0, 20.0)


CASES = {
    "gray": (moving(20), GIVEN),
    "of unknown noise": (moving(20), {}),
    "uint8": (np.clip(moving(10), 0, 255).astype(np.uint8), {"sigma": 20}),
    "color": (
        np.moveaxis(moving(7, channels=(3,)), 1, -1),
        {"channel_axis": -1, "method": "fast", **GIVEN},
    ),
    "with missing pixels": (with_gaps(moving(9)), {"method": "fast", **GIVEN}),
    "of few photons": (
        np.random.default_rng(0).poisson(np.abs(moving(8)) / 60).astype(np.uint16),
        {"noise": nlridge.PoissonGaussianNoise(1.0), "method": "fast"},
    ),
    "of one frame": (moving(1), GIVEN),
    "of two frames": (moving(2), {"sigma": 20}),
}


VOLUME = moving(12, 30, 34)
LAYOUTS = {
    "a volume with its spacing": (VOLUME, {"depth_axis": 0, "spacing": (2, 2, 2)}),
    "a volume": (np.moveaxis(VOLUME, 0, 2), {"depth_axis": 2}),
    "a stack of videos": (moving(6, 30, 34, (2,)), {"time_axis": 0, "stack_axis": 1}),
    "a stack of videos in color": (
        np.moveaxis(moving(6, 30, 34, (2, 3)), 0, 1),
        {"stack_axis": 0, "time_axis": 1, "channel_axis": 2},
    ),
}


class Counted:
    """An array that counts how often it is read, and what."""

    def __init__(self, array, chunks=None):
        self.array, self.chunks, self.read = array, chunks, []
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index):
        self.read.append((index[0].start, index[0].stop))
        return self.array[index]


def planned(video, method, sequence):
    options = checked_options(20, None, method, 255, Tuning(1.0))
    frames = ArrayFrames(video[:, None], None, np.full((1, 1, 1, 1), 20.0)).frame
    return plan_sequence(frames, len(video), options, sequence, workers=1), frames


FROZEN = np.repeat(moving(30, 24, 26), [1] * 8 + [40] + [1] * 21, axis=0)  # from frame 8 to 47
