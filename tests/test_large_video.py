"""Videos and volumes larger than memory: the same result to the bit, however the work is divided or stopped."""

import numpy as np
import pytest

import nlridge

zarr = pytest.importorskip("zarr")

GIVEN = {"sigma": 20, "data_range": 255}


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
    "colour": (
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


@pytest.mark.parametrize("name", CASES)
def test_videos_on_disk_are_as_in_memory(name, tmp_path):
    frames, options = CASES[name]
    whole = nlridge.denoise(frames, time_axis=0, **options)
    written = nlridge.denoise(frames, time_axis=0, out=tmp_path / "out.zarr", tile=64, **options)
    assert written.dtype == whole.dtype
    assert np.array_equal(written[:], whole, equal_nan=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]
